package agent_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"symbio/agent"
	"symbio/agent/llm"
	"symbio/agent/tool/guardrail"
	"symbio/community"
)

// Who asks an agent for something keeps what they put around it, whatever the agent may do for others.
func TestGuardrailOfTheCallerHoldsInTheAgentItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			if m := last(r); m.Role == llm.Tool {
				return say(m.Results[0].Text)
			}
			return call(use("1", "slow", waitArgs{"1s"}))
		}), slow())
		m := h.spawn(agent.Order{Policy: allowed(t, "slow")})
		ask := func(parts ...guardrail.Part) string {
			g, err := guardrail.New(parts...)
			if err != nil {
				t.Fatal(err)
			}
			r, err := h.community.Send(g.Around(t.Context()), m.ID, community.Signal{Perception: "task", Data: []byte("go")})
			if err != nil {
				t.Fatal(err)
			}
			return string(r.Data)
		}
		if got := ask(); got != "waited 1s" {
			t.Errorf("without a guardrail: %q", got)
		}
		if got := ask(guardrail.Deny("slow")); !strings.Contains(got, "Denied (permissions of guardrail 1)") {
			t.Errorf("with one: %q", got)
		}
		if got := ask(); got != "waited 1s" {
			t.Errorf("after it: %q", got)
		}
	})
}
