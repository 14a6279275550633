package community_test

import (
	"context"
	"encoding/json"
	"testing"
	"unicode"

	"symbio/community"
)

// Whatever a peer announces, nothing of it may break this node, belong to another one, or reach a
// terminal as something that it could obey.
func FuzzAnnouncedCatalog(f *testing.F) {
	good := community.Catalog{
		Members: []community.Member{
			remote(peer, id[community.MemberID]("b1"), "ben"),
			{ID: community.MemberID(peer), Name: "bb", Node: peer, Provides: []string{"text.upper"}, Available: true, Metadata: map[string]string{"os": "plan9"}},
			remote(id[community.NodeID]("cc"), id[community.MemberID]("aa"), "forged"),
		},
		Capabilities: []community.Capability{{Name: "text.upper", Input: json.RawMessage(`{"type":"object"}`)}},
	}
	seed, err := json.Marshal(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"Members":[{"ID":"\u001b[2J","Name":"\u202e","Node":"bb000000000000000000000000000000"}]}`))
	f.Add([]byte(`{"Members":[{"ID":"b1000000000000000000000000000000","Name":"x","Node":"bb000000000000000000000000000000","Accepts":["a","a"]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var all community.Catalog
		if json.Unmarshal(data, &all) != nil {
			return
		}
		c := community.New(community.Config{Node: id[community.NodeID]("aa")})
		l := c.Attach(community.Peer{ID: peer, Name: string(data)})
		l.Snapshot(all)
		for _, m := range all.Members {
			l.Updated(m)
			l.Left(m.ID)
			l.Joined(m)
		}
		for _, m := range c.Members() {
			if m.Node != peer || len(m.ID) != 32 || m.ID == id[community.MemberID]("aa") {
				t.Errorf("the peer announced %+v", m)
			}
			for _, r := range m.Name {
				if unicode.IsControl(r) {
					t.Errorf("the name %q has a control character", m.Name)
				}
			}
		}
		l.Goodbye(string(data))
		if n := len(c.Members()); n != 0 {
			t.Errorf("%d members are left after the goodbye", n)
		}
	})
}

// No call of an authenticated peer may break this node, or reach an agent without being allowed to.
func FuzzServedCall(f *testing.F) {
	f.Add("", "text.upper", []byte("x"), "user", true)
	f.Add("nobody", "agent.perception.work", []byte(nil), "\x1b", false)
	f.Fuzz(func(t *testing.T, to, capability string, payload []byte, requester string, allowed bool) {
		served := false
		c := community.New(community.Config{Authorize: func(community.Peer, community.Call) error {
			if allowed {
				return nil
			}
			return community.ErrDenied
		}})
		serve := func(context.Context, community.Signal) (community.Reply, error) {
			served = true
			return community.Reply{}, nil
		}
		if err := c.Offer(community.Capability{Name: "text.upper"}, serve); err != nil {
			t.Fatal(err)
		}
		m := spawn(t, c, "ann", &worker{receive: serve})
		defer c.Terminate(context.Background(), m.ID)
		for _, to := range []community.MemberID{community.MemberID(to), m.ID} {
			served = false
			_, err := c.Serve(context.Background(), stranger,
				community.Call{Member: to, Capability: capability, Payload: payload, Requester: []string{requester}})
			if served && (!allowed || err != nil) {
				t.Errorf("served: %v, allowed: %v, error: %v", served, allowed, err)
			}
		}
	})
}
