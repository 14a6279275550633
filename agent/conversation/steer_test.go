package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/conversation"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/internal/agent/llm/retry"
)

// interject says something in a goroutine of its own.
func interject(ctx context.Context, c *conversation.Conversation, s conversation.Steering) func() (conversation.Receipt, error) {
	var r conversation.Receipt
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { r, err = c.Interject(ctx, s) })
	return func() (conversation.Receipt, error) { wg.Wait(); return r, err }
}

func wantReceipt(t *testing.T, what string, done func() (conversation.Receipt, error), outcome conversation.Outcome, turn int, wantErr error) {
	t.Helper()
	if r, err := done(); r.Outcome != outcome || r.Turn != turn || !errors.Is(err, wantErr) || (outcome == conversation.Returned) != (r.Why != "") || r.At.IsZero() {
		t.Errorf("%s: %+v, %v; want %s in turn %d, %v", what, r, err, outcome, turn, wantErr)
	}
}

func TestSteeringStandsBeforeTheNextMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		c := conversation.New(conversation.Config{Model: echo(), Waiting: 2, Watch: func(_ context.Context, e event.Event) {
			if e.Type == event.TypeSteered {
				told = append(told, fmt.Sprint(e.Text, " ", event.PartOf[event.Steering](e).Outcome))
			}
		}})
		steer := func(text string, want error) {
			t.Helper()
			if err := c.Steer(text); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", text, err, want)
			}
		}
		steer("one", nil)
		steer("two", nil)
		steer("three", conversation.ErrBusy)
		if n := c.PendingSteering(); n != 2 {
			t.Errorf("%d pending, want 2", n)
		}
		first := send(t.Context(), c, "first")
		synctest.Wait()
		steer("late", nil) // for the message after the one in flight
		want(t, "first", first, "re: one\n\ntwo\n\nfirst", nil)
		want(t, "second", send(t.Context(), c, "second"), "re: late\n\nsecond", nil)
		want(t, "third", send(t.Context(), c, "third"), "re: third", nil)
		if d := cmp.Diff([]string{"one delivered", "two delivered", "late delivered"}, told); d != "" {
			t.Errorf("told (-want +got):\n%s", d)
		}
	})
}

func TestSteeringOfUnansweredMessageWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		c := conversation.New(conversation.Config{Model: answers(func(_ context.Context, r llm.Request) (llm.Message, error) {
			if strings.HasSuffix(lastWords(r), "fail") {
				time.Sleep(time.Second)
				return llm.Message{}, broken
			}
			return say(lastWords(r))
		})})
		if err := errors.Join(c.Steer("a"), c.Steer("b")); err != nil {
			t.Fatal(err)
		}
		fail := send(t.Context(), c, "fail")
		synctest.Wait()
		if err := c.Steer("c"); err != nil {
			t.Fatal(err)
		}
		want(t, "fail", fail, "", broken)
		if n := c.PendingSteering(); n != 3 {
			t.Errorf("%d pending, want all", n)
		}
		want(t, "ok", send(t.Context(), c, "ok"), "a\n\nb\n\nc\n\nok", nil)
	})
}

// worker calls wait until it was told to stop, and answers with what it was told then.
func worker() llm.Model {
	return answers(func(ctx context.Context, r llm.Request) (llm.Message, error) {
		if text := lastWords(r); strings.Contains(text, "stop") {
			return say("told: " + text)
		}
		return call(waits(10 * time.Second))
	})
}

func TestCurrentHasRunningExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := conversation.New(conversation.Config{Model: worker(), Tools: tools()})
		want(t, "first", send(t.Context(), c, "stop"), "told: stop", nil)
		second := send(t.Context(), c, "work")
		synctest.Wait()
		roles := func() (all []llm.Role) {
			for _, m := range c.Current() {
				all = append(all, m.Role)
			}
			return all
		}
		if got := roles(); !slices.Equal(got, []llm.Role{llm.User, llm.Assistant, llm.User}) || len(c.Transcript()) != 2 {
			t.Errorf("while the first call runs it has %v", got)
		}
		time.Sleep(15 * time.Second)
		if got := roles(); !slices.Equal(got[3:], []llm.Role{llm.Assistant, llm.Tool}) {
			t.Errorf("while the second call runs it has %v", got)
		}
		stop := interject(t.Context(), c, conversation.Steering{Text: "stop"})
		wantReceipt(t, "stop", stop, conversation.Delivered, 3, nil)
		want(t, "second", second, "told: stop", nil)
		if d := cmp.Diff(c.Transcript(), c.Current()); d != "" {
			t.Errorf("after the end (-history +current):\n%s", d)
		}
	})
}

