package grpcpeer_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"
	"symbio/transport/grpcpeer"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// crowd is many nodes that have heard of each other by discovery, and start at once.
type crowd struct {
	t     *testing.T
	lan   *grpcpeertest.LAN
	nodes []*grpcpeertest.Node
	homes []*home
}

func newCrowd(t *testing.T, n int, cfg grpcpeertest.Config, tune ...func(*community.Config)) *crowd {
	cfg.Gossip = true
	c := &crowd{t: t, lan: grpcpeertest.NewLAN(t, cfg)}
	for i := range n {
		c.nodes = append(c.nodes, c.lan.Join(strconv.Itoa(i)))
	}
	for i, one := range c.nodes {
		h := live(t, one.ID, strconv.Itoa(i), one.Network, tune...)
		h.limit = inBubble
		c.homes = append(c.homes, h)
	}
	return c
}

// leave ends all nodes at once.
func (c *crowd) leave() {
	var all sync.WaitGroup
	for _, h := range c.homes {
		all.Go(h.leave)
	}
	all.Wait()
	time.Sleep(time.Minute) // memberlist's last probes end by themselves
}

// seesOf returns how many of the nodes that run h sees available.
func (h *home) seesOf(all []*home) (n int) {
	for _, o := range all {
		if m, ok := h.Member(community.MemberID(o.id)); ok && m.Available {
			n++
		}
	}
	return n
}

// await waits until each of the homes sees want of the others, at most limit, and returns how long that took.
func (c *crowd) await(what string, limit time.Duration, homes, others []*home, want func(h *home) int) time.Duration {
	c.t.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		missing := 0
		for _, h := range homes {
			if h.seesOf(others) != want(h) {
				missing++
			}
		}
		if missing == 0 {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			c.t.Fatalf("%s: not at %d of %d nodes after %v", what, missing, len(homes), limit)
		}
	}
}

// links returns how many connections the nodes have, all together.
func (c *crowd) links() (n int) {
	for _, h := range c.homes {
		for _, s := range h.network.Nodes() {
			if s.State == grpcpeer.StateConnected && s.Via != grpcpeer.ViaGossip {
				n++
			}
		}
	}
	return n
}

func TestManyNodesAreMembersWithoutAConnectionEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 14
		c := newCrowd(t, n, grpcpeertest.Config{Delay: time.Millisecond})
		defer c.leave()
		all := func(*home) int { return n - 1 }
		t.Logf("whole after %v with %d links", c.await("whole", 10*time.Second, c.homes, c.homes, all), c.links())
		time.Sleep(2 * time.Minute)
		if got := c.links(); got != 0 {
			t.Errorf("%d unused links are open, want none", got)
		}
		c.await("still whole", 0, c.homes, c.homes, all)
		for _, s := range c.homes[0].network.Nodes()[1:] {
			if s.State != grpcpeer.StateConnected || s.Via != grpcpeer.ViaGossip || s.Members != 1 || s.Name == "" || s.Addr == "" || s.Protocol == "" {
				t.Errorf("a member by gossip is shown as %+v", s)
			}
		}

		// A capability is known, and can be called.
		a, b := c.homes[0], c.homes[n-1]
		b.offers("echo", echo)
		began := time.Now()
		a.sees("the capability", func(all []community.Member) bool { return len(a.WhoProvides("echo")) == 1 })
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("a new capability was known after %v, want 3s at the most", took)
		}
		r, err := a.Invoke(t.Context(), community.MemberID(b.id), "echo", community.Signal{Data: []byte(`"x"`)})
		if err != nil || string(r.Data) != `"x"` {
			t.Errorf("the call returned %q, %v", r.Data, err)
		}
		if got := c.links(); got == 0 || got > 2 {
			t.Errorf("%d links after one call, want the one that it used, and at most one back", got)
		}
		if got := a.seesOf(c.homes); got != n-1 {
			t.Errorf("%d nodes are available after the call, want %d", got, n-1)
		}
	})
}

func TestMemberByGossipThatDiesIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 12
		c := newCrowd(t, n, grpcpeertest.Config{})
		defer c.leave()
		c.await("whole", 10*time.Second, c.homes, c.homes, func(*home) int { return n - 1 })
		time.Sleep(2 * time.Minute)
		for _, one := range c.nodes[:3] {
			c.lan.Kill(one.ID)
		}
		living := c.homes[3:]
		took := c.await("the killed ones are lost", 8*time.Second, living, c.homes[:3], func(*home) int { return 0 })
		t.Logf("lost after %v", took)
		c.await("the others are not", 0, living, living, func(*home) int { return len(living) - 1 })
		if _, err := living[0].network.Invoke(t.Context(), c.homes[0].id, community.Call{Capability: "echo"}); !errors.Is(err, community.ErrUnavailable) {
			t.Errorf("a call to a lost node returned %v, want %v", err, community.ErrUnavailable)
		}
		c.homes[3].leave()
		took = c.await("the one that stopped left", 5*time.Second, c.homes[4:], c.homes[3:4], func(*home) int { return 0 })
		t.Logf("left after %v", took)
	})
}

func TestPartedCrowdIsWholeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 12
		c := newCrowd(t, n, grpcpeertest.Config{})
		defer c.leave()
		all := func(*home) int { return n - 1 }
		c.await("whole", 10*time.Second, c.homes, c.homes, all)
		time.Sleep(2 * time.Minute)
		var ids []community.NodeID
		for _, one := range c.nodes[:5] {
			ids = append(ids, one.ID)
		}
		c.lan.Partition(ids...)
		c.await("parted", 30*time.Second, c.homes[:5], c.homes[5:], func(*home) int { return 0 })
		c.await("parted", 30*time.Second, c.homes[5:], c.homes[:5], func(*home) int { return 0 })
		time.Sleep(3 * time.Minute)
		c.lan.Heal()
		t.Logf("whole again after %v", c.await("whole again", 15*time.Second, c.homes, c.homes, all))
	})
}

// Sends to a member by gossip wait for the connection that the first one makes, and arrive in order.
func TestSendsWaitForTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10
		c := newCrowd(t, n, grpcpeertest.Config{Delay: 5 * time.Millisecond})
		defer c.leave()
		c.await("whole", 10*time.Second, c.homes, c.homes, func(*home) int { return n - 1 })
		time.Sleep(2 * time.Minute)
		got := make(chan string, 100)
		b := c.homes[1]
		m, err := b.Spawn(t.Context(), "note", func(community.Member) (community.Agent, error) { return noter{got}, nil })
		if err != nil {
			t.Fatal(err)
		}
		c.homes[0].sees("the agent", func(all []community.Member) bool { return available(all, community.NodeID(m.ID)) })
		for i := range 50 {
			if err := c.homes[0].Tell(t.Context(), m.ID, community.Signal{Perception: "note", Data: fmt.Append(nil, i)}); err != nil {
				t.Fatal(err)
			}
			if i%10 == 9 {
				time.Sleep(7 * time.Millisecond)
			}
		}
		for i := range 50 {
			if s := <-got; s != strconv.Itoa(i) {
				t.Fatalf("send %d arrived as %q", i, s)
			}
		}
	})
}

// noter is an agent that keeps what it was told.
type noter struct{ got chan string }

func (noter) Perceptions() []string { return []string{"note"} }

func (e noter) Receive(_ context.Context, s community.Signal) (community.Reply, error) {
	e.got <- string(s.Data)
	return community.Reply{}, nil
}

// A node that could not be dialed at first, as where many start at once, keeps no connection to each other one for ever.
func TestNodeThatIsDialedAgainNeedsNoReversedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10
		c := newCrowd(t, n, grpcpeertest.Config{Delay: time.Millisecond})
		defer c.leave()
		late := c.homes[0]
		c.nodes[0].SetDialOnly(true)
		all := func(*home) int { return n - 1 }
		time.Sleep(18 * time.Second)
		kept := c.links()
		if kept == 0 {
			t.Fatal("a node that only dials out has no links")
		}
		c.nodes[0].SetDialOnly(false)
		time.Sleep(4 * time.Minute)
		if got := c.links(); got != 0 {
			t.Errorf("%d of %d unused links are open, want none", got, kept)
		}
		c.await("still whole", 0, c.homes, c.homes, all)
		late.offers("echo", echo)
		c.homes[1].sees("the capability", func(all []community.Member) bool { return len(c.homes[1].WhoProvides("echo")) == 1 })
		r, err := c.homes[1].Invoke(t.Context(), community.MemberID(late.id), "echo", community.Signal{Data: []byte(`"x"`)})
		if err != nil || string(r.Data) != `"x"` {
			t.Errorf("the call returned %q, %v", r.Data, err)
		}
	})
}
