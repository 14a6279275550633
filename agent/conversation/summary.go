package conversation

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/internal/security/visible"
)

//go:embed summary.md
var summaryPrompt string

// The model that writes a summary gets at most this many bytes of each text, and of the arguments of each
// call.
const (
	maxSummaryInput = 8 << 10
	maxArgsShown    = 1 << 10
)

// summary returns a summary of messages that the conversation's model writes. If the model refuses the
// request as too long, it gets half as much, down to smallest. If it fails, the summary is a shortened
// transcript and done.err has the reason: an exchange does not fail because it is long. The only errors are
// the errors of ctx and of the record.
func (x *exchange) summary(messages []llm.Message, done *compaction) (string, error) {
	c := x.c
	written := written(messages, maxSummaryInput, maxArgsShown)
	for room := c.Window() / 5 * 3 * bytesPerToken; ; room /= 2 {
		r := llm.Request{System: summaryPrompt, Messages: []llm.Message{{Role: llm.User, Text: tool.Shorten(written, room)}}}
		if err := c.record.request(x.draft.session.Model, sum(r.Messages)); err != nil {
			return "", err
		}
		begun := false
		got, err := llm.Collect(x.draft.session.Model.Stream(x.ctx, r), func(chunk llm.Chunk) {
			if begun = begun || chunk.Retry == nil; chunk.Retry != nil {
				x.c.cfg.Watch(x.ctx, retried(x.turn.Load(), *chunk.Retry))
			}
		})
		addReport(x, got.Usage, begun, err)
		done.usage = done.usage.Add(got.Usage)
		x.reply.Usage = x.reply.Usage.Add(got.Usage)
		switch text := strings.TrimSpace(got.Message.Text); {
		case x.ctx.Err() != nil:
			return "", x.ctx.Err()
		case errors.Is(err, llm.ErrContextLength) && room > smallest:
			continue
		case err == nil && text != "" && got.Stop != llm.StopFilter:
			return tool.Shorten(text, c.Window()/8*bytesPerToken), nil
		case err == nil:
			err = fmt.Errorf("it answered %q", visible.Prefix(text, 80))
		}
		done.err = err
		return tool.Shorten(written, c.Window()/16*bytesPerToken), nil
	}
}

// smallest is the smallest input of a summary, in bytes: a model that refuses this much refuses everything.
const smallest = 4 << 10

// written returns messages as a text, one line each. It shortens texts to words bytes and arguments to args
// bytes.
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
