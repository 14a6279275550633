package permission_test

import (
	"errors"
	"strings"
	"testing"

	"symbio/security/permission"
)

func TestPresetsMeanWhatTheSpecSays(t *testing.T) {
	const a, k, d = permission.Allow, permission.Ask, permission.Deny
	calls := []permission.Call{
		call("Read", "file_path", "x"), call("Read", "file_path", "/etc/x"), call("Write", "file_path", "x"), bash("ls"), bash("sudo ls"),
		call("activate_skill", "name", "x"), call("replicate_agent"), call("mcp__x__y"),
	}
	for name, want := range map[string][]permission.Action{
		"standard":    {a, a, k, k, d, a, k, k},
		"development": {a, a, a, k, d, a, a, k},
		"restrictive": {a, d, d, d, d, d, d, d},
		"read_only":   {a, a, d, d, d, a, d, d},
		"readOnly":    {a, a, d, d, d, a, d, d},
		"permissive":  {a, a, a, a, a, a, a, a},
		"none":        {k, k, k, k, k, k, k, k},
	} {
		p, err := permission.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range calls {
			if got := judged(p, c).Action; got != want[i] {
				t.Errorf("%s: %s %v: got %v, want %v", name, c.Tool, c.Args, got, want[i])
			}
		}
	}
	if _, err := permission.Preset("lax"); err == nil || !strings.Contains(err.Error(), "restrictive") {
		t.Errorf("an unknown preset: %v; want an error that lists them", err)
	}
}

func TestConfigAddsToItsPreset(t *testing.T) {
	p, err := permission.Config{Preset: "read_only", Allow: permission.Rules("send_signal"), Deny: permission.Rules("Read(*.pem)"), Default: "ask"}.Policy()
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]permission.Action{"send_signal": permission.Allow, "mcp__a__b": permission.Ask, "Write": permission.Deny} {
		if got := judged(p, call(tool)).Action; got != want {
			t.Errorf("%s: got %v, want %v", tool, got, want)
		}
	}
	if p, err := (permission.Config{}).Policy(); err != nil || judged(p, call("Write")).Action != permission.Ask {
		t.Errorf("the zero Config: %v; want the preset standard", err)
	}
}