func TestSteeringIsDeliveredBetweenCallsAndNextTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		var taken atomic.Int32
		c := conversation.New(conversation.Config{Model: worker(), Tools: tools(), Watch: func(_ context.Context, e event.Event) {
			if e.Type == event.TypeSteered {
				events = append(events, fmt.Sprint(event.PartOf[event.Steering](e).Turn, e.Text, event.PartOf[event.Steering](e).Outcome))
			}
		}})
		work := send(t.Context(), c, "work")
		time.Sleep(12 * time.Second) // in the second wait
		one := interject(t.Context(), c, conversation.Steering{Text: "one", Taken: func(context.Context) (none llm.Message) { taken.Add(1); return none }})
		synctest.Wait()
		two := interject(t.Context(), c, conversation.Steering{Text: "stop"})
		synctest.Wait()
		if s := c.State(); s.PendingSteering != 2 || s.Turn != 2 || taken.Load() != 0 {
			t.Errorf("state %+v, taken %d times; want both pending in turn 2", s, taken.Load())
		}
		start := time.Now()
		wantReceipt(t, "one", one, conversation.Delivered, 3, nil)
		wantReceipt(t, "two", two, conversation.Delivered, 3, nil)
		if took := time.Since(start); took != 8*time.Second || taken.Load() != 1 {
			t.Errorf("delivered after %v, taken %d times; want at the end of the calls, 8s", took, taken.Load())
		}
		want(t, "work", work, "told: one\n\nstop", nil)
		if d := cmp.Diff([]string{"3onedelivered", "3stopdelivered"}, events); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]string{
			"user: work", "assistant: [c1 wait]", "tool: [c1 waited 10 s]", "assistant: [c2 wait]", "tool: [c2 waited 10 s]", "user: one\n\nstop", "assistant: told: one\n\nstop",
		}, texts(c.Transcript())); d != "" {
			t.Errorf("transcript (-want +got):\n%s", d)
		}
	})
}

func TestUndeliveredSteeringIsReturned(t *testing.T) {
	for name, test := range map[string]struct {
		model func(ctx context.Context, r llm.Request) (llm.Message, error)
		do    func(c *conversation.Conversation, cancel context.CancelFunc)
		twice bool // it is a list of models
		err   error
	}{
		"the model is done": {model: func(context.Context, llm.Request) (llm.Message, error) {
			time.Sleep(10 * time.Second)
			return say("done")
		}},
		"the model fails": {model: func(context.Context, llm.Request) (llm.Message, error) {
			time.Sleep(10 * time.Second)
			return llm.Message{}, llm.ErrUnavailable
		}, err: llm.ErrUnavailable},
		"the model fails with it": {model: func(_ context.Context, r llm.Request) (llm.Message, error) {
			if last(r).Role == llm.User && len(r.Messages) > 1 {
				return llm.Message{}, llm.ErrUnavailable
			}
			return call(waits(10 * time.Second))
		}, err: llm.ErrUnavailable},
		"the model fails after it was asked again": {model: func(_ context.Context, r llm.Request) (llm.Message, error) {
			if last(r).Role == llm.User && len(r.Messages) > 1 {
				return llm.Message{}, &llm.Error{Err: llm.ErrUnavailable}
			}
			return call(waits(10 * time.Second))
		}, twice: true, err: llm.ErrUnavailable},
		"it is interrupted": {model: func(context.Context, llm.Request) (llm.Message, error) { return call(waits(10 * time.Second)) },
			do: func(c *conversation.Conversation, _ context.CancelFunc) { _ = c.Interrupt() }, err: conversation.ErrInterrupted},
		"it is cancelled": {model: func(context.Context, llm.Request) (llm.Message, error) { return call(waits(10 * time.Second)) },
			do: func(_ *conversation.Conversation, cancel context.CancelFunc) { cancel() }, err: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := answers(test.model)
				if test.twice {
					model = retry.New(retry.Config{Patience: -1}, model, model)
				}
				c := conversation.New(conversation.Config{Model: model, Tools: tools()})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				work := send(ctx, c, "work")
				time.Sleep(time.Second)
				said := interject(t.Context(), c, conversation.Steering{Text: "wait", Keep: true})
				synctest.Wait()
				if test.do != nil {
					test.do(c, cancel)
				}
				wantReceipt(t, name, said, conversation.Returned, 0, nil)
				if _, err := work(); !errors.Is(err, test.err) {
					t.Errorf("the message: %v, want %v", err, test.err)
				}
				if n := c.PendingSteering(); n != 0 {
					t.Errorf("%d pending after it was given back", n)
				}
			})
		})
	}
}

