package conversation_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/conversation"
	"symbio/agent/llm"
)

// keeper keeps all requests that a model was given.
type keeper struct{ requests []llm.Request }

func (k *keeper) model(f func(ctx context.Context, r llm.Request) (llm.Message, error)) llm.Model {
	return answers(func(ctx context.Context, r llm.Request) (llm.Message, error) {
		k.requests = append(k.requests, r)
		return f(ctx, r)
	})
}

func (k *keeper) last() []string { return texts(k.requests[len(k.requests)-1].Messages) }

func TestInterruptedExchangeIsRememberedAsFarAsItIsWhole(t *testing.T) {
	for name, test := range map[string]struct {
		at   time.Duration
		want []string
	}{
		"in the first answer": {500 * time.Millisecond, []string{"user: next"}},
		"in the first call": {5 * time.Second, []string{
			"user: work", "assistant: I wait.[c1 wait]", "tool: [c1 did not wait]",
			"user: [The last exchange was interrupted before its end; what was being done then may be half done.]\n\nnext"}},
		"in the second answer": {11500 * time.Millisecond, []string{
			"user: work", "assistant: I wait.[c1 wait]", "tool: [c1 waited 10 s]",
			"user: [The last exchange was interrupted before its end; what was being done then may be half done.]\n\nnext"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var k keeper
				var lost []bool
				c := conversation.New(conversation.Config{Tools: tools(), OnLost: func(earlier bool) { lost = append(lost, earlier) }, Model: k.model(func(ctx context.Context, r llm.Request) (llm.Message, error) {
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
						return llm.Message{}, ctx.Err()
					}
					if strings.HasSuffix(lastWords(r), "next") {
						return say("fine")
					}
					return llm.Message{Text: "I wait.", Calls: []llm.ToolCall{waits(10 * time.Second)}}, nil
				})})
				work := send(t.Context(), c, "work")
				time.Sleep(test.at)
				if err := c.Interrupt(); err != nil {
					t.Fatal(err)
				}
				if _, err := work(); !errors.Is(err, conversation.ErrInterrupted) {
					t.Errorf("the message: %v", err)
				}
				if err := c.Interrupt(); !errors.Is(err, conversation.ErrIdle) {
					t.Errorf("interrupting nothing: %v", err)
				}
				want(t, "next", send(t.Context(), c, "next"), "fine", nil)
				if d := cmp.Diff(test.want, k.last()); d != "" {
					t.Errorf("the next request (-want +got):\n%s", d)
				}
				if forgot := len(test.want) == 1; forgot != (len(lost) == 1) {
					t.Errorf("lost = %v", lost)
				}
			})
		})
	}
}

func TestInterruptedAnswerIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keeper
		c := conversation.New(conversation.Config{Model: k.model(func(ctx context.Context, r llm.Request) (llm.Message, error) {
			if len(r.Messages) > 1 {
				return say("ok")
			}
			<-ctx.Done()
			return llm.Message{Text: "Well, I", Calls: []llm.ToolCall{waits(time.Second)}}, ctx.Err()
		})})
		work := send(t.Context(), c, "work")
		synctest.Wait()
		if err := c.Interrupt(); err != nil {
			t.Fatal(err)
		}
		want(t, "work", work, "Well, I", conversation.ErrInterrupted)
		want(t, "next", send(t.Context(), c, "next"), "ok", nil)
		if got := k.last(); got[1] != "assistant: Well, I" {
			t.Errorf("the next request is %q", got)
		}
	})
}

func TestLimitOfTurnsEndsAnExchangeAndItIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := conversation.New(conversation.Config{Model: worker(), Tools: tools(), MaxTurns: 2})
		want(t, "work", send(t.Context(), c, "work"), "", conversation.ErrTurns)
		want(t, "stop", send(t.Context(), c, "stop"), "told: [The last exchange was interrupted before its end; what was being done then may be half done.]\n\nstop", nil)
		if n := len(c.Transcript()); n != 7 {
			t.Errorf("%d messages, want 7", n)
		}
	})
}

func TestExchangeThatTheModelFailedInIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keeper
		lost := 0
		c := conversation.New(conversation.Config{Tools: tools(), OnLost: func(bool) { lost++ }, Model: k.model(func(_ context.Context, r llm.Request) (llm.Message, error) {
			switch m := last(r); {
			case m.Role == llm.Tool:
				return llm.Message{}, llm.ErrUnavailable
			case m.Text == "break":
				return call(waits(time.Second))
			}
			return say("ok")
		})})
		want(t, "first", send(t.Context(), c, "first"), "ok", nil)
		want(t, "break", send(t.Context(), c, "break"), "", llm.ErrUnavailable)
		before := texts(k.requests[2].Messages)
		want(t, "second", send(t.Context(), c, "second"), "ok", nil)
		if d := cmp.Diff([]string{"user: first", "assistant: ok", "user: second"}, k.last()); d != "" {
			t.Errorf("the request (-want +got):\n%s", d)
		}
		if d := cmp.Diff(before, texts(k.requests[2].Messages)); d != "" || lost != 1 {
			t.Errorf("lost %d times; an earlier request was written to (-before +now):\n%s", lost, d)
		}
	})
}

func TestAnswerThatIsNoneIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := conversation.New(conversation.Config{Model: stopping(llm.StopFilter)})
		r, err := c.Send(t.Context(), "go")
		if !errors.Is(err, llm.ErrRefused) || r.Text != "as far as it got" || len(c.Transcript()) != 0 {
			t.Errorf("%+v, %v, want that it was refused; %d messages", r, err, len(c.Transcript()))
		}
	})
}

func TestAnswerAtTheLimitOfItsLengthSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := conversation.New(conversation.Config{Model: stopping(llm.StopLength)})
		r, err := c.Send(t.Context(), "go")
		if err != nil || !strings.HasPrefix(r.Text, "as far as it got\n\n[The answer was cut here") || len(c.Transcript()) != 2 {
			t.Errorf("%+v, %v; %d messages", r, err, len(c.Transcript()))
		}
	})
}

func TestAnswerThatBreaksOffIsResumed(t *testing.T) {
	for name, test := range map[string]struct {
		parts []string // each but the last breaks off
		why   error
		fails error
	}{
		"once":              {[]string{"half, ", "whole"}, llm.ErrCut, nil},
		"before any text":   {[]string{"", "whole"}, llm.ErrCut, nil},
		"the server failed": {[]string{"a ", "b ", "c"}, llm.ErrUnavailable, nil},
		"too often":         {[]string{"a", "b", "c", "d", "e"}, llm.ErrCut, llm.ErrCut},
		"another error":     {[]string{"a", "b"}, llm.ErrDenied, llm.ErrDenied},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := 0
				c := conversation.New(conversation.Config{Model: llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
					part, before := test.parts[i], strings.Join(test.parts[:i], "")
					if n := len(r.Messages); before != "" && (n != 3 || r.Messages[1].Text != before || !strings.Contains(r.Messages[2].Text, "Go on")) {
						t.Errorf("request %d is %v", i, texts(r.Messages))
					}
					if i++; i == len(test.parts) {
						return llm.Response{Message: llm.Message{Text: part}}, nil
					}
					return llm.Response{Message: llm.Message{Text: part, Calls: []llm.ToolCall{{ID: "1", Name: "begun"}}}}, test.why
				})})
				r, err := c.Send(t.Context(), "go")
				if !errors.Is(err, test.fails) || r.Text != strings.Join(test.parts[:i], "") {
					t.Fatalf("%q, %v, want %v", r.Text, err, test.fails)
				}
				if all := c.Transcript(); err == nil && (len(all) != 2 || all[1].Text != r.Text) {
					t.Errorf("the history is %v", texts(all))
				}
			})
		})
	}
}

func TestHistoryIsReplacedForTheNextMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keeper
		lost := 0
		c := conversation.New(conversation.Config{Tools: tools(), OnLost: func(earlier bool) {
			if earlier {
				lost++
			}
		}, Model: k.model(func(_ context.Context, r llm.Request) (llm.Message, error) {
			if last(r).Role == llm.User && lastWords(r) == "work" {
				return call(waits(10 * time.Second))
			}
			return say("ok")
		})})
		want(t, "before", send(t.Context(), c, "before"), "ok", nil)
		work := send(t.Context(), c, "work")
		time.Sleep(time.Second)
		other := []llm.Message{{Role: llm.User, Text: "another"}, {Role: llm.Assistant, Text: "history"}}
		if err := c.Replace(other); err != nil {
			t.Fatal(err)
		}
		other[0].Text = "written to"
		want(t, "work", work, "ok", nil)
		if d := cmp.Diff([]string{"user: before", "assistant: ok", "user: work", "assistant: [c1 wait]", "tool: [c1 waited 10 s]"}, k.last()); d != "" {
			t.Errorf("the one in flight ends on the old history (-want +got):\n%s", d)
		}
		if lost != 0 {
			t.Error("it was told of the loss before its turn")
		}
		want(t, "next", send(t.Context(), c, "next"), "ok", nil)
		if d := cmp.Diff([]string{"user: another", "assistant: history", "user: next"}, k.last()); d != "" || lost != 1 {
			t.Errorf("lost %d times; the next one has the new history (-want +got):\n%s", lost, d)
		}
		got := c.Transcript()
		got[0].Text = "written to"
		if c.Transcript()[0].Text != "another" {
			t.Error("the transcript is no copy")
		}
	})
}