func TestConfigNamesEachBadRuleAndItsList(t *testing.T) {
	p, err := permission.Config{Preset: "nope", Allow: permission.Rules("Read", "Bash(git:*"), FinalDeny: permission.Rules("Bash()"), Default: "maybe"}.Policy()
	for _, want := range []string{`allow rule "Bash(git:*", column 11`, `final_deny rule "Bash()", column 6`, `preset "nope"`, `default: "maybe"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %s:\n%v", want, err)
		}
	}
	var bad *permission.RuleError
	if !errors.As(err, &bad) || bad.List != "allow" {
		t.Errorf("got %+v, want a RuleError of the list allow", bad)
	}
	if got := judged(p, call("Read", "file_path", "x")).Action; got != permission.Deny {
		t.Errorf("the policy beside the error: got %v, want deny", got)
	}
}

func TestInboundRulesDecideWhoIsHeard(t *testing.T) {
	in, err := permission.NewInbound([]permission.InboundRule{
		{From: "*", Invoke: []string{"text.*"}},
		{From: "role/worker", Send: []string{"work"}, Deny: []string{"text.secret"}},
		{From: "ab12*", Invoke: []string{"*"}},
		{From: "local", Send: []string{"*"}},
		{From: "cd34", Deny: []string{"*"}},
		{From: "cluster/home", Invoke: []string{"light.*"}, Deny: []string{"light.off"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	node := func(id, authority, role string) permission.Principal {
		return permission.Principal{Node: id, Authority: authority, Role: role}
	}
	for _, c := range []struct {
		from permission.Principal
		kind permission.CallKind
		name string
		want permission.Action
	}{
		{node("ff", "", ""), permission.KindInvoke, "text.wc", permission.Allow},
		{node("ff", "", ""), permission.KindInvoke, "context.wc", permission.Deny},
		{node("ff", "", ""), permission.KindSend, "text.wc", permission.Deny},
		{node("ff", "", "worker"), permission.KindSend, "work", permission.Allow},
		{node("ff", "", "worker"), permission.KindInvoke, "text.secret", permission.Deny},
		{node("ff", "", "workers"), permission.KindSend, "work", permission.Deny},
		{node("ab1299", "", ""), permission.KindInvoke, "anything", permission.Allow},
		{node("ab1299", "", ""), permission.KindInvoke, "agent.perception.work", permission.Deny},
		{node("ee", "local", ""), permission.KindInvoke, "agent.perception.work", permission.Allow},
		{node("ee", "local", ""), permission.KindSend, "work", permission.Allow},
		{node("cd34", "local", ""), permission.KindSend, "work", permission.Deny},
		{node("", "local", ""), permission.KindSend, "work", permission.Deny},
		{node("ff", "home", ""), permission.KindInvoke, "light.on", permission.Allow},
		{node("ff", "home", ""), permission.KindInvoke, "light.off", permission.Deny},
		{node("ff", "homes", ""), permission.KindInvoke, "light.on", permission.Deny},
		{node("ff", "local", "home"), permission.KindInvoke, "light.on", permission.Deny},
		{node("ff", "", ""), "terminate", "text.wc", permission.Deny},
		{node("ff", "", ""), permission.KindInvoke, "", permission.Deny},
	} {
		if v := in.Judge(c.from, c.kind, c.name); v.Action != c.want || v.Why == "" || v.Source != "authorize" {
			t.Errorf("%+v %s %q: got %+v, want %v", c.from, c.kind, c.name, v, c.want)
		}
	}
	deny, err := permission.NewInbound([]permission.InboundRule{{From: "*", Send: []string{"*"}, Deny: []string{"agent.perception.x"}}})
	if v := deny.Judge(node("ff", "", ""), permission.KindInvoke, "agent.perception.x"); err != nil || v.Action != permission.Deny {
		t.Errorf("a deny of the name on the wire: got %+v, %v", v, err)
	}
}

func TestEveryNodeOfAChainHasToBeHeard(t *testing.T) {
	in, err := permission.NewInbound([]permission.InboundRule{
		{From: "local", Invoke: []string{"*"}}, {From: "ab", Invoke: []string{"text.*"}}, {From: "cd", Deny: []string{"text.secret"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	mine := permission.Principal{Node: "aa", Authority: "local"}
	guest, barred, unknown := permission.Principal{Node: "ab"}, permission.Principal{Node: "cd", Authority: "local"}, permission.Principal{Node: "ee"}
	for _, c := range []struct {
		chain []permission.Principal
		name  string
		want  permission.Action
		says  string
	}{
		{nil, "text.wc", permission.Deny, "Nobody"},
		{[]permission.Principal{mine}, "text.wc", permission.Allow, "from local"},
		{[]permission.Principal{mine, guest}, "text.wc", permission.Allow, "from local"},
		{[]permission.Principal{mine, guest}, "disk.wipe", permission.Deny, `on behalf of node "ab"`},
		{[]permission.Principal{guest, mine}, "disk.wipe", permission.Deny, "No authorize rule"},
		{[]permission.Principal{mine, unknown, guest}, "text.wc", permission.Deny, `"ee"`},
		{[]permission.Principal{mine, barred}, "text.secret", permission.Deny, "refuses this call"},
		{[]permission.Principal{mine, barred}, "text.wc", permission.Allow, "from local"},
	} {
		if v := in.JudgeChain(c.chain, permission.KindInvoke, c.name); v.Action != c.want || !strings.Contains(v.Why, c.says) {
			t.Errorf("%v for %s: got %+v, want %v with %q", c.chain, c.name, v, c.want, c.says)
		}
	}
}

func TestRulesForLocalNodesAreForOnesOwn(t *testing.T) {
	in, err := permission.NewInbound([]permission.InboundRule{{From: "local", Invoke: []string{"*"}, Send: []string{"*"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		authority string
		want      permission.Action
	}{{"local", permission.Allow}, {"cluster", permission.Deny}, {"", permission.Deny}} {
		for _, kind := range []permission.CallKind{permission.KindInvoke, permission.KindSend} {
			if v := in.Judge(permission.Principal{Node: "ab", Authority: c.authority}, kind, "x"); v.Action != c.want {
				t.Errorf("%s from authority %q: got %v, want %v", kind, c.authority, v.Action, c.want)
			}
		}
	}
}

func TestInboundRulesHaveToBeClear(t *testing.T) {
	for _, r := range []permission.InboundRule{
		{}, {From: "*"}, {Invoke: []string{"x"}}, {From: "kitchen", Invoke: []string{"x"}}, {From: "AB12", Invoke: []string{"x"}},
		{From: "role/", Invoke: []string{"x"}}, {From: "role/*", Invoke: []string{"x"}}, {From: "cluster/", Invoke: []string{"x"}}, {From: "cluster/local", Invoke: []string{"x"}}, {From: "cluster/*", Invoke: []string{"x"}}, {From: "*", Invoke: []string{""}}, {From: "*", Send: []string{"a b"}},
	} {
		in, err := permission.NewInbound([]permission.InboundRule{{From: "*", Invoke: []string{"*"}}, r})
		if err == nil || !strings.Contains(err.Error(), "authorize rule 2") {
			t.Errorf("%+v: %v; want an error that names rule 2", r, err)
		}
		if v := in.Judge(permission.Principal{Node: "ab"}, permission.KindInvoke, "x"); v.Action != permission.Deny {
			t.Errorf("%+v: what stands beside the error allows", r)
		}
	}
}
