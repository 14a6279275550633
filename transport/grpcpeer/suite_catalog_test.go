package grpcpeer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"symbio/community"

	"github.com/google/go-cmp/cmp"
)

func catalogIsSeen(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	want := b.spawns("worker", echo, community.WithMetadata(map[string]string{"room": "cellar"}))

	if diff := cmp.Diff(want, a.finds("worker")); diff != "" {
		t.Errorf("a sees the worker differently than b (-b +a):\n%s", diff)
	}
	described := community.Capability{
		Name: "text.upper", Description: "Upper case", Idempotent: true, Places: 3,
		Input: []byte(`{"type":"object"}`), Output: []byte(`{"type":"string"}`),
	}
	if err := b.Offer(described, echo, community.WithConcurrency(described.Places)); err != nil {
		t.Fatal(err)
	}
	a.sees("b's capability", func([]community.Member) bool { return len(a.WhoProvides("text.upper")) == 1 })
	got, ok := a.Capability(b.id, "text.upper")
	if diff := cmp.Diff(described, got); !ok || diff != "" {
		t.Errorf("a sees the capability differently than b (-b +a), known %v:\n%s", ok, diff)
	}
	b.node(a)
	if all := b.Members(); len(all) != 2 { // its worker and the node a
		t.Errorf("b lists %+v, want its worker and the node a", all)
	}
	if err := b.Withdraw("text.upper"); err != nil {
		t.Fatal(err)
	}
	a.sees("that the capability is withdrawn", func([]community.Member) bool { return len(a.WhoProvides("text.upper")) == 0 })
}

// changesAreSeen makes more changes than a subscription holds, and then one more.
func changesAreSeen(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	a.node(b)
	var stays []community.MemberID
	for i := range 400 {
		m := b.spawns(fmt.Sprint("worker", i), echo)
		if i%4 == 0 {
			stays = append(stays, m.ID)
		} else if err := b.Terminate(in(t, patience), m.ID); err != nil {
			t.Fatal(err)
		}
	}
	stays = append(stays, b.spawns("the last", echo).ID, community.MemberID(b.id))
	slices.Sort(stays)
	a.sees("what is left of b's agents", func(all []community.Member) bool {
		return slices.Equal(stays, ids(all))
	})
}

func ids(all []community.Member) []community.MemberID {
	ids := make([]community.MemberID, len(all))
	for i, m := range all {
		ids[i] = m.ID
	}
	slices.Sort(ids)
	return ids
}

// largeCatalogIsSeen is about one and a half MB that the peer has to hear before anything else.
func largeCatalogIsSeen(t *testing.T, l *caseLAN) {
	const agents, capabilities = 1000, 200
	b := l.up("b")
	for i := range agents {
		b.spawns(fmt.Sprint("worker", i), echo, community.WithMetadata(map[string]string{"about": strings.Repeat("x", 1000)}))
	}
	for i := range capabilities {
		p := community.Capability{Name: fmt.Sprint("text.", i), Description: strings.Repeat("y", 2000)}
		if err := b.Offer(p, func(context.Context, community.Signal) (community.Reply,
			error) {
			return community.Reply{}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	a := l.up("a")
	all := a.sees("all of b's agents", func(all []community.Member) bool { return len(all) == agents+1 })
	if n := len(all[named(all, "b")].Provides); n != capabilities {
		t.Errorf("a sees %d capabilities of b, want %d", n, capabilities)
	}
	if _, err := a.Send(in(t, patience), a.finds("worker7").ID, community.Signal{Perception: "work"}); err != nil {
		t.Error(err)
	}
}

// forgedMembersAreRefused has a node say that it is another one: the network knows better.
func forgedMembersAreRefused(t *testing.T, l *caseLAN) {
	a, honest := l.up("a"), l.up("honest")
	a.node(honest)
	liar := l.up("liar", func(cfg *community.Config) { cfg.Node = honest.id })
	liar.spawns("cuckoo", echo)
	l.up("late").spawns("late", echo)
	a.finds("late") // by now a has heard of the liar too, unless it will not hear it at all
	a.sees("the liar refused, or nothing of it", func(all []community.Member) bool {
		return named(all, "cuckoo") < 0
	})
	if m := a.node(honest); m.Name != "honest" {
		t.Errorf("the id of honest is named %q now", m.Name)
	}
	for _, m := range a.Members() {
		if m.Node == honest.id && m.ID != community.MemberID(honest.id) {
			t.Errorf("a believes that %s lives on honest", m.Name)
		}
	}
}
