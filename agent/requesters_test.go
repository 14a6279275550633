package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"symbio/agent"
	"symbio/agent/llm"
	"symbio/community"
	"symbio/security/permission"
)

// A deputy that may do more than who asks it does no more than that for them.
func TestAgentDoesForAnotherOnlyWhatThatOneMayDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deputy string
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			m := last(r)
			switch {
			case m.Role == llm.Tool:
				return say(m.Results[0].Text)
			case m.Text == "ask the deputy":
				return call(use("1", "send_signal", map[string]any{"member": deputy, "perception": "task", "data": "wait"}))
			}
			return call(use("1", "slow", waitArgs{"1s"}))
		})
		h := newHouse(t, model, slow())
		var records []agent.RecordedDecision
		h.record = func(e agent.RecordedDecision) error { records = append(records, e); return nil }
		may := h.spawn(agent.Order{Policy: allowed(t, "slow", "send_signal")})
		able := h.spawn(agent.Order{Policy: allowed(t, "slow", "send_signal")})
		weak := h.spawn(agent.Order{Policy: allowed(t, "send_signal")})
		deputy = string(may.ID)
		if got, err := h.task(able, "ask the deputy"); err != nil || !strings.Contains(got, "waited 1s") {
			t.Errorf("one who may do it: %q, %v", got, err)
		}
		if got, err := h.task(weak, "ask the deputy"); err != nil || !strings.Contains(got, "Denied (permissions of "+weak.Name+")") {
			t.Errorf("one who may not: %q, %v", got, err)
		}
		if got, err := h.task(may, "wait"); err != nil || got != "waited 1s" {
			t.Errorf("the deputy for itself, afterwards: %q, %v", got, err)
		}
		var denied []agent.RecordedDecision
		for _, e := range records {
			if e.Verdict.Action == permission.Deny {
				denied = append(denied, e)
			}
		}
		if len(denied) != 1 || denied[0].Agent != deputy || len(denied[0].OnBehalfOf) != 1 || denied[0].OnBehalfOf[0] != weak.Name {
			t.Errorf("records of denials: %+v", denied)
		}
	})
}

// An agent that works for one of another node does no more than that one may, as far as its node says so.
func TestAgentDoesForOneOfAnotherNodeOnlyWhatThatOneMayDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deputy string
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			switch {
			case last(r).Role == llm.Tool:
				return say(last(r).Results[0].Text)
			case strings.Contains(last(r).Text, "pass it on"):
				return call(use("1", "send_signal", map[string]any{"member": deputy, "perception": "task", "data": "wait"}))
			}
			return call(use("1", "slow", waitArgs{"1s"}))
		})
		h := newHouse(t, model, slow())
		m := h.spawn(agent.Order{Policy: allowed(t, "slow", "send_signal")})
		deputy = string(h.spawn(agent.Order{Policy: allowed(t, "slow", "send_signal")}).ID)
		for name, tt := range map[string]struct{ said, task, want string }{
			"nothing said":       {"", "wait", "waited 1s"},
			"it may":             {`{"links":[{"name":"x","allow":["slow"],"default":"deny"}]}`, "wait", "waited 1s"},
			"it may not":         {`{"links":[{"name":"x","allow":["Read"],"default":"deny"}]}`, "wait", "Denied (permissions of x, as another node says)"},
			"over another":       {`{"links":[{"name":"x","deny":["slow"],"default":"allow"}]}`, "pass it on", "Denied (permissions of x, as another node says)"},
			"may over another":   {`{"links":[{"name":"x","default":"allow"}]}`, "pass it on", "waited 1s"},
			"it is not readable": {`{"links":[{"name":"x","default":"allow","unless":["slow"]}]}`, "wait", ""},
		} {
			r, err := h.community.Send(t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte(tt.task), Requester: []string{"other", "other/x"}, OnBehalf: []byte(tt.said)})
			if (err != nil) != (tt.want == "") || !strings.Contains(string(r.Data), tt.want) {
				t.Errorf("%s: %q, %v, want %q", name, r.Data, err, tt.want)
			}
			if err != nil && !errors.Is(err, community.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", name, err)
			}
		}
		if got, err := h.task(m, "wait"); err != nil || got != "waited 1s" {
			t.Errorf("afterwards for itself: %q, %v", got, err)
		}
	})
}
