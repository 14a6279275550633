package grpcpeer_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"symbio/community"

	"github.com/google/go-cmp/cmp"
)

// The bounds of the architecture's failure table.
const (
	goodbyeBound = 200 * time.Millisecond
	resetBound   = 100 * time.Millisecond
	silenceBound = 3 * time.Second
	healBound    = 5 * time.Second
)

// hang makes an agent that never answers at another place, and sends it something. When it returns,
// the agent is at work; the function says what came of the call and when.
func (p *place) hang(at *place) (community.MemberID, func() (time.Time, error)) {
	p.t.Helper()
	var (
		wg    sync.WaitGroup
		err   error
		ended time.Time
	)
	begun := make(chan bool, 1)
	m := at.spawns("hung", func(ctx context.Context, _ community.Signal) (community.Reply, error) {
		begun <- true
		<-ctx.Done()
		return community.Reply{}, ctx.Err()
	})
	p.sees("an agent that never answers", here(m.ID))
	wg.Go(func() {
		_, err = p.Send(in(p.t, time.Minute), m.ID, work(""))
		ended = time.Now()
	})
	<-begun
	return m.ID, func() (time.Time, error) {
		wg.Wait()
		return ended, err
	}
}

func gone(id community.MemberID) func([]community.Member) bool {
	return func(all []community.Member) bool {
		return !slices.ContainsFunc(all, func(m community.Member) bool { return m.ID == id })
	}
}

func away(id community.MemberID) func([]community.Member) bool {
	return func(all []community.Member) bool {
		return slices.ContainsFunc(all, func(m community.Member) bool { return m.ID == id && !m.Available })
	}
}

func here(id community.MemberID) func([]community.Member) bool {
	return func(all []community.Member) bool {
		return slices.ContainsFunc(all, func(m community.Member) bool { return m.ID == id && m.Available })
	}
}

func goodbyeIsLeft(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	worker, call := a.hang(b)
	seen := a.log()
	since := time.Now()
	b.stop()
	a.seesWithin(goodbyeBound, "that the worker left", gone(worker))
	a.seesWithin(goodbyeBound, "that its node left", gone(community.MemberID(b.id)))
	l.within(goodbyeBound, since, "a goodbye")
	if _, err := call(); !errors.Is(err, community.ErrUnavailable) {
		t.Errorf("the call under way returned %v, want ErrUnavailable", err)
	}
	if diff := cmp.Diff([]community.ChangeKind{community.Left}, seen.of(worker)); diff != "" {
		t.Errorf("a saw other changes of the worker (-want +got):\n%s", diff)
	}
	if _, err := a.Send(in(t, patience), worker, work("")); !errors.Is(err, community.ErrNotFound) {
		t.Errorf("a send to who left: got %v, want ErrNotFound", err)
	}
	b.leave()
	again := l.up("b")
	again.spawns("worker", echo)
	if got := a.finds("worker"); got.ID == worker || got.Node != b.id {
		t.Errorf("after the restart a sees %+v, want a new worker on the same node", got)
	}
}

func killedIsUnavailableThenLeft(t *testing.T, l *caseLAN) {
	killer, ok := l.fixture.(Killer)
	if !ok {
		t.Skip("this fixture cannot kill a node")
	}
	const forget = 2 * time.Second
	a, b := l.up("a", func(cfg *community.Config) { cfg.Forget = forget }), l.up("b")
	worker, call := a.hang(b)
	seen := a.log()
	since := time.Now()
	killer.Kill(b.id)
	ended, err := call()
	if !errors.Is(err, community.ErrUnavailable) {
		t.Errorf("the call under way returned %v, want ErrUnavailable", err)
	}
	if took := ended.Sub(since); took > resetBound+l.slack {
		t.Errorf("the call under way failed after %v, want at most %v", took, resetBound)
	}
	a.seesWithin(silenceBound, "that the worker is unavailable", away(worker))
	l.within(silenceBound, since, "noticing a killed node")
	if _, err := a.Send(in(t, patience), worker, work("")); !errors.Is(err, community.ErrUnavailable) {
		t.Errorf("a send to who is unavailable: got %v, want ErrUnavailable", err)
	}
	a.seesWithin(forget+silenceBound, "that the worker left", gone(worker))
	want := []community.ChangeKind{community.BecameUnavailable, community.Left}
	if diff := cmp.Diff(want, seen.of(worker)); diff != "" {
		t.Errorf("a saw other changes of the worker (-want +got):\n%s", diff)
	}
}

