package agent

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/internal/agent/workcontext"
)

// Limits of the attachments of one message. The text is bounded like the files for agents: 16,000 tokens, an eighth of
// a usual window; what would be cut to less than minAttachedText bytes is left out.
const (
	maxAttached       = 16
	maxAttachedImages = 8
	maxAttachedText   = 64 << 10
	minAttachedText   = 1 << 10
)

// takeNamed returns what the model is shown behind a person's task: note, the texts of the skills that the task names or
// triggers, and the files that it names. Piped text names nothing. The error is the cause of ctx if that ended.
func takeNamed(ctx context.Context, a *Agent, note, task string) (llm.Message, error) {
	words, _, _ := strings.Cut(task, Piped)
	note, err := a.skills.takeNamed(ctx, note, words, task[len(words):])
	more := attach(ctx, a, words)
	more.Text = strings.TrimSpace(note + "\n\n" + more.Text)
	return more, err
}

// attach returns the files that a person's message names as @path, as Read shows them, with the pictures. The agent has read
// them, and may edit them. A file that it may not read unasked is left out, and the person and the model are told so.
func attach(ctx context.Context, a *Agent, message string) (more llm.Message) {
	home, _ := os.UserHomeDir() // without it, ~/ names no file
	seen := map[string]bool{}
	room := min(maxAttachedText, a.conversation.Window()/2) // bytes: an eighth of the tokens
	for word, path := range workcontext.Mentions(message, a.instance.order.Workspace.Dir, home) {
		if info, err := os.Stat(path); ctx.Err() != nil || seen[path] || err != nil || !info.Mode().IsRegular() {
			continue
		}
		seen[path] = true
		if len(seen) > maxAttached {
			leaveOut(a, &more, "more files", fmt.Sprintf("at most %d are", maxAttached))
			break
		}
		if room < minAttachedText {
			leaveOut(a, &more, "@"+word, "the files are too long together; Read has it")
			continue
		}
		a.attached++
		r := a.set.RunUnasked(ctx, llm.ToolCall{ID: fmt.Sprintf("attached-%d", a.attached), Name: "Read", Args: readable(map[string]any{"file_path": path})})
		switch {
		case r.IsError:
			leaveOut(a, &more, "@"+word, cmp.Or(r.Text, "it cannot be read"))
			continue
		case len(more.Images)+len(r.Images) > maxAttachedImages:
			leaveOut(a, &more, "@"+word, fmt.Sprintf("at most %d pictures are", maxAttachedImages))
			continue
		}
		text := tool.Shorten(r.Text, room)
		room -= len(text)
		more.Images = append(more.Images, r.Images...)
		more.Text += fmt.Sprintf("[The message names @%s. Read shows of it:]\n%s\n\n", word, strings.TrimRight(text, "\n"))
	}
	return more
}

// leaveOut says that what a message names is not attached.
func leaveOut(a *Agent, more *llm.Message, what, why string) {
	text := fmt.Sprintf("%s: not attached to the message: %s", what, why)
	a.instance.events.notice(text)
	more.Text += "[" + text + "]\n\n"
}
