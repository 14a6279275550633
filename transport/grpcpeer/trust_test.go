package grpcpeer_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

// takes lets a node hold the authority.
func (l *lan) takes(name string) func(*grpcpeer.Config) {
	return func(c *grpcpeer.Config) { c.Authority = filepath.Join(l.Dir(), name, "cluster") }
}

func (l *lan) joinAt(s *station, token identity.Token, name string) (*identity.Admission, error) {
	return grpcpeer.Enrol(in(l.t, patience), "second", token, l.Key(name), name, func(ctx context.Context, _ string) (net.Conn, error) {
		return s.Listener.Dial(ctx)
	})
}

func TestPromotedNodeServesTheClusterWhenTheFirstIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t)
		carlID, bobID := l.identity("carl"), l.identity("bob")
		time.Sleep(84*time.Hour - 5*time.Minute) // almost half its life
		var heard events
		first := l.add(seed)
		second := l.addAs(bobID, "bob", l.takes("bob"), reporting(&heard))
		third := l.addAs(carlID, "carl")
		f, b, c := first.live(seed), second.live("bob"), third.live("carl")
		for _, s := range []*station{first, second, third} {
			for _, o := range []*station{first, second, third} {
				if s != o {
					s.Network.AddHint(o.Hint())
				}
			}
		}
		f.finds(b.id)
		c.finds(b.id)
		if s, _ := c.status(b.id, grpcpeer.StateConnected); s.Authority {
			t.Error("bob holds the authority before it was given it")
		}
		if _, err := l.joinAt(second, l.token(""), "dora"); !errors.Is(err, identity.ErrNoAuthority) {
			t.Errorf("joining at a node that does not hold it: got %v, want %v", err, identity.ErrNoAuthority)
		}
		if err := first.Network.Promote(t.Context(), b.id); err != nil {
			t.Fatal(err)
		}
		if heard.count(grpcpeer.Entrusted) != 1 {
			t.Errorf("bob heard %+v, want that it was entrusted", heard.all)
		}
		time.Sleep(2 * time.Second)
		for name, h := range map[string]*home{"who gave it": f, "who looks on": c} {
			if s, _ := h.status(b.id, grpcpeer.StateConnected); !s.Authority {
				t.Errorf("%s does not see that bob holds the authority: %+v", name, s)
			}
		}
		f.leave()
		before := carlID.NotAfter()
		time.Sleep(10 * time.Minute)
		if !carlID.NotAfter().After(before) {
			t.Error("carl's certificate was not renewed by bob")
		}
		if bobID.Due() {
			t.Error("bob did not renew its own certificate")
		}
		held, err := identity.OpenCluster(filepath.Join(l.Dir(), "bob", "cluster"))
		if err != nil {
			t.Fatal(err)
		}
		token, err := held.NewToken(0, "worker")
		if err != nil {
			t.Fatal(err)
		}
		if a, err := l.joinAt(second, token, "dora"); err != nil || a.Role != "worker" {
			t.Errorf("joining at bob: %+v, %v", a, err)
		}
		if _, err := l.joinAt(second, token, "eve"); !errors.Is(err, identity.ErrTokenUsed) {
			t.Errorf("with the same token: got %v, want %v", err, identity.ErrTokenUsed)
		}
		if _, err := l.joinAt(second, l.token(""), "eve"); !errors.Is(err, identity.ErrTokenUnknown) ||
			!strings.Contains(err.Error(), "made it only") {
			t.Errorf("with a token of the first: got %v, want %v and where it is good", err, identity.ErrTokenUnknown)
		}
	})
}

func TestPromoteNeedsHolderAndWillingReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t)
		first, second := l.add(seed), l.add("bob") // bob is not told where to keep one
		f, b := first.live(seed), second.live("bob")
		first.Network.AddHint(second.Hint())
		second.Network.AddHint(first.Hint())
		f.finds(b.id)
		b.finds(f.id)
		if err := first.Network.Promote(t.Context(), b.id); err == nil || !strings.Contains(err.Error(), "not set up") {
			t.Errorf("to who takes none: got %v", err)
		}
		if err := second.Network.Promote(t.Context(), f.id); !errors.Is(err, identity.ErrNoAuthority) {
			t.Errorf("from who holds none: got %v, want %v", err, identity.ErrNoAuthority)
		}
		if err := first.Network.Promote(t.Context(), community.NodeID(l.Key("eve").ID())); !errors.Is(err, community.ErrUnavailable) {
			t.Errorf("to who is not connected: got %v, want %v", err, community.ErrUnavailable)
		}
	})
}

