package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent/conversation"
	"symbio/agent/llm"
)

// late waits a second, unless ctx ends.
func late(ctx context.Context) error {
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// everything is a conversation whose exchange waits at every place at which one can: for the prompt, before each turn, for
// the model, within its answer, for tools, for a summary.
func everything() *conversation.Conversation {
	turn := 0
	model := llm.Func(func(ctx context.Context, r llm.Request) (llm.Response, error) {
		if err := late(ctx); err != nil {
			return llm.Response{Message: llm.Message{Text: "I beg"}}, err
		}
		switch turn++; {
		case isSummary(r):
			return llm.Response{Message: llm.Message{Text: "summary"}}, nil
		case turn > 6:
			return llm.Response{Message: llm.Message{Text: "done"}}, nil
		}
		return llm.Response{Message: llm.Message{Text: strings.Repeat("a", 5000), Calls: []llm.ToolCall{waits(time.Second), waits(2 * time.Second)}}}, nil
	})
	return conversation.New(conversation.Config{
		Model: model, Tools: tools(), Window: func() int { return 6000 },
		System: func(ctx context.Context) ([]conversation.Part, error) { return nil, late(ctx) },
		Before: func(ctx context.Context, _ int) bool { _ = late(ctx); return false },
	})
}

// end runs the conversation and ends it after so long in one of the ways. Goroutines that are left fail the bubble.
func end(t *testing.T, way string, after time.Duration) (ended bool) {
	synctest.Test(t, func(t *testing.T) {
		c := everything()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if way == "deadline" {
			ctx, cancel = context.WithTimeout(ctx, after)
			defer cancel()
		}
		start := time.Now()
		work := send(ctx, c, "work")
		synctest.Wait()
		queued := send(ctx, c, "queued")
		said := interject(t.Context(), c, conversation.Steering{Text: "said"})
		time.Sleep(after)
		wantErr := map[string]error{"cancel": context.Canceled, "deadline": context.DeadlineExceeded, "interrupt": conversation.ErrInterrupted}[way]
		synctest.Wait()
		switch way {
		case "cancel":
			cancel()
		case "interrupt":
			_ = c.Interrupt()
		}
		if _, err := work(); !errors.Is(err, wantErr) && err != nil {
			t.Errorf("%s after %v: %v", way, after, err)
		} else if took := time.Since(start); err != nil && took > after {
			t.Errorf("%s after %v: it took until %v", way, after, took)
		} else if err == nil {
			ended = true
		}
		cancel()
		_, _ = queued()
		if r, err := said(); err != nil || r.Outcome != conversation.Delivered && r.Outcome != conversation.Returned {
			t.Errorf("%s after %v: %+v, %v", way, after, r, err)
		}
		if err := conversation.Sound(c.Transcript()); err != nil {
			t.Errorf("%s after %v: %v", way, after, err)
		}
		if s := c.State(); s.Responding || s.Waiting+s.PendingSteering > 0 {
			t.Errorf("%s after %v: %+v", way, after, s)
		}
	})
	return ended
}

func TestExchangeEndsAtEveryMomentAndLeavesNothing(t *testing.T) {
	for _, way := range []string{"cancel", "deadline", "interrupt"} {
		t.Run(way, func(t *testing.T) {
			for n := 1; ; n++ {
				// In the midst of each wait, and at the very moment at which it is over.
				if end(t, way, time.Duration(n)*500*time.Millisecond) {
					if n < 40 {
						t.Errorf("it was done after %d half seconds: too soon for all that there is to wait for", n)
					}
					return
				}
				if n > 200 {
					t.Fatal(fmt.Sprint("it is not done after ", n, " half seconds"))
				}
			}
		})
	}
}