func TestOnlyAWholeHistoryIsTaken(t *testing.T) {
	u, done := llm.Message{Role: llm.User, Text: "u"}, llm.Message{Role: llm.Assistant, Text: "a"}
	calls := llm.Message{Role: llm.Assistant, Calls: []llm.ToolCall{{ID: "1"}, {ID: "2"}}}
	results := llm.Message{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "1"}, {CallID: "2"}}}
	for name, test := range map[string]struct {
		messages []llm.Message
		ok       bool
	}{
		"nothing":                {nil, true},
		"whole":                  {[]llm.Message{u, calls, results, u, done}, true},
		"ends with results":      {[]llm.Message{u, calls, results}, true},
		"begins with an answer":  {[]llm.Message{done}, false},
		"a call without results": {[]llm.Message{u, calls}, false},
		"said between":           {[]llm.Message{u, calls, u, results}, false},
		"one result":             {[]llm.Message{u, calls, {Role: llm.Tool, Results: results.Results[:1]}}, false},
		"results in disorder":    {[]llm.Message{u, calls, {Role: llm.Tool, Results: []llm.ToolResult{{CallID: "2"}, {CallID: "1"}}}}, false},
		"results without calls":  {[]llm.Message{u, results}, false},
		"results twice":          {[]llm.Message{u, calls, results, results}, false},
		"a user who calls":       {[]llm.Message{{Role: llm.User, Calls: calls.Calls}, results}, false},
		"an answer with results": {[]llm.Message{u, {Role: llm.Assistant, Results: results.Results}}, false},
		"an unknown role":        {[]llm.Message{u, {Role: "system"}}, false},
	} {
		c := conversation.New(conversation.Config{Model: describing("model")})
		err := c.Replace(test.messages)
		if (err == nil) != test.ok || err != nil && !errors.Is(err, conversation.ErrUnsound) {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(c.Transcript()); test.ok && n != len(test.messages) || !test.ok && n != 0 {
			t.Errorf("%s: %d messages", name, n)
		}
	}
}

func TestReplaceBeginsASessionForTheNextExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keeper
		slow := func(text string) llm.Model {
			return k.model(func(_ context.Context, r llm.Request) (llm.Message, error) {
				time.Sleep(time.Second)
				if last(r).Role == llm.User {
					return call(waits(time.Second))
				}
				return say(text)
			})
		}
		unsound := false
		c := conversation.New(conversation.Config{Model: slow("old"), Instructions: "old", NewSession: func(s conversation.Session) conversation.Session {
			switch {
			case unsound:
				s.Messages = []llm.Message{{Role: llm.Tool}}
			case s.Instructions == "old":
				s.Model, s.Tools, s.Instructions = slow("new"), tools(), "new"
			default:
				s = conversation.Session{}
			}
			return s
		}})
		first := send(t.Context(), c, "first")
		time.Sleep(500 * time.Millisecond)
		if err := c.Replace([]llm.Message{{Role: llm.User, Text: "before"}, {Role: llm.Assistant, Text: "yes"}}); err != nil {
			t.Fatal(err)
		}
		want(t, "the message in flight", first, "old", nil)
		want(t, "the next message", send(t.Context(), c, "second"), "new", nil)
		if old, r := k.requests[1], k.requests[3]; old.System != "old" || len(old.Tools) != 0 || r.System != "new" || len(r.Tools) == 0 {
			t.Errorf("the requests have %q and %d tools, %q and %d tools", old.System, len(old.Tools), r.System, len(r.Tools))
		}
		if d := cmp.Diff([]string{"user: before", "assistant: yes", "user: second"}, texts(k.requests[2].Messages)); d != "" {
			t.Errorf("the request of the new session (-want +got):\n%s", d)
		}
		if unsound = true; !errors.Is(c.Replace(nil), conversation.ErrUnsound) {
			t.Error("a session with a result of no call was begun")
		}
		if unsound = false; c.Replace(nil) != nil {
			t.Error("a session without anything was refused")
		}
		if _, err := c.Send(t.Context(), "third"); err == nil || len(c.Transcript()) != 0 {
			t.Errorf("a session without a model: %v, %d messages", err, len(c.Transcript()))
		}
	})
}