func killedComesBackWithTheSameID(t *testing.T, l *caseLAN) {
	killer, ok := l.fixture.(Killer)
	if !ok {
		t.Skip("this fixture cannot kill a node")
	}
	a, b := l.up("a"), l.up("b")
	old := b.spawns("worker", echo)
	a.finds("worker")
	killer.Kill(b.id)
	a.sees("that the worker is unavailable", away(old.ID))
	again := l.up("b")
	if again.id != b.id {
		t.Fatalf("the restarted node has id %s, want %s", again.id, b.id)
	}
	fresh := again.spawns("worker", echo)
	a.sees("the new worker", here(fresh.ID))
	a.sees("that the old worker left", gone(old.ID))
	r, err := a.Send(in(t, patience), fresh.ID, work("hello"))
	if err != nil || string(r.Data) != "hello" {
		t.Errorf("the new worker answered %q, %v", r.Data, err)
	}
	if _, err := again.Send(in(t, patience), a.spawnsSeenBy(again), work("")); err != nil {
		t.Errorf("the restarted node cannot call: %v", err)
	}
}

// spawnsSeenBy makes an agent and waits until by sees it.
func (p *place) spawnsSeenBy(by *place) community.MemberID {
	p.t.Helper()
	m := p.spawns("fresh", echo)
	by.sees("a fresh agent", here(m.ID))
	return m.ID
}

func frozenComesBackAsItWas(t *testing.T, l *caseLAN) {
	freezer, ok := l.fixture.(Freezer)
	if !ok {
		t.Skip("this fixture cannot freeze a node")
	}
	// Longer than a node is remembered: it comes back all the same. Not too long for real time.
	for _, asleep := range []time.Duration{5 * time.Second, 15 * time.Second} {
		a, b := l.up("a", forgetIn10s), l.up("b", forgetIn10s)
		m := b.spawns("worker", echo)
		a.finds("worker")
		freezer.Freeze(b.id)
		since := time.Now()
		a.seesWithin(silenceBound, "that the worker is unavailable", away(m.ID))
		<-time.After(time.Until(since.Add(asleep)))
		freezer.Wake(b.id)
		a.seesWithin(healBound, "the worker again", here(m.ID))
		b.seesWithin(healBound, "the other node again", here(community.MemberID(a.id)))
		if r, err := a.Send(in(t, patience), m.ID, work("morning")); err != nil || string(r.Data) != "morning" {
			t.Errorf("the worker answered %q, %v after %v of sleep", r.Data, err, asleep)
		}
		a.leave()
		b.leave()
	}
}

func forgetIn10s(cfg *community.Config) { cfg.Forget = 10 * time.Second }

func partitionHeals(t *testing.T, l *caseLAN) {
	parts, ok := l.fixture.(Partitioner)
	if !ok {
		t.Skip("this fixture cannot cut the network")
	}
	a, b, c := l.up("a"), l.up("b"), l.up("c")
	there, near := b.spawns("there", echo), c.spawns("near", echo)
	a.finds("there")
	a.finds("near")
	b.finds("near")
	seen := a.log()
	_, call := a.hang(b)
	since := time.Now()
	parts.Partition(b.id)
	ended, err := call()
	if !errors.Is(err, community.ErrUnavailable) {
		t.Errorf("the call under way returned %v, want ErrUnavailable", err)
	}
	if took := ended.Sub(since); took > silenceBound+l.slack {
		t.Errorf("the call under way failed after %v, want at most %v", took, silenceBound)
	}
	a.seesWithin(silenceBound, "that there is unavailable", away(there.ID))
	b.seesWithin(silenceBound, "that near is unavailable", away(near.ID))
	if _, err := a.Send(in(t, patience), near.ID, work("")); err != nil {
		t.Errorf("on this side of the partition: %v", err)
	}
	late := b.spawns("late", echo)
	parts.Heal()
	a.seesWithin(healBound, "there again", here(there.ID))
	a.seesWithin(healBound, "who joined meanwhile", here(late.ID))
	b.seesWithin(healBound, "near again", here(near.ID))
	if _, err := a.Send(in(t, patience), there.ID, work("")); err != nil {
		t.Errorf("after the heal: %v", err)
	}
	want := []community.ChangeKind{community.BecameUnavailable, community.BecameAvailable}
	if diff := cmp.Diff(want, seen.of(there.ID)); diff != "" {
		t.Errorf("a saw other changes of there (-want +got):\n%s", diff)
	}
}
