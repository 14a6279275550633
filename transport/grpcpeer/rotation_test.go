package grpcpeer_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// acquaint makes stations know each other's addresses.
func acquaint(all ...*station) {
	for _, s := range all {
		for _, o := range all {
			if s != o {
				s.Network.AddHint(o.Hint())
			}
		}
	}
}

// callers make each home call each other one every few seconds, until stop is called, which reports the calls that failed.
func callers(t *testing.T, homes ...*home) (stop func()) {
	for _, h := range homes {
		h.offers("echo", echo)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	for _, h := range homes {
		for _, o := range homes {
			if h == o {
				continue
			}
			h.finds(o.id)
			h.done.Go(func() {
				for ctx.Err() == nil {
					if _, err := h.network.Invoke(ctx, o.id, community.Call{Capability: "echo"}); err != nil && ctx.Err() == nil {
						select {
						case failed <- err:
						default:
						}
					}
					pause(ctx, 5*time.Second)
				}
			})
		}
	}
	return func() {
		t.Helper()
		cancel()
		select {
		case err := <-failed:
			t.Errorf("a call failed: %v", err)
		default:
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// nodeOff runs the seed and bob, with calls all the time, and a third node of their cluster is off.
type nodeOff struct {
	*lan
	off           *identity.Identity
	first, second *station
	seed, bob     *home
	stop          func()
}

// start starts the two nodes, as processes that read all from their files.
func (n *nodeOff) start(t *testing.T) {
	t.Helper()
	c, err := identity.OpenCluster(filepath.Join(n.Dir(), "cluster"))
	if err != nil {
		t.Fatal(err)
	}
	n.cluster = c
	n.first, n.second = n.add(seed), n.add("bob")
	n.seed, n.bob = n.first.live(seed), n.second.live("bob")
	acquaint(n.first, n.second)
	n.stop = callers(t, n.seed, n.bob)
}

// end ends the two nodes.
func (n *nodeOff) end() {
	n.stop()
	n.seed.leave()
	n.bob.leave()
}

// comeBack starts the third node, which meets bob first and then the seed.
func (n *nodeOff) comeBack(t *testing.T) {
	t.Helper()
	third := n.addAs(n.off, "off")
	o := third.live("off")
	third.Network.AddHint(n.second.Hint())
	time.Sleep(time.Minute)
	third.Network.AddHint(n.first.Hint())
	o.finds(n.seed.id)
	third.Network.AddHint(n.second.Hint())
	n.second.Network.AddHint(third.Hint())
	o.finds(n.bob.id)
	time.Sleep(5 * time.Minute)
	n.isDone(t, n.off, n.first.identity, n.second.identity)
	o.leave()
}

// isDone reports nodes at which the rotation is not over.
func (n *nodeOff) isDone(t *testing.T, all ...*identity.Identity) {
	t.Helper()
	for _, i := range all {
		if r := i.Rotation(); r.State().Stage != identity.StageDone || !r.Standing().GetCertified() || i.Due() {
			t.Errorf("%v is at %+v, certified: %t, due: %t", i, r.State(), r.Standing().GetCertified(), i.Due())
		}
	}
}

// finish goes on without nodes that are off.
func (n *nodeOff) finish(t *testing.T) {
	t.Helper()
	for range 60 {
		stage, _, err := n.first.Network.Rotate(false, true)
		if err != nil {
			t.Fatal(err)
		}
		if stage == identity.StageDone {
			time.Sleep(time.Second)
			n.isDone(t, n.first.identity, n.second.identity)
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatal("not over after a minute")
}

func TestAuthorityIsReplacedWithoutAFailedCall(t *testing.T) {
	const day = 24 * time.Hour
	for name, run := range map[string]func(*testing.T, *nodeOff){
		"a node is off for an hour": func(t *testing.T, n *nodeOff) {
			time.Sleep(time.Hour)
			if stage, waiting, err := n.first.Network.Rotate(false, false); stage != identity.StageTrust || !slices.Equal(waiting, []string{"off"}) || err != nil {
				t.Errorf("stage %d, waiting for %v, %v; want it to wait for the node that is off", stage, waiting, err)
			}
			if s, _ := n.seed.status(n.bob.id, grpcpeer.StateConnected); s.Rotation != identity.ProgressTrusts {
				t.Errorf("bob's progress is %q, want %q", s.Rotation, identity.ProgressTrusts)
			}
			n.comeBack(t)
		},
		"a node is off for an hour, and is not waited for": func(t *testing.T, n *nodeOff) {
			n.finish(t)
			time.Sleep(time.Hour)
			n.comeBack(t)
		},
		"a node that is not waited for comes back in the middle": func(t *testing.T, n *nodeOff) {
			if stage, _, err := n.first.Network.Rotate(false, true); stage != identity.StageCertify || err != nil {
				t.Fatalf("stage %d, %v", stage, err)
			}
			time.Sleep(time.Minute)
			n.comeBack(t)
		},
		"a node is off for 20 days, and is not waited for": func(t *testing.T, n *nodeOff) {
			n.finish(t)
			n.end()
			time.Sleep(20 * day)
			n.start(t)
			n.comeBack(t)
		},
		"a node is off until its certificate has ended": func(t *testing.T, n *nodeOff) {
			time.Sleep(time.Minute)
			n.end()
			time.Sleep(8 * day)
			n.start(t)
			time.Sleep(5 * time.Minute)
			n.isDone(t, n.first.identity, n.second.identity)
			n.comeBack(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &nodeOff{lan: newCluster(t)}
				n.off = n.identity("off")
				n.start(t)
				old, err := n.first.identity.Certificate()
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if stage, _, err := n.first.Network.Rotate(true, false); err != nil || stage != identity.StageTrust {
					t.Fatalf("begun: stage %d, %v", stage, err)
				}
				time.Sleep(time.Second)
				run(t, n)
				n.end()
				for _, i := range []*identity.Identity{n.off, n.second.identity} {
					if _, err := i.VerifyCertificate(old); err == nil {
						t.Errorf("%v trusts the old authority", i)
					}
				}
			})
		})
	}
}

// Both holders begin at once, and one of the two rotations goes on, to its end, on all nodes.
func TestTwoHoldersRotateAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newSlowCluster(t, grpcpeertest.Config{Delay: time.Millisecond}) // the second begins before it hears of the first
		first, second, third := l.add(seed, l.takes(".")), l.add("bob", l.takes("bob")), l.add("carl")
		f, b, c := first.live(seed), second.live("bob"), third.live("carl")
		acquaint(first, second, third)
		stop := callers(t, f, b, c)
		if _, _, err := third.Network.Rotate(true, false); !errors.Is(err, identity.ErrNoAuthority) {
			t.Errorf("a node without the authority rotates: %v", err)
		}
		if err := first.Network.Promote(t.Context(), b.id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		for _, s := range []*station{first, second} {
			if _, _, err := s.Network.Rotate(true, false); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Minute)
		won := third.identity.Rotation().State()
		for name, s := range map[string]*station{"seed": first, "bob": second, "carl": third} {
			if got := s.identity.Rotation().State(); got.Stage != identity.StageDone || got.Successor != won.Successor || s.identity.Due() {
				t.Errorf("%s is at %+v and due: %t; want it to be over with %s", name, got, s.identity.Due(), won.Successor)
			}
			if holds := s.identity.Cluster() != nil; holds != (s != third) {
				t.Errorf("%s holds the authority: %t", name, holds)
			}
		}
		stop()
		f.leave()
		if err := second.identity.Cluster().Remove(identity.NodeID(f.id)); err != nil { // with the new key
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if !third.identity.Revocations().Has(f.id) {
			t.Error("what the second holder removes is not removed elsewhere")
		}
	})
}
