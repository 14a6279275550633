package community_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"symbio/community"
)

func TestDrainingNodeWithholdsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var drain community.Drain
		c, _ := run(t, community.Config{Name: "kitchen", Draining: &drain, Metadata: map[string]string{"room": "cellar"}, Authorize: anybody})
		work := community.Capability{Name: "text.upper"}
		if err := errors.Join(c.Offer(work, (&worker{}).Receive, community.WithDrain()), c.Offer(community.Capability{Name: "node.info"}, (&worker{}).Receive)); err != nil {
			t.Fatal(err)
		}
		self := func() community.Member {
			for _, m := range c.Catalog().Members {
				if m.ID == community.MemberID(m.Node) {
					return m
				}
			}
			return community.Member{}
		}
		for _, draining := range []bool{true, true, false} {
			drain.Set(draining)
			m := self()
			if m.IsDraining() != draining || m.Metadata["room"] != "cellar" || len(m.Provides) == 1 != draining {
				t.Errorf("draining %t: others see %+v", draining, m)
			}
			_, err := c.Serve(t.Context(), stranger, community.Call{Capability: "text.upper"})
			if errors.Is(err, community.ErrBusy) != draining || draining && !strings.Contains(err.Error(), "node kitchen is draining") {
				t.Errorf("draining %t: a call of work: %v", draining, err)
			}
			if _, err := c.Serve(t.Context(), stranger, community.Call{Capability: "node.info"}); err != nil {
				t.Errorf("draining %t: a call of another capability: %v", draining, err)
			}
		}
	})
}

func TestCallOfADrainingNodeSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = community.NodeID("00000000000000000000000000000001")
		c, _ := run(t, community.Config{})
		lease := c.Attach(community.Peer{ID: other, Name: "kitchen"})
		lease.Snapshot(community.Catalog{Members: []community.Member{{ID: community.MemberID(other), Node: other, Name: "kitchen", Available: true,
			Metadata: map[string]string{community.DrainingKey: "true"}}}})
		if _, err := c.Invoke(t.Context(), community.MemberID(other), "text.upper", community.Signal{}); !community.NotBegun(err) ||
			!errors.Is(err, community.ErrBusy) || !strings.Contains(err.Error(), "is draining") {
			t.Errorf("got %v", err)
		}
	})
}

// An authoriser that allows a call, and not now, is heard by the caller.
func TestAuthoriserMaySayNotNow(t *testing.T) {
	c, _ := run(t, community.Config{Authorize: func(community.Peer, community.Call) error { return community.DrainingError("kitchen") }})
	if _, err := c.Serve(t.Context(), stranger, community.Call{Capability: "x"}); !errors.Is(err, community.ErrBusy) {
		t.Errorf("got %v, want busy", err)
	}
}
