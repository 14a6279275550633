package step

import (
	"context"
	"fmt"
	"testing"

	"symbio/community"
)

// passing is a community in which each member is there for one call.
type passing struct {
	Community
	calls int
}

func (p *passing) Members() []community.Member {
	return []community.Member{{ID: community.MemberID(fmt.Sprint(p.calls)), Provides: []string{"work"}, Available: true}}
}

func (p *passing) Capability(community.NodeID, string) (community.Capability, bool) {
	return community.Capability{}, false
}

func (p *passing) Invoke(context.Context, community.MemberID, string, community.Signal) (community.Reply, error) {
	p.calls++
	return community.Reply{Data: []byte(`1`)}, nil
}

func TestClusterForgetsWhoHasLeft(t *testing.T) {
	c := NewCluster(&passing{})
	for range 100 {
		if _, err := With(c, Capability[int, int]("work")).Run(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.busy) > 1 {
		t.Errorf("it remembers %d members, and one is there", len(c.busy))
	}
}
