package node

import (
	"strings"
	"testing"

	"symbio/community"
	"symbio/security/audit"
	"symbio/security/permission"

	"github.com/google/go-cmp/cmp"
)

func nodeNamed(s string) community.NodeID { return community.NodeID(strings.Repeat(s, 16)) }

func TestEveryNodeOnWhoseBehalfACallIsHasToBeHeard(t *testing.T) {
	self, caller, friend, guest, unknown := nodeNamed("aa"), nodeNamed("bb"), nodeNamed("cc"), nodeNamed("dd"), nodeNamed("ee")
	in, err := permission.NewInbound([]permission.InboundRule{
		{From: "local", Invoke: []string{"*"}}, {From: "cluster/home", Invoke: []string{"text.*"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{id: self, inbound: in, community: community.New(community.Config{Node: self}),
		calls: audit.NewCalls(audit.CallsConfig{Append: func(audit.Entry) error { return nil }})}
	n.community.Attach(community.Peer{ID: friend, Authority: "local"})
	n.community.Attach(community.Peer{ID: guest, Authority: "home", Role: "worker"})
	from := community.Peer{ID: caller, Authority: "local"}

	got := n.principals(from, []string{string(caller), "user", string(guest) + "/" + string(unknown), string(guest), string(self) + "/x", string(unknown)})
	want := []permission.Principal{
		{Node: string(caller), Authority: "local"}, {Node: string(guest), Authority: "home", Role: "worker"}, {Node: string(unknown)},
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
		err := n.authorize(from, call)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s on behalf of %v: got %v, want %q", tt.capability, tt.behalf, err, tt.want)
		}
	}
}

func TestAnAgentsAnswerIsJSONWhereASchemaWantsIt(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1}`:                     `{"a":1}`,
		"```json\n{\"a\":1}\n```":     `{"a":1}`,
		` 7 `:                         `7`,
		`It is 7.`:                    `"It is 7."`,
		"```json\nbroken\n```":        "\"```json\\nbroken\\n```\"",
		"quotes \" and\nmore\\ lines": `"quotes \" and\nmore\\ lines"`,
	} {
		got := asJSON(community.Reply{Data: []byte(text), ContentType: "text/plain"})
		if string(got.Data) != want || got.ContentType != "application/json" {
			t.Errorf("%q: got %s of type %s, want %s", text, got.Data, got.ContentType, want)
		}
	}
}
