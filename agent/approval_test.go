package agent_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/security/permission"
)

// asker is a house whose agents want to use slow once for each task, and a person who is asked.
type asker struct {
	*house
	asked  []agent.ApprovalRequest
	answer tool.Answer
}

func newAsker(t *testing.T) *asker {
	a := &asker{answer: tool.Answer{Allow: true, By: "me"}}
	a.house = newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
		if last(r).Role == llm.Tool {
			return say(last(r).Results[0].Text)
		}
		return call(use("1", "slow", waitArgs{"1s"}))
	}), slow())
	return a
}

func (a *asker) order(p permission.Policy, def definition.Definition) agent.Order {
	return agent.Order{Definition: def, Policy: p, Ask: func(_ context.Context, asked agent.ApprovalRequest) tool.Answer {
		a.asked = append(a.asked, asked)
		return a.answer
	}}
}

func (a *asker) does(m community.Member, want string) {
	a.t.Helper()
	if got, err := a.task(m, "go"); err != nil || !strings.Contains(got, want) {
		a.t.Errorf("the task: %q, %v, want %q", got, err, want)
	}
}

func TestLastingApprovalHoldsForLaterAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(t)
		ask := permission.Policy{Default: permission.Ask}
		a.does(a.spawn(a.order(ask, definition.Definition{})), "waited")
		a.does(a.spawn(a.order(ask, definition.Definition{})), "waited")
		if len(a.asked) != 2 || len(a.asked[1].LastingRules) != 1 {
			t.Fatalf("asked %d times, at last with %+v", len(a.asked), a.asked)
		}
		a.granted = a.asked[1].LastingRules
		a.does(a.spawn(a.order(ask, definition.Definition{})), "waited")
		if len(a.asked) != 2 {
			t.Error("asked about what is allowed from now on")
		}
		deny := allowed(t)
		deny.Deny, deny.Default = allowed(t, "slow").Allow, permission.Ask
		a.does(a.spawn(a.order(deny, definition.Definition{})), "Denied")
	})
}

func TestUnkeepableAnswerIsNotOfferedAsLasting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(t)
		careful := definition.General()
		careful.Permissions.Default = "ask"
		careful.Permissions.Preset = "none"
		a.does(a.spawn(a.order(permission.Policy{Default: permission.Ask}, careful)), "waited")
		a.does(a.spawn(a.order(permission.Policy{Default: permission.Allow}, careful)), "waited")
		if len(a.asked) != 2 || len(a.asked[0].LastingRules)+len(a.asked[1].LastingRules) != 0 {
			t.Errorf("a definition that asks each time: %+v", a.asked)
		}
	})
}

func TestApprovalShowsRemoteRequesters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(t)
		m := a.spawn(a.order(permission.Policy{Default: permission.Ask}, definition.Definition{}))
		for _, tt := range []struct{ requester, want []string }{
			{nil, nil},
			{[]string{"other"}, []string{"other"}},
			{[]string{"other", "other/x", "other/y"}, []string{"other", "other/y (claimed)", "other/x (claimed)"}},
			{[]string{"other", "third/z"}, []string{"other", "third/z (claimed)"}},
			{[]string{string(m.Node) + "/gone"}, nil},
		} {
			a.asked = nil
			if _, err := a.community.Send(t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte("go"), Requester: tt.requester}); err != nil {
				t.Fatal(err)
			}
			if len(a.asked) != 1 || !slices.Equal(a.asked[0].OnBehalfOf, tt.want) {
				t.Errorf("for %v: asked %+v, want %v", tt.requester, a.asked, tt.want)
			}
		}
	})
}