// Removals made on two sides of a partition, each with a machine that holds the authority, hold on both sides
// when it heals.
func TestRemovalsOfBothSidesOfAPartitionHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t)
		l.tune = func(c *grpcpeer.Config) { l.takes(c.Name)(c) }
		homes := l.assemble("bob", "carl", "dora", "eve")
		if err := homes[seed].network.Promote(t.Context(), homes["bob"].id); err != nil {
			t.Fatal(err)
		}
		l.Partition(homes[seed].id, homes["carl"].id)
		time.Sleep(5 * time.Second)
		if err := l.cluster.Remove(l.Key("dora").ID()); err != nil {
			t.Fatal(err)
		}
		if err := l.stationOf(homes["bob"].id).identity.Cluster().Remove(l.Key("eve").ID()); err != nil {
			t.Fatal(err)
		}
		l.Heal()
		time.Sleep(20 * time.Second)
		for _, name := range []string{seed, "bob", "carl"} {
			revoked := l.stationOf(homes[name].id).identity.Revocations()
			lists, _ := revoked.Lists()
			if !revoked.Has(l.Key("dora").ID()) || !revoked.Has(l.Key("eve").ID()) || len(lists) != 1 {
				t.Errorf("%s has %v, want one list with both", name, lists)
			}
			if available(homes[name].Members(), homes["dora"].id) || available(homes[name].Members(), homes["eve"].id) {
				t.Errorf("%s still sees who was removed", name)
			}
		}
	})
}

// Two nodes that connected shortly before their certificates end: what happens depends on whether they are
// renewed.
func TestOpenConnectionEndsWithUnrenewedCertificate(t *testing.T) {
	for name, renewed := range map[string]bool{"renewed": true, "not renewed": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newCluster(t)
				ann, bob := l.identity("ann"), l.identity("bob")
				const life = 7 * 24 * time.Hour
				began := time.Now()
				time.Sleep(life - 5*time.Minute)
				var heard events
				sa, sb := l.addAs(ann, "ann", reporting(&heard)), l.addAs(bob, "bob")
				a, b := sa.live("ann"), sb.live("bob")
				sa.Network.AddHint(sb.Hint())
				sb.Network.AddHint(sa.Hint())
				a.finds(b.id)
				b.finds(a.id)
				if renewed {
					holder := l.add(seed)
					holder.live(seed)
					for _, s := range []*station{sa, sb} {
						s.Network.AddHint(holder.Hint())
						holder.Network.AddHint(s.Hint())
					}
				}
				time.Sleep(9*time.Minute + 30*time.Second) // the tolerance for clocks is not over
				if heard.count(grpcpeer.Lost) > 0 || !available(a.Members(), b.id) {
					t.Errorf("after %v ann heard %+v, want the connection as it was", time.Since(began)-life, heard.all)
				}
				time.Sleep(2*time.Minute + 30*time.Second)
				if renewed {
					if heard.count(grpcpeer.Lost) > 0 || !available(a.Members(), b.id) || !available(b.Members(), a.id) {
						t.Errorf("ann heard %+v, want that nobody noticed", heard.all)
					}
					if s, _ := a.status(b.id, grpcpeer.StateConnected); s.CertDaysLeft < 6 {
						t.Errorf("bob is %+v, want the days of its new certificate", s)
					}
					return
				}
				if heard.count(grpcpeer.Lost) != 1 || available(a.Members(), b.id) || available(b.Members(), a.id) {
					t.Errorf("ann heard %+v, want the connection closed, in both directions", heard.all)
				}
				if s, ok := a.status(b.id, grpcpeer.StateUnavailable); !ok || !strings.Contains(s.Why, "certificate has ended") {
					t.Errorf("ann says of bob %+v, want that its own certificate has ended", s)
				}
			})
		})
	}
}
