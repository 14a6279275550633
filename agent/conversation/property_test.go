package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"symbio/agent/conversation"
	"symbio/agent/llm"
)

// deed is something that somebody does to a conversation.
type deed struct {
	what string
	at   time.Duration // since the one before
	ends time.Duration // when its context ends; 0 = never
	keep bool
}

var (
	deeds = []string{"send", "send", "send", "interject", "interject", "interject", "steer", "interrupt", "replace", "look"}
	turns = []string{"answer", "slow answer", "slow answer without a word", "wait", "wait", "two waits", "talk", "talk much", "unknown", "fail", "fail within", "too long", "refuse", "cut"}
)

var errModel = errors.New("the model failed")

// trial is a conversation and what is known of it from outside.
type trial struct {
	c     *conversation.Conversation
	turns []string
	fail  func(format string, args ...any)

	mu     sync.Mutex
	at     int           // guarded by mu
	asked  []llm.Request // guarded by mu
	asText []string      // what each was when it was asked; guarded by mu
	began  string        // what is in requests that were answered; guarded by mu
	inside int           // guarded by mu
}

// model does what was drawn, one after the other, and looks at each request.
func (x *trial) model() llm.Model {
	return llm.Func(func(ctx context.Context, r llm.Request) (out llm.Response, err error) {
		x.mu.Lock()
		if x.inside++; x.inside > 1 {
			x.fail("two requests at once")
		}
		if err := conversation.Sound(r.Messages); err != nil {
			x.fail("a request: %v\n%s", err, strings.Join(texts(r.Messages), "\n"))
		}
		x.asked, x.asText = append(x.asked, r), append(x.asText, strings.Join(texts(r.Messages), "\n"))
		turn := "answer"
		if x.at < len(x.turns) {
			turn = x.turns[x.at]
			x.at++
		}
		x.mu.Unlock()
		defer func() {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.inside--
			if (err == nil || out.Message.Text != "") && !isSummary(r) {
				for _, m := range r.Messages {
					if m.Role == llm.User {
						x.began += m.Text + "\n"
					}
				}
			}
		}()
		return x.turn(ctx, turn)
	})
}

func (x *trial) turn(ctx context.Context, turn string) (llm.Response, error) {
	answer := func(text string, calls ...llm.ToolCall) (llm.Response, error) {
		return llm.Response{Message: llm.Message{Text: text, Calls: calls}}, nil
	}
	switch turn {
	case "slow answer":
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return llm.Response{Message: llm.Message{Text: "I be"}}, ctx.Err()
		}
	case "slow answer without a word":
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return llm.Response{}, ctx.Err()
		}
	case "wait":
		return answer("", waits(2*time.Second))
	case "two waits":
		return answer("both", waits(2*time.Second), waits(5*time.Second))
	case "talk":
		return answer(strings.Repeat("hm ", 200), talks(500))
	case "talk much":
		return answer("", talks(4000), talks(20))
	case "unknown":
		return answer("", llm.ToolCall{Name: "nosuch"})
	case "fail":
		return llm.Response{}, errModel
	case "fail within":
		return llm.Response{Message: llm.Message{Text: "well", Calls: []llm.ToolCall{waits(time.Second)}}}, errModel
	case "too long":
		return llm.Response{}, &llm.Error{Err: llm.ErrContextLength}
	case "refuse":
		return llm.Response{Message: llm.Message{Text: "no"}, Stop: llm.StopFilter}, nil
	case "cut":
		return llm.Response{Message: llm.Message{Text: "and th"}, Stop: llm.StopLength}, nil
	}
	return answer("fine")
}

// has reports whether a request that was answered has the text.
func (x *trial) has(text string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Contains(x.began, text)
}