func TestOutsideOfAnExchangeItIsKeptIfWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := conversation.New(conversation.Config{Model: echo(), Waiting: 1})
		wantReceipt(t, "not wanted", interject(t.Context(), c, conversation.Steering{Text: "a"}), conversation.Returned, 0, nil)
		wantReceipt(t, "wanted", interject(t.Context(), c, conversation.Steering{Text: "b", Keep: true}), conversation.Kept, 0, nil)
		wantReceipt(t, "too much", interject(t.Context(), c, conversation.Steering{Text: "c", Keep: true}), conversation.Returned, 0, conversation.ErrBusy)
		want(t, "next", send(t.Context(), c, "next"), "re: b\n\nnext", nil)
		behind := conversation.Steering{Text: "second", Keep: true, Behind: true}
		wantReceipt(t, "said behind a message on its way", interject(t.Context(), c, behind), conversation.Kept, 0, nil)
		want(t, "in order", send(t.Context(), c, "first"), "re: first\n\nsecond", nil)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		wantReceipt(t, "ended", interject(ended, c, conversation.Steering{Text: "d", Keep: true}), conversation.Returned, 0, context.Canceled)
	})
}

func TestCancelledSteeringIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := answers(func(_ context.Context, r llm.Request) (llm.Message, error) {
			if lastWords(r) == "go" {
				return call(waits(10 * time.Second))
			}
			time.Sleep(10 * time.Second)
			return say("heard " + lastWords(r))
		})
		c := conversation.New(conversation.Config{Model: slow, Tools: tools()})
		work := send(t.Context(), c, "go")
		time.Sleep(time.Second)
		brief, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		longer, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		taken := interject(brief, c, conversation.Steering{Text: "taken back"})
		synctest.Wait()
		sent := interject(longer, c, conversation.Steering{Text: "sent"})
		wantReceipt(t, "taken back", taken, conversation.Returned, 0, context.DeadlineExceeded)
		wantReceipt(t, "sent", sent, conversation.Sent, 0, context.DeadlineExceeded)
		want(t, "work", work, "heard sent", nil)
	})
}

func TestSteeringIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := conversation.New(conversation.Config{Model: worker(), Tools: tools(), Waiting: 2})
		work := send(t.Context(), c, "work")
		time.Sleep(time.Second)
		first := interject(t.Context(), c, conversation.Steering{Text: "stop"})
		synctest.Wait()
		if err := c.Steer("x"); err != nil {
			t.Error(err)
		}
		wantReceipt(t, "third", interject(t.Context(), c, conversation.Steering{Text: "y"}), conversation.Returned, 0, conversation.ErrBusy)
		wantReceipt(t, "first", first, conversation.Delivered, 2, nil)
		want(t, "work", work, "told: stop", nil)
	})
}

func TestReturnedSteeringIsNotInLaterRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []llm.Request
		c := conversation.New(conversation.Config{Tools: tools(), Model: answers(func(ctx context.Context, r llm.Request) (llm.Message, error) {
			switch asked = append(asked, r); len(asked) {
			case 1:
				return call(waits(time.Second))
			case 2: // has what was said, and ends before the first word
				<-ctx.Done()
				return llm.Message{}, ctx.Err()
			}
			return say(lastWords(r))
		})})
		first := send(t.Context(), c, "first")
		synctest.Wait()
		said := interject(t.Context(), c, conversation.Steering{Text: "meanwhile"})
		time.Sleep(2 * time.Second)
		if err := c.Interrupt(); err != nil {
			t.Fatal(err)
		}
		want(t, "first", first, "", conversation.ErrInterrupted)
		wantReceipt(t, "meanwhile", said, conversation.Returned, 0, nil)
		want(t, "second", send(t.Context(), c, "second"), "[The last exchange was interrupted before its end; what was being done then may be half done.]\n\nsecond", nil)
		if all := strings.Join(texts(asked[2].Messages), "\n"); strings.Contains(all, "meanwhile") || !strings.Contains(all, "first") {
			t.Errorf("the request after the interruption is\n%s\nwant it with the first message and without what was returned", all)
		}
	})
}
