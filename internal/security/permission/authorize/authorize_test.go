package authorize_test

import (
	"strings"
	"testing"

	"symbio/internal/security/permission/authorize"
	"symbio/security/permission"
)

func TestRulesDecideByCaller(t *testing.T) {
	in, err := authorize.New([]authorize.Rule{
		{From: "*", Invoke: []string{"text.*"}},
		{From: "role/worker", Send: []string{"work"}, Deny: []string{"text.secret"}},
		{From: "ab12*", Invoke: []string{"*"}},
		{From: "local", Send: []string{"*"}},
		{From: "cd34", Deny: []string{"*"}},
		{From: "cluster/home", Invoke: []string{"light.*"}, Deny: []string{"light.off"}},
		{From: "label/room=kitchen", Invoke: []string{"oven.*"}, Deny: []string{"text.bed"}},
		{From: "label/gpu", Invoke: []string{"render"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	node := func(id, authority, role string) authorize.Principal {
		return authorize.Principal{Node: id, Authority: authority, Role: role}
	}
	labelled := func(labels string) authorize.Principal {
		return authorize.Principal{Node: "ff", Authority: "home", Role: "node", Labels: labels}
	}
	for _, c := range []struct {
		from authorize.Principal
		kind authorize.Kind
		name string
		want permission.Action
	}{
		{node("ff", "", ""), authorize.KindInvoke, "text.wc", permission.Allow},
		{node("ff", "", ""), authorize.KindInvoke, "context.wc", permission.Deny},
		{node("ff", "", ""), authorize.KindSend, "text.wc", permission.Deny},
		{node("ff", "", "worker"), authorize.KindSend, "work", permission.Allow},
		{node("ff", "", "worker"), authorize.KindInvoke, "text.secret", permission.Deny},
		{node("ff", "", "workers"), authorize.KindSend, "work", permission.Deny},
		{node("ab1299", "", ""), authorize.KindInvoke, "anything", permission.Allow},
		{node("ab1299", "", ""), authorize.KindInvoke, "agent.perception.work", permission.Deny},
		{node("ee", "local", ""), authorize.KindInvoke, "agent.perception.work", permission.Allow},
		{node("ee", "local", ""), authorize.KindSend, "work", permission.Allow},
		{node("cd34", "local", ""), authorize.KindSend, "work", permission.Deny},
		{node("", "local", ""), authorize.KindSend, "work", permission.Deny},
		{node("ff", "home", ""), authorize.KindInvoke, "light.on", permission.Allow},
		{node("ff", "home", ""), authorize.KindInvoke, "light.off", permission.Deny},
		{node("ff", "homes", ""), authorize.KindInvoke, "light.on", permission.Deny},
		{node("ff", "local", "home"), authorize.KindInvoke, "light.on", permission.Deny},
		{labelled("room=kitchen"), authorize.KindInvoke, "oven.heat", permission.Allow},
		{labelled("gpu=1,room=kitchen"), authorize.KindInvoke, "oven.heat", permission.Allow},
		{labelled("gpu=1,room=kitchen"), authorize.KindInvoke, "text.bed", permission.Deny},
		{labelled("gpu=1,room=kitchen"), authorize.KindInvoke, "render", permission.Allow},
		{labelled("room=kitchens"), authorize.KindInvoke, "oven.heat", permission.Deny},
		{labelled("bedroom=kitchen,gpux=1"), authorize.KindInvoke, "oven.heat", permission.Deny},
		{labelled("bedroom=kitchen,gpux=1"), authorize.KindInvoke, "render", permission.Deny},
		{node("ff", "room=kitchen", "room=kitchen"), authorize.KindInvoke, "oven.heat", permission.Deny},
		{node("ff", "", ""), "terminate", "text.wc", permission.Deny},
		{node("ff", "", ""), authorize.KindInvoke, "", permission.Deny},
	} {
		if v := in.Judge(c.from, c.kind, c.name); v.Action != c.want || v.Why == "" || v.Source != "authorize" {
			t.Errorf("%+v %s %q: got %+v, want %v", c.from, c.kind, c.name, v, c.want)
		}
	}
	deny, err := authorize.New([]authorize.Rule{{From: "*", Send: []string{"*"}, Deny: []string{"agent.perception.x"}}})
	if v := deny.Judge(node("ff", "", ""), authorize.KindInvoke, "agent.perception.x"); err != nil || v.Action != permission.Deny {
		t.Errorf("a deny of the name on the wire: got %+v, %v", v, err)
	}
}

func TestJudgeChainAsksForEveryNode(t *testing.T) {
	in, err := authorize.New([]authorize.Rule{
		{From: "local", Invoke: []string{"*"}}, {From: "ab", Invoke: []string{"text.*"}}, {From: "cd", Deny: []string{"text.secret"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	mine := authorize.Principal{Node: "aa", Authority: "local"}
	guest, barred, unknown := authorize.Principal{Node: "ab"}, authorize.Principal{Node: "cd", Authority: "local"},
		authorize.Principal{Node: "ee"}
	for _, c := range []struct {
		chain []authorize.Principal
		name  string
		want  permission.Action
		says  string
	}{
		{nil, "text.wc", permission.Deny, "no caller"},
		{[]authorize.Principal{mine}, "text.wc", permission.Allow, "from local"},
		{[]authorize.Principal{mine, guest}, "text.wc", permission.Allow, "from local"},
		{[]authorize.Principal{mine, guest}, "disk.wipe", permission.Deny, `on behalf of node "ab"`},
		{[]authorize.Principal{guest, mine}, "disk.wipe", permission.Deny, "No authorize rule"},
		{[]authorize.Principal{mine, unknown, guest}, "text.wc", permission.Deny, `"ee"`},
		{[]authorize.Principal{mine, barred}, "text.secret", permission.Deny, "refuses this call"},
		{[]authorize.Principal{mine, barred}, "text.wc", permission.Allow, "from local"},
	} {
		if v := in.JudgeChain(c.chain, authorize.KindInvoke, c.name); v.Action != c.want || !strings.Contains(v.Why, c.says) {
			t.Errorf("%v for %s: got %+v, want %v with %q", c.chain, c.name, v, c.want, c.says)
		}
	}
}

func TestLocalMeansOnlyTheOwnAuthority(t *testing.T) {
	in, err := authorize.New([]authorize.Rule{{From: "local", Invoke: []string{"*"}, Send: []string{"*"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		authority string
		want      permission.Action
	}{{"local", permission.Allow}, {"cluster", permission.Deny}, {"", permission.Deny}} {
		for _, kind := range []authorize.Kind{authorize.KindInvoke, authorize.KindSend} {
			if v := in.Judge(authorize.Principal{Node: "ab", Authority: c.authority}, kind, "x"); v.Action != c.want {
				t.Errorf("%s from authority %q: got %v, want %v", kind, c.authority, v.Action, c.want)
			}
		}
	}
}

func TestNodesOfOneUserSeeEachOther(t *testing.T) {
	mine, other := authorize.Principal{Node: "ab", Authority: "local"}, authorize.Principal{Node: "ab", Authority: "lab"}
	for _, c := range []struct {
		name  string
		rules []authorize.Rule
		who   authorize.Principal
		kind  authorize.Kind
		want  permission.Action
	}{
		{"no rules", nil, mine, authorize.KindInvoke, permission.Allow},
		{"rules for others", []authorize.Rule{{From: "role/x", Invoke: []string{"text.*"}}}, mine, authorize.KindInvoke, permission.Allow},
		{"a deny", []authorize.Rule{{From: "*", Deny: []string{"fleet.*"}}}, mine, authorize.KindInvoke, permission.Deny},
		{"a perception of that name", nil, mine, authorize.KindSend, permission.Deny},
		{"another authority", nil, other, authorize.KindInvoke, permission.Deny},
		{"no node", nil, authorize.Principal{Authority: "local"}, authorize.KindInvoke, permission.Deny},
	} {
		in, err := authorize.New(c.rules)
		if err != nil {
			t.Fatal(err)
		}
		if v := in.Judge(c.who, c.kind, "fleet.view"); v.Action != c.want || v.Why == "" {
			t.Errorf("%s: %+v, want %v", c.name, v, c.want)
		}
	}
	if v := (authorize.Rules{}).Judge(mine, authorize.KindInvoke, "fleet.view"); v.Action != permission.Deny {
		t.Errorf("the zero Rules: %+v", v)
	}
	if v := (authorize.Rules{}).JudgeChain([]authorize.Principal{mine, other}, authorize.KindInvoke,
		"fleet.view"); v.Action != permission.Deny {
		t.Errorf("on behalf of another one: %+v", v)
	}
}

func TestNewRefusesUnclearRules(t *testing.T) {
	for _, r := range []authorize.Rule{
		{}, {From: "*"}, {Invoke: []string{"x"}}, {From: "kitchen", Invoke: []string{"x"}}, {From: "AB12", Invoke: []string{"x"}},
		{From: "role/", Invoke: []string{"x"}}, {From: "role/*", Invoke: []string{"x"}}, {From: "label/", Invoke: []string{"x"}}, {From: "label/room=", Invoke: []string{"x"}}, {From: "label/=x", Invoke: []string{"x"}}, {From: "label/a=*", Invoke: []string{"x"}}, {From: "label/a=b,c=d", Invoke: []string{"x"}}, {From: "cluster/", Invoke: []string{"x"}}, {From: "cluster/local", Invoke: []string{"x"}}, {From: "cluster/*", Invoke: []string{"x"}}, {From: "*", Invoke: []string{""}}, {From: "*", Send: []string{"a b"}},
	} {
		in, err := authorize.New([]authorize.Rule{{From: "*", Invoke: []string{"*"}}, r})
		if err == nil || !strings.Contains(err.Error(), "authorize rule 2") {
			t.Errorf("%+v: %v; want an error that names rule 2", r, err)
		}
		if v := in.Judge(authorize.Principal{Node: "ab"}, authorize.KindInvoke, "x"); v.Action != permission.Deny {
			t.Errorf("%+v: what stands beside the error allows", r)
		}
	}
}

func TestOwnerCapabilitiesMustBeNamed(t *testing.T) {
	node := authorize.Principal{Node: strings.Repeat("ab", 16), Authority: "lab", Role: "admin"}
	mine := authorize.Principal{Node: strings.Repeat("cd", 16), Authority: "local"}
	for _, tt := range []struct {
		from, glob string
		who        authorize.Principal
		want       permission.Action
	}{
		{"*", "*", node, permission.Deny},
		{"*", "a*", node, permission.Deny},
		{"*", "approvals*", node, permission.Deny},
		{"*", "*.answer", node, permission.Deny},
		{"role/admin", "*", node, permission.Deny},
		{"cluster/lab", "*", node, permission.Deny},
		{"role/admin", "approvals.*", node, permission.Allow},
		{"role/admin", "approvals.answer", node, permission.Allow},
		{"role/admin", "approvals.list", node, permission.Deny},
		{"role/other", "approvals.*", node, permission.Deny},
		{"*", "approvals.*", node, permission.Allow},
		{"local", "*", node, permission.Deny},
		{"local", "*", mine, permission.Allow},
		{"*", "*", mine, permission.Deny},
	} {
		in, err := authorize.New([]authorize.Rule{{From: tt.from, Invoke: []string{tt.glob}}})
		if err != nil {
			t.Fatal(err)
		}
		if v := in.Judge(tt.who, authorize.KindInvoke, "approvals.answer"); v.Action != tt.want {
			t.Errorf("from %s: invoke %s: %v, want %v", tt.from, tt.glob, v.Action, tt.want)
		}
		for _, other := range []string{"agents.steer", "sessions.read", "fleet.view"} {
			prefix, verb, _ := strings.Cut(other, ".")
			glob := strings.NewReplacer("approvals", prefix, "answer", verb).Replace(tt.glob)
			of, err := authorize.New([]authorize.Rule{{From: tt.from, Invoke: []string{glob}}})
			if err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if other == "fleet.view" && tt.who == mine {
				want = permission.Allow // without a rule that names it, too
			}
			if v := of.Judge(tt.who, authorize.KindInvoke, other); v.Action != want {
				t.Errorf("from %s: invoke %s: %v, want %v", tt.from, glob, v.Action, tt.want)
			}
		}
		if v := in.Judge(tt.who, authorize.KindSend, "approvals.answer"); v.Action != permission.Deny {
			t.Errorf("from %s: a perception of that name: %v", tt.from, v.Action)
		}
	}
	in, err := authorize.New([]authorize.Rule{{From: "*", Invoke: []string{"approvals.*"}}, {From: "role/admin", Deny: []string{"*"}}})
	if err != nil {
		t.Fatal(err)
	}
	if v := in.Judge(node, authorize.KindInvoke, "approvals.answer"); v.Action != permission.Deny {
		t.Errorf("denied by *: %v", v.Action)
	}
}