// do does a deed. What it returns is to be called when all is over.
func (x *trial) do(ctx context.Context, i int, d deed, started *sync.WaitGroup) (check func()) {
	cancel := context.CancelFunc(func() {})
	if d.ends > 0 {
		ctx, cancel = context.WithTimeout(ctx, d.ends)
	}
	text := fmt.Sprintf("<%d>", i)
	check = func() {}
	switch d.what {
	case "send":
		var err error
		started.Go(func() { defer cancel(); _, err = x.c.Send(ctx, text) })
		return func() {
			for _, may := range []error{nil, errModel, llm.ErrContextLength, llm.ErrRefused, llm.ErrCut, conversation.ErrInterrupted, conversation.ErrTurns, conversation.ErrBusy} {
				if errors.Is(err, may) {
					return
				}
			}
			if d.ends == 0 || !errors.Is(err, context.DeadlineExceeded) {
				x.fail("message %d: %v", i, err)
			}
		}
	case "interject":
		var r conversation.Receipt
		var err error
		started.Go(func() {
			defer cancel()
			r, err = x.c.Interject(ctx, conversation.Steering{Text: text, Keep: d.keep})
		})
		return func() {
			switch has := x.has(text); {
			case r.Text != text, (r.Outcome == conversation.Sent || errors.Is(err, context.DeadlineExceeded)) && d.ends == 0:
				x.fail("interject %d: %+v, %v", i, r, err)
			case r.Outcome == conversation.Delivered && !has, r.Outcome == conversation.Returned && has, r.Outcome == conversation.Kept && !has:
				x.fail("interject %d: %+v, and that a request with it was answered is %v", i, r, has)
			}
		}
	case "steer":
		if err := x.c.Steer(text); err == nil {
			check = func() {
				if !x.has(text) {
					x.fail("steering %d is in no request", i)
				}
			}
		}
	case "interrupt":
		_ = x.c.Interrupt()
	case "replace":
		h := []llm.Message{{Role: llm.User, Text: "other"}, {Role: llm.Assistant, Calls: []llm.ToolCall{{ID: text, Name: "wait"}}}, {Role: llm.Tool, Results: []llm.ToolResult{{CallID: text, Name: "wait", Text: strings.Repeat("r", 1000)}}}}
		if err := x.c.Replace(h[:1+2*(i%2)]); err != nil {
			x.fail("replace: %v", err)
		}
	case "look":
		if err := conversation.Sound(x.c.Transcript()); err != nil {
			x.fail("the transcript: %v", err)
		}
	}
	cancel()
	return check
}

func TestNoRequestHasACallWithoutItsResultWhateverIsDone(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) deed {
			return deed{
				rapid.SampledFrom(deeds).Draw(r, "what"), time.Duration(rapid.IntRange(1, 2500).Draw(r, "at")) * time.Millisecond,
				time.Duration(rapid.SampledFrom([]int{0, 0, 1, 1000, 2000, 4000}).Draw(r, "ends")) * time.Millisecond, rapid.Bool().Draw(r, "keep"),
			}
		}), 1, 25).Draw(r, "deeds")
		x := &trial{turns: rapid.SliceOfN(rapid.SampledFrom(turns), 0, 40).Draw(r, "turns")}
		var failed []string
		x.fail = func(format string, args ...any) { failed = append(failed, fmt.Sprintf(format, args...)) }
		synctest.Test(t, func(t *testing.T) { x.run(t, all) })
		if len(failed) > 0 {
			r.Fatal(strings.Join(failed, "\n"))
		}
	})
}

// run does them all, waits for the end, and looks at what is left. A goroutine that is left fails the bubble.
func (x *trial) run(t *testing.T, all []deed) {
	x.c = conversation.New(conversation.Config{Model: x.model(), Tools: tools(), Window: func() int { return 2000 }, MaxTurns: 5, Waiting: 4})
	var started sync.WaitGroup
	var checks []func()
	for i, d := range all {
		time.Sleep(d.at)
		synctest.Wait()
		checks = append(checks, x.do(t.Context(), i, d, &started))
	}
	started.Wait()
	x.turns = nil
	if _, err := x.c.Send(t.Context(), "the last"); err != nil { // takes all that is still to be said
		x.fail("the last message: %v", err)
	}
	for _, check := range checks {
		check()
	}
	if s := x.c.State(); s.Responding || s.Waiting > 0 || s.PendingSteering > 0 {
		x.fail("at the end it is %+v", s)
	}
	for i, r := range x.asked {
		if got := strings.Join(texts(r.Messages), "\n"); got != x.asText[i] {
			x.fail("request %d was written to: it was\n%s\nand is\n%s", i, x.asText[i], got)
		}
	}
	x.order(all)
}

// order looks whether messages were answered in their order.
func (x *trial) order(all []deed) {
	var first []int
	for i, d := range all {
		if d.what != "send" {
			continue
		}
		mark := fmt.Sprintf("<%d>", i)
		if at := slices.IndexFunc(x.asText, func(text string) bool { return strings.Contains(text, mark) }); at >= 0 {
			first = append(first, at)
		}
	}
	if !slices.IsSorted(first) {
		x.fail("messages were given to the model out of order: %v", first)
	}
}
