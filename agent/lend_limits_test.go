package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/tool/guardrail"
	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/security/sandbox"
)

// using is a model whose helpers call the tool slow, and answer with its result.
func using() llm.Model {
	return helper(func(_ context.Context, r llm.Request, _ string) (llm.Message, error) {
		if m := last(r); m.Role == llm.Tool {
			return say(m.Results[0].Text)
		}
		return call(use("1", "slow", struct{}{}))
	})
}

// The guardrails of a parent's definition and of its task hold in an agent that it borrows, group by group.
func TestGuardrailsHoldInLentAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, using(), lending.LenderConfig{Definitions: []definition.Definition{asGeneral(defined(t, "guardrail: {override: [slow]}"))}}, runs("slow"))
		for name, tt := range map[string]struct {
			def    definition.Definition
			around []guardrail.Part // of the task, outermost first
			want   string
		}{
			"none":                              {definition.General(), nil, wide},
			"of the definition":                 {defined(t, "guardrail: {deny: [slow]}"), nil, "general's guardrail, as another node says"},
			"with an override of its own":       {defined(t, "guardrail: {deny: [slow], override: [slow]}"), nil, wide},
			"of the task":                       {definition.General(), []guardrail.Part{guardrail.Deny("slow")}, "guardrail 1, as another node says"},
			"of the task, overridden":           {definition.General(), []guardrail.Part{guardrail.Deny("slow"), guardrail.Override("slow")}, wide},
			"of the task, but not of its agent": {defined(t, "guardrail: {override: [slow]}"), []guardrail.Part{guardrail.Deny("slow")}, "guardrail 2, as another node says"},
			"that asks":                         {definition.General(), []guardrail.Part{guardrail.AskUser("slow")}, "requires approval for this"},
		} {
			m := l.a.spawn(t, agent.Order{Definition: asGeneral(tt.def)})
			ctx := t.Context()
			for _, part := range tt.around {
				g, err := guardrail.New(part)
				if err != nil {
					t.Fatal(err)
				}
				ctx = g.Around(ctx)
			}
			if got, err := l.a.task(ctx, m, "have help: x"); err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("%s: %q, %v; want %q", name, got, err, tt.want)
			}
			if err := l.a.community.Terminate(t.Context(), m.ID); err != nil {
				t.Error(err)
			}
		}
	})
}

func asGeneral(d definition.Definition) definition.Definition {
	d.Name, d.Accepts = "general", definition.General().Accepts
	return d
}

// What commands of the parent are held to holds at a lender that allows more.
func TestSandboxLimitsHoldInLentAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, using(), general(), runs("slow"))
		held := func(parts ...guardrail.Part) context.Context {
			g, err := guardrail.New(parts...)
			if err != nil {
				t.Fatal(err)
			}
			return g.Around(t.Context())
		}
		noNetwork := sandbox.Permissive()
		noNetwork.Network = sandbox.NetworkNone
		elsewhere := noNetwork
		elsewhere.Files.Write = []string{"/elsewhere"}
		for name, tt := range map[string]struct {
			def  definition.Definition
			ctx  context.Context
			want string
		}{
			"none":                  {definition.General(), t.Context(), wide},
			"of the definition":     {defined(t, "sandbox: {network: none}"), t.Context(), narrow},
			"of the task":           {definition.General(), held(guardrail.Sandbox(noNetwork)), `{"env":null,"fork":true,"narrowed":true,"network":"none"}`},
			"variables":             {defined(t, "sandbox: {env: [B]}"), t.Context(), `{"env":null,"fork":true,"narrowed":true,"network":"full"}`},
			"that no node can keep": {definition.General(), held(guardrail.Sandbox(elsewhere)), "another node cannot hold its commands to your sandbox limits: commands may write only"},
		} {
			m := l.a.spawn(t, agent.Order{Definition: asGeneral(tt.def)})
			if got, err := l.a.task(tt.ctx, m, "have help: x"); err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("%s: %q, %v; want %q", name, got, err, tt.want)
			}
			if err := l.a.community.Terminate(t.Context(), m.ID); err != nil {
				t.Error(err)
			}
		}
		if left := l.b.here(); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	})
}

// A lent agent gets no task that has other limits than it was spawned with.
func TestLentAgentRefusesTaskWithOtherLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			task, m := firstTask(r), last(r)
			switch {
			case m.Role == llm.Tool:
				return say(m.Results[0].Text)
			case task == "spawn":
				return call(use("1", "replicate_agent", map[string]any{"reason": "it is to help", "node": "bob"}))
			case strings.HasPrefix(task, "send "):
				return call(use("2", "send_signal", map[string]any{"member": strings.TrimPrefix(task, "send "), "data": "x"}))
			}
			return call(use("3", "slow", struct{}{}))
		})
		l := newLAN(t, model, general(), runs("slow"))
		m := l.a.spawn(t, agent.Order{})
		got, err := l.a.task(t.Context(), m, "spawn")
		if err != nil {
			t.Fatal(err)
		}
		child := agentID(got)
		g, err := guardrail.New(guardrail.Sandbox(sandbox.Restrictive()))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := l.a.task(g.Around(t.Context()), m, "send "+child); err != nil || !strings.Contains(got, "other sandbox limits hold for this task") {
			t.Errorf("inside of a guardrail: %q, %v", got, err)
		}
		if got, err := l.a.task(t.Context(), m, "send "+child); err != nil || got != wide {
			t.Errorf("outside of it: %q, %v", got, err)
		}
	})
}

func TestLenderRefusesLimitsThatItCannotKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, using(), general(), runs("slow"))
		for name, limits := range map[string]string{
			"another network": `{"Network":3}`, "a path": `{"Files":{"Read":["/etc"]}}`, "an unknown key": `{"Paths":[]}`, "no object": `"none"`,
		} {
			data, err := json.Marshal(map[string]any{"agent": "general", "sandbox": json.RawMessage(limits)})
			if err != nil {
				t.Fatal(err)
			}
			call := community.Call{Capability: lending.Capability, Payload: data, Listen: func(community.Update) {}}
			reply, err := l.b.community.Serve(t.Context(), community.Peer{ID: l.a.id}, call)
			if refusal := `{"why":"the sandbox limits of its definition, or those of its parent, cannot be kept there now"}`; err == nil && string(reply.Data) != refusal {
				t.Errorf("%s: it is lent: %s", name, reply.Data)
			}
		}
		if left := l.b.here(); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	})
}
