package conversation_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/agent/session"
)

// entries is a journal in memory.
type entries []session.Entry

func (e *entries) Add(more ...session.Entry) error    { *e = append(*e, more...); return nil }
func (e *entries) Commit(more ...session.Entry) error { return e.Add(more...) }

// talker answers each message with a text, and sums up.
func talker(sums *int) llm.Model {
	return llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
		text := strings.Repeat("talk ", 200)
		if strings.HasPrefix(r.System, "You sum up") {
			*sums++
			text = "there was much talk"
		}
		return llm.Response{Message: llm.Message{Text: text}, Usage: llm.Usage{Input: 10, Output: 10}, Stop: llm.StopEnd}, nil
	})
}

func TestCompactMakesRoomInShortHistoryAndIsReplayed(t *testing.T) {
	var kept entries
	sums, lost := 0, 0
	model := talker(&sums)
	c := conversation.New(conversation.Config{Model: model, Journal: &kept, OnLost: func(bool) { lost++ }})
	if gained, err := c.Compact(t.Context()); gained || err != nil {
		t.Errorf("an empty history: %v, %v", gained, err)
	}
	for range 4 {
		if _, err := c.Send(t.Context(), "talk on"); err != nil {
			t.Fatal(err)
		}
	}
	gained, err := c.Compact(t.Context())
	if !gained || err != nil || sums != 1 || lost != 1 {
		t.Fatalf("%v, %v with %d summaries, lost %d times", gained, err, sums, lost)
	}
	now := c.Transcript()
	if len(now) >= 8 || !strings.Contains(now[0].Text, "there was much talk") || conversation.Sound(now) != nil {
		t.Errorf("the history is %+v", now)
	}
	again := conversation.New(conversation.Config{Model: model, Past: kept})
	if diff := cmp.Diff(now, again.Transcript()); diff != "" || again.CanResume() {
		t.Errorf("the replayed history differs (-now +again)\n%s", diff)
	}
	if _, err := c.Send(t.Context(), "and on"); err != nil {
		t.Errorf("a message after that: %v", err)
	}
}

func TestCompactLeavesHistoryWhenItIsInterrupted(t *testing.T) {
	var kept entries
	sums := 0
	talk := talker(&sums)
	var c *conversation.Conversation
	c = conversation.New(conversation.Config{Journal: &kept, Model: llm.Func(func(ctx context.Context, r llm.Request) (llm.Response, error) {
		if strings.HasPrefix(r.System, "You sum up") {
			if err := c.Interrupt(); err != nil {
				t.Error(err)
			}
			return llm.Response{}, ctx.Err()
		}
		return llm.Collect(talk.Stream(ctx, r), nil)
	})})
	for range 4 {
		if _, err := c.Send(t.Context(), "talk on"); err != nil {
			t.Fatal(err)
		}
	}
	before, recorded := c.Transcript(), len(kept)
	if gained, err := c.Compact(t.Context()); gained || !errors.Is(err, context.Canceled) && !errors.Is(err, conversation.ErrInterrupted) {
		t.Errorf("%v, %v", gained, err)
	}
	if diff := cmp.Diff(before, c.Transcript()); diff != "" {
		t.Errorf("the history differs (-before +after)\n%s", diff)
	}
	for _, e := range kept[recorded:] {
		if e.Kind == session.Compaction {
			t.Errorf("recorded is %+v", e)
		}
	}
}

func TestClearIsNotRecorded(t *testing.T) {
	var kept entries
	sums := 0
	c := conversation.New(conversation.Config{Model: talker(&sums), Journal: &kept})
	if _, err := c.Send(t.Context(), "talk"); err != nil {
		t.Fatal(err)
	}
	n := len(kept)
	c.Clear()
	if len(c.Transcript()) != 0 || len(kept) != n {
		t.Errorf("there are %d messages and %d new entries", len(c.Transcript()), len(kept)-n)
	}
}
