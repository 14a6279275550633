package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/community"
)

// family is a model by which an agent makes a copy, gives it a task, and answers with its answer. Everything takes a second.
func family() llm.Model {
	return script(func(ctx context.Context, r llm.Request) (llm.Message, error) {
		if err := conversation.Sound(r.Messages); err != nil {
			return llm.Message{}, err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return llm.Message{}, ctx.Err()
		}
		m := last(r)
		switch {
		case strings.Contains(r.System, "You are a sub-agent of") && m.Role == llm.User:
			return call(use("", "slow", waitArgs{"2s"}), use("", "slow", waitArgs{"1s"}))
		case m.Role == llm.User:
			return call(use("", "replicate_agent", map[string]any{"reason": "x", "name": "copy"}))
		case m.Results[0].Name == "replicate_agent":
			return call(use("", "send_signal", map[string]any{"member": "copy", "data": "work"}), use("", "slow", waitArgs{"1s"}))
		}
		return say("done")
	})
}

// A task ends at every moment, in every way, and what it had begun is not left running: goroutines that are fail the
// bubble.
func TestTaskEndsAtEveryMomentAndLeavesNothing(t *testing.T) {
	for way, want := range map[string]error{"cancel": context.Canceled, "interrupt": conversation.ErrInterrupted, "terminate": nil} {
		t.Run(way, func(t *testing.T) {
			for n := 1; n <= 16; n++ {
				after := time.Duration(n) * 500 * time.Millisecond
				synctest.Test(t, func(t *testing.T) {
					h := newHouse(t, family(), slow())
					m := h.spawn(agent.Order{Policy: allowed(t, "slow", "replicate_agent", "send_signal")})
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					done := make(chan error, 1)
					go func() {
						_, err := h.community.Send(ctx, m.ID, community.Signal{Perception: "task", Data: []byte("go")})
						done <- err
					}()
					time.Sleep(after)
					synctest.Wait()
					start := time.Now()
					switch way {
					case "cancel":
						cancel()
					case "interrupt":
						_ = h.factory.Interrupt(m.ID)
					case "terminate":
						if err := h.community.Terminate(t.Context(), m.ID); err != nil {
							t.Error(err)
						}
					}
					if err := <-done; err != nil && want != nil && !errors.Is(err, want) {
						t.Errorf("after %v: %v", after, err)
					}
					synctest.Wait()
					if took := time.Since(start); way != "terminate" && took > 0 {
						t.Errorf("after %v: it took %v to end", after, took)
					}
					for _, one := range h.community.Members() {
						s, err := h.factory.State(one.ID)
						if err != nil || s.Responding || way == "terminate" {
							t.Errorf("after %v: %s is %+v, %v", after, one.Name, s, err)
						}
						if history, err := h.factory.Transcript(one.ID); err != nil || conversation.Sound(history) != nil {
							t.Errorf("after %v: the history of %s: %v, %v", after, one.Name, conversation.Sound(history), err)
						}
					}
				})
			}
		})
	}
}
