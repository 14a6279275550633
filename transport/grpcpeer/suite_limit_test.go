package grpcpeer_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"symbio/community"
)

// doubling takes a number and answers with one.
var doubling = community.Capability{Name: "double", Input: json.RawMessage(`{"type":"integer"}`),
	Output: json.RawMessage(`{"type":"integer"}`)}

func inputIsCheckedBeforeItIsSent(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	var calls atomic.Int32
	node := b.offersAs(doubling, func(_ context.Context, s community.Signal) (community.Reply, error) {
		calls.Add(1)
		return community.Reply{Data: s.Data}, nil
	}, a)
	_, err := a.Invoke(in(t, patience), node.ID, "double", community.Signal{Data: []byte(`"x"`)})
	if !errors.Is(err, community.ErrInvalid) || !strings.Contains(err.Error(), `want "integer"`) {
		t.Errorf("got %v, want ErrInvalid and what is wrong", err)
	}
	if n := b.Refusals(a.id).Total(); calls.Load() != 0 || n != 0 {
		t.Errorf("b heard of it: %d calls, %d refusals", calls.Load(), n)
	}
	if r, err := a.Invoke(in(t, patience), node.ID, "double", community.Signal{Data: []byte(`2`)}); err != nil || string(r.Data) != "2" {
		t.Errorf("what fits got %q, %v", r.Data, err)
	}
}

// providerChecksToo calls past a's community, as a node would that does not check.
func providerChecksToo(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	answer := `"four"`
	b.offersAs(doubling, func(context.Context, community.Signal) (community.Reply, error) {
		return community.Reply{Data: []byte(answer)}, nil
	}, a)
	_, err := a.end.Invoke(in(t, patience), b.id, community.Call{ID: "1", Capability: "double", Payload: []byte(`"x"`)})
	if !errors.Is(err, community.ErrInvalid) || !strings.Contains(err.Error(), `want "integer"`) {
		t.Errorf("got %v, want ErrInvalid and what is wrong", err)
	}
	if n := b.Refusals(a.id)[community.RefusedInvalid]; n != 1 {
		t.Errorf("b counted %d of a's calls as invalid, want 1", n)
	}
	_, err = a.end.Invoke(in(t, patience), b.id, community.Call{ID: "2", Capability: "double", Payload: []byte(`2`)})
	if !errors.Is(err, community.ErrAgentFailed) || strings.Contains(err.Error(), "four") {
		t.Errorf("an answer that does not fit: got %v, want ErrAgentFailed and nothing of it", err)
	}
}

// floodIsRefused has a rate so low that no clock matters: three calls are denied, and no more for an hour.
func floodIsRefused(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b", func(cfg *community.Config) {
		cfg.RefusalRate, cfg.RefusalBurst = 1.0/3600, 3
		cfg.Authorize = func(community.Peer, community.Call) error { return errors.New("no") }
	})
	node := b.offers("echo", echo, a)
	for i := range 6 {
		begun := time.Now()
		_, err := a.Invoke(in(t, patience), node.ID, "echo", community.Signal{})
		if busy := errors.Is(err, community.ErrBusy); busy != (i >= 3) || !busy && !errors.Is(err, community.ErrDenied) {
			t.Errorf("call %d: got %v", i, err)
		}
		l.within(time.Second, begun, "an answer or a refusal")
	}
	if n := b.Refusals(a.id)[community.RefusedRate]; n != 3 {
		t.Errorf("b counted %d, want 3", n)
	}
	a.node(b) // it is refused, not lost
}

func capabilityIsBusy(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	begun, release := make(chan bool), make(chan bool)
	node := b.offersAs(community.Capability{Name: "slow"}, func(context.Context, community.Signal) (community.Reply, error) {
		begun <- true
		<-release
		return community.Reply{}, nil
	}, a, community.WithConcurrency(1))
	var first sync.WaitGroup
	first.Go(func() {
		if _, err := a.Invoke(in(t, patience), node.ID, "slow", community.Signal{}); err != nil {
			t.Errorf("the first got %v", err)
		}
	})
	<-begun
	if _, err := a.Invoke(in(t, patience), node.ID, "slow", community.Signal{}); !errors.Is(err, community.ErrBusy) {
		t.Errorf("the second at a time got %v, want ErrBusy", err)
	}
	if n := b.Refusals(a.id)[community.RefusedCapability]; n != 1 {
		t.Errorf("b counted %d, want 1", n)
	}
	close(release)
	first.Wait()
}
