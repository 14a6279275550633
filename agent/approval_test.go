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

// writing is a house whose agents write the file that their task names, or have a sub-agent do it.
func newWriter(t *testing.T) *asker {
	a := &asker{answer: tool.Answer{Allow: true, By: "me"}}
	write := tool.New(tool.Spec{Name: "Write", Description: "writes"}, func(context.Context, struct {
		File string `json:"file_path"`
	}) tool.Result {
		return tool.Result{Text: "written"}
	})
	a.house = newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
		task, m := firstTask(r), last(r)
		if m.Role == llm.User {
			task = m.Text
		}
		child, spawns := strings.CutPrefix(task, "have ")
		switch {
		case m.Role == llm.Tool && strings.Contains(m.Results[0].Text, "general-1"):
			return call(use("2", "send_signal", map[string]any{"member": "general-1", "data": child}))
		case m.Role == llm.Tool:
			return say(m.Results[0].Text)
		case spawns:
			return call(use("1", "replicate_agent", map[string]any{"reason": "it is to help", "task": child}))
		}
		return call(use("3", "Write", map[string]any{"file_path": task}))
	}), write)
	return a
}

// What a person allows for the session holds for the agent without a parent and its sub-agents, and is offered with what it
// would have covered.
func TestOfferHoldsForTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newWriter(t)
		ask := allowed(t, "replicate_agent", "send_signal")
		ask.Default = permission.Ask
		m, other := a.spawn(a.order(ask, definition.Definition{})), a.spawn(a.order(ask, definition.Definition{}))
		write := func(m community.Member, task string) {
			t.Helper()
			if got, err := a.task(m, task); err != nil || !strings.Contains(got, "written") {
				t.Fatalf("%s: %q, %v", task, got, err)
			}
		}
		for _, file := range []string{"a", "b", "b", "/elsewhere", "c", "d"} {
			write(m, file)
		}
		asked := a.asked[len(a.asked)-1]
		if len(a.asked) != 6 || len(asked.Offers) != 1 || asked.Root != string(m.ID) || asked.Offers[0].Kind != permission.OfferChanges || !strings.Contains(asked.Verdict.Why, "security: workspace") {
			t.Fatalf("asked %d times, at last %+v", len(a.asked), asked)
		}
		if got := strings.Join(asked.Offers[0].Covers, ", "); got != "Write c, Write b, Write a" {
			t.Errorf("it is shown to cover %s", got)
		}
		if elsewhere := a.asked[3]; len(elsewhere.Offers) > 0 || strings.Contains(elsewhere.Verdict.Why, "workspace") {
			t.Errorf("a write elsewhere is offered %+v", elsewhere.Offers)
		}
		granted, err := permission.Grants(asked.Offers[0].Rules, "/work", "session:1")
		if err != nil {
			t.Fatal(err)
		}
		a.sessions = map[string][]permission.Grant{asked.Root: granted}
		write(m, "e")
		write(m, "have f")
		if len(a.asked) != 6 {
			t.Errorf("asked about what is allowed for the session: %+v", a.asked[6:])
		}
		write(m, "/elsewhere")
		write(other, "a")
		if len(a.asked) != 8 || a.asked[7].Root != string(other.ID) || len(a.asked[7].Offers[0].Covers) > 0 {
			t.Errorf("another session is asked %+v", a.asked[6:])
		}
		if err := a.community.Terminate(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !slices.Equal(a.ended, []string{string(m.ID)}) {
			t.Errorf("told to have ended are %q, want %s", a.ended, m.ID)
		}
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
