package conversation

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/security/visible"
)

//go:embed summary.md
var summaryPrompt string

// Of what is summed up, that much of each part is shown, in bytes.
const (
	maxSummaryInput = 8 << 10 // of what is said
	maxArgsShown    = 1 << 10 // of the arguments of a call
)

// summary has the model sum up messages. When it cannot, what they say is put together without it:
// an exchange does not fail because it is long.
func (x *exchange) summary(messages []llm.Message, done *Compaction) (string, error) {
	c := x.c
	written := written(messages, maxSummaryInput, maxArgsShown)
	for room := c.window / 5 * 3 * bytesPerToken; ; room /= 2 {
		r := llm.Request{System: summaryPrompt, Messages: []llm.Message{{Role: llm.User, Text: tool.Shorten(written, room)}}}
		got, err := llm.Collect(x.history.session.Model.Stream(x.ctx, r), func(chunk llm.Chunk) {
			if chunk.Retry != nil {
				x.emit(Event{Kind: Received, Chunk: llm.Chunk{Retry: chunk.Retry}})
			}
		})
		done.Usage = done.Usage.Add(got.Usage)
		x.reply.Usage = x.reply.Usage.Add(got.Usage)
		switch text := strings.TrimSpace(got.Message.Text); {
		case x.ctx.Err() != nil:
			return "", x.ctx.Err()
		case errors.Is(err, llm.ErrContextLength) && room > smallest:
			continue
		case err == nil && text != "" && got.Stop != llm.StopFilter:
			return tool.Shorten(text, c.window/8*bytesPerToken), nil
		case err == nil:
			err = fmt.Errorf("it answered %q", visible.Prefix(text, 80))
		}
		done.Err = err
		return tool.Shorten(written, c.window/16*bytesPerToken), nil
	}
}

// smallest is with how little of a conversation the model is asked to sum it up; what refuses that,
// refuses all.
const smallest = 4 << 10

// written is a conversation as a text.
func written(messages []llm.Message, words, args int) string {
	var b strings.Builder
	line := func(parts ...string) {
		for _, p := range parts {
			b.WriteString(p)
		}
		b.WriteByte('\n')
	}
	for _, m := range messages {
		switch {
		case m.Role == llm.User:
			line("PERSON: ", tool.Shorten(m.Text, words))
		case m.Role == llm.Assistant && m.Text != "":
			line("ASSISTANT: ", tool.Shorten(m.Text, words))
		}
		for _, call := range m.Calls {
			line("ASSISTANT calls ", call.Name, " ", visible.Prefix(string(call.Args), args))
		}
		for _, r := range m.Results {
			failed := ""
			if r.IsError {
				failed = ", an error"
			}
			line("RESULT of ", r.Name, failed, ": ", tool.Shorten(r.Text, words))
		}
	}
	return b.String()
}
