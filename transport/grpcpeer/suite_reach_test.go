package grpcpeer_test

import (
	"errors"
	"testing"

	"symbio/community"
)

// nat makes two places, of which nobody can dial b.
func (l *caseLAN) nat() (a, b *place) {
	l.t.Helper()
	shutter, ok := l.fixture.(Shutter)
	if !ok {
		l.t.Skip("this fixture cannot forbid one direction")
	}
	shutter.OnlyDialsOut("b")
	return l.up("a"), l.up("b")
}

func whoOnlyDialsOutIsCalled(t *testing.T, l *caseLAN) {
	a, b := l.nat()
	b.spawns("worker", echo)
	r, err := a.Send(in(t, patience), a.finds("worker").ID, work("over there"))
	if err != nil || string(r.Data) != "over there" {
		t.Errorf("the worker answered %q, %v", r.Data, err)
	}
	if _, err := b.Send(in(t, patience), a.spawnsSeenBy(b), work("")); err != nil {
		t.Errorf("the other way round: %v", err)
	}
	worker, call := a.hang(b)
	b.stop()
	a.seesWithin(goodbyeBound, "that the worker left", gone(worker))
	if _, err := call(); !errors.Is(err, community.ErrUnavailable) {
		t.Errorf("the call under way returned %v, want ErrUnavailable", err)
	}
	b.leave()
	again := l.up("b")
	again.spawns("worker", echo)
	a.finds("worker")
}

func whoOnlyDialsOutIsLostAndComesBack(t *testing.T, l *caseLAN) {
	a, b := l.nat()
	parts, ok := l.fixture.(Partitioner)
	if !ok {
		t.Skip("this fixture cannot cut the network")
	}
	m := b.spawns("worker", echo)
	a.finds("worker")
	b.seesWithin(healBound, "the other node", here(community.MemberID(a.id)))
	parts.Partition(b.id)
	a.seesWithin(silenceBound, "that the worker is unavailable", away(m.ID))
	b.seesWithin(silenceBound, "that the other node is unavailable", away(community.MemberID(a.id)))
	parts.Heal()
	a.seesWithin(healBound, "the worker again", here(m.ID))
	b.seesWithin(healBound, "the other node again", here(community.MemberID(a.id)))
	if r, err := a.Send(in(t, patience), m.ID, work("back")); err != nil || string(r.Data) != "back" {
		t.Errorf("the worker answered %q, %v", r.Data, err)
	}
}
