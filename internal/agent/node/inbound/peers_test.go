package inbound

import (
	"strings"
	"testing"

	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/security/audit"
	"symbio/internal/security/permission/authorize"

	"github.com/google/go-cmp/cmp"
)

func nodeNamed(s string) community.NodeID { return community.NodeID(strings.Repeat(s, 16)) }

func TestEveryNodeOnWhoseBehalfACallIsHasToBeHeard(t *testing.T) {
	self, caller, friend, guest, unknown := nodeNamed("aa"), nodeNamed("bb"), nodeNamed("cc"), nodeNamed("dd"), nodeNamed("ee")
	in, err := authorize.New([]authorize.Rule{
		{From: "local", Invoke: []string{"*"}}, {From: "cluster/home", Invoke: []string{"text.*"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	peers := map[community.NodeID]community.Peer{friend: {ID: friend, Authority: "local"}, guest: {ID: guest, Authority: "home", Role: "worker", Labels: "room=kitchen"}}
	n := New(Config{
		Node: self, Rules: func() authorize.Rules { return in }, Append: func(audit.Entry) error { return nil }, Events: event.NewStream("a"),
		Peer: func(id community.NodeID) (community.Peer, bool) { p, ok := peers[id]; return p, ok },
	})
	from := community.Peer{ID: caller, Authority: "local"}

	got := n.principals(nil, from, []string{string(caller), "user", string(guest) + "/" + string(unknown), string(guest), string(self) + "/x", string(unknown)})
	want := []authorize.Principal{
		{Node: string(caller), Authority: "local"}, {Node: string(guest), Authority: "home", Role: "worker", Labels: "room=kitchen"}, {Node: string(unknown)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the chain is another (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		capability string
		behalf     []community.NodeID
		want       string
	}{
		{"disk.wipe", nil, ""},
		{"disk.wipe", []community.NodeID{friend}, ""},
		{"disk.wipe", []community.NodeID{self}, ""},
		{"disk.wipe", []community.NodeID{friend, guest}, "on behalf of node \"" + string(guest)},
		{"text.count", []community.NodeID{friend, guest}, ""},
		{"text.count", []community.NodeID{unknown}, "on behalf of node \"" + string(unknown)},
		{"agent.perception.task", []community.NodeID{guest}, "send"},
	} {
		call := community.Call{Capability: tt.capability, Requester: []string{string(caller)}}
		for _, id := range tt.behalf {
			call.Requester = append(call.Requester, string(id)+"/"+string(id))
		}
		err := n.Authorize(from, call)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s on behalf of %v: got %v, want %q", tt.capability, tt.behalf, err, tt.want)
		}
	}
}

func TestNodeMayFetchOnlyWhenItWasGivenSomething(t *testing.T) {
	caller, other := nodeNamed("bb"), nodeNamed("cc")
	for name, tt := range map[string]struct {
		rules []authorize.Rule
		from  community.NodeID
		call  string
		want  bool
	}{
		"given":                    {nil, caller, "artifacts.get", true},
		"not given":                {nil, other, "artifacts.get", false},
		"given, another call":      {nil, caller, "artifacts.list", false},
		"given, but denied":        {[]authorize.Rule{{From: "*", Deny: []string{"artifacts.*"}}}, caller, "artifacts.get", false},
		"a rule for all":           {[]authorize.Rule{{From: "*", Invoke: []string{"*"}}}, other, "artifacts.get", false},
		"a rule that names it":     {[]authorize.Rule{{From: "*", Invoke: []string{"artifacts.*"}}}, other, "artifacts.get", true},
		"a rule for another owner": {[]authorize.Rule{{From: "*", Invoke: []string{"agents.*"}}}, other, "artifacts.get", false},
	} {
		in, err := authorize.New(tt.rules)
		if err != nil {
			t.Fatal(err)
		}
		n := New(Config{
			Node: nodeNamed("aa"), Rules: func() authorize.Rules { return in }, Append: func(audit.Entry) error { return nil }, Events: event.NewStream("a"),
			Peer:  func(id community.NodeID) (community.Peer, bool) { return community.Peer{ID: id}, id == other },
			Given: func(to community.NodeID) bool { return to == caller },
		})
		if err := n.Authorize(community.Peer{ID: tt.from}, community.Call{Capability: tt.call, Requester: []string{string(tt.from)}}); (err == nil) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
		if want := name == "a rule that names it"; n.Allowed(other, tt.call) != want || n.Allowed(caller, tt.call) {
			t.Errorf("%s: the rules allow all artifacts: %v, want %v", name, !want, want)
		}
	}
}
