//go:build linux

package main

import (
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// The bounds here are those of the failure table (architecture), with time for the start of twelve processes.

// Twelve nodes on four machines: all meet; one is killed while it is called from everywhere; the network interface of a
// machine is pulled out and another put in.
func TestTwelveNodesOnALAN(t *testing.T) {
	t.Parallel()
	onASwitch(t, func(t *testing.T) {
		l := newLab(t, plugIn(t, 1), plugIn(t, 2), plugIn(t, 3), plugIn(t, 4))
		var all []*labNode
		for i := range 12 {
			all = append(all, l.up(l.hosts[i%4], fmt.Sprintf("n%d", i+1), 7001+i))
		}
		var last time.Time
		for _, n := range all {
			if at := n.ready().Time; at.After(last) {
				last = at
			}
		}
		becomesWhole(t, "12 nodes see each other after the last is ready", last, 5*time.Second, all...)

		t.Run("kill -9 under call load", func(t *testing.T) {
			victim, end := all[11], make(chan struct{})
			slow, fast := all[0].calls(16, "slow", victim.name, end), all[1].calls(16, "node.info", victim.name, end)
			await(t, "a call's result", limit, func() bool { return len(victim.heard(time.Time{}, isServed)) > 100 })
			at := time.Now()
			if err := victim.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			close(end)
			calls := append(slow(), fast()...)
			endedWell(t, calls, at, 3*time.Second)
			all = all[:11]
			await(t, "the killed node is unavailable", limit, func() bool {
				return !slices.ContainsFunc(all, func(n *labNode) bool { return n.sees()[victim.name] != "" })
			})
			within(t, "all notice that it is gone", at, time.Now(), 3*time.Second)
		})

		t.Run("another network interface", func(t *testing.T) {
			h := l.hosts[1]
			var there, elsewhere []*labNode
			for _, n := range all {
				if n.host == h {
					there = append(there, n)
				} else {
					elsewhere = append(elsewhere, n)
				}
			}
			before := elsewhere[0].sees()
			at := time.Now()
			h.unplug("eth0")
			await(t, "they are unavailable", limit, func() bool {
				return !slices.ContainsFunc(elsewhere, func(n *labNode) bool { return n.sees()[there[0].name] != "" })
			})
			within(t, "all notice that the interface is gone", at, time.Now(), 4*time.Second)
			becomesWhole(t, "those of the machine without a network see each other on loopback", at, 5*time.Second, there...)
			at = time.Now()
			h.plug("br0", "eth0", "10.77.0.102/24") // with another address
			becomesWhole(t, "all see each other over another interface", at, 5*time.Second, all...)
			if after := elsewhere[0].sees()[there[0].name]; after != before[there[0].name] {
				t.Errorf("%s is %s afterwards, want %s as before", there[0].name, after, before[there[0].name])
			}
		})
	})
}

// Three machines each lose 30 % of all packets that reach them.
func TestNodesOnALANThatLosesPackets(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("needs nft of nftables to lose packets")
	}
	onASwitch(t, func(t *testing.T) {
		l := newLab(t, plugIn(t, 1), plugIn(t, 2), plugIn(t, 3))
		for _, h := range l.hosts {
			h.run("nft", "add table inet loss; add chain inet loss in { type filter hook input priority 0; };"+
				` add rule inet loss in iifname "eth0" numgen random mod 10 < 3 drop`)
		}
		a, b, c := l.up(l.hosts[0], "a"), l.up(l.hosts[1], "b"), l.up(l.hosts[2], "c")
		all := []*labNode{a, b, c}
		var last time.Time
		for _, n := range all {
			last = n.ready().Time
		}
		for _, n := range all {
			for _, other := range all {
				if n != other {
					n.says(other.name+" joined", time.Time{}, func(l line) bool { return l.Type == "joined" && l.Name == other.name })
				}
			}
		}
		within(t, "each has seen each other in spite of the loss", last, time.Now(), limit)

		end := make(chan struct{})
		done := a.calls(8, "slow", "b", end)
		time.AfterFunc(time.Second, func() { close(end) })
		for _, c := range done() {
			within(t, "a call", c.begun, c.ended, limit)
		}
		at := time.Now()
		for _, h := range l.hosts {
			h.run("nft", "delete table inet loss")
		}
		becomesWhole(t, "all see each other after the loss", at, 5*time.Second, all...)
	})
}

// A LAN without IPv4. The third machine has nothing but the address that every interface gives itself.
func TestNodesOnALANWithIPv6Only(t *testing.T) {
	t.Parallel()
	onASwitch(t, func(t *testing.T) {
		a, b, c := boot(t, 1), boot(t, 2), boot(t, 3)
		a.plug("br0", "eth0", "fd77::1/64")
		b.plug("br0", "eth0", "fd77::2/64")
		c.plug("br0", "eth0")
		l := newLab(t, a, b, c)
		var all []*labNode
		for i, h := range l.hosts {
			all = append(all, l.up(h, fmt.Sprintf("n%d", i+1)))
		}
		var last time.Time
		for _, n := range all {
			last = n.ready().Time
		}
		becomesWhole(t, "3 nodes see each other over IPv6", last, 2*time.Second, all...)
		t.Logf("the first is connected to %s and %s", all[0].peer("n2").GetAddr(), all[0].peer("n3").GetAddr())
	})
}

// One machine is in two LANs. It is dialled by the address that it has in the LAN of who dials; and nobody of one LAN
// can make it knock at machines of the other.
func TestNodeInTwoLANs(t *testing.T) {
	t.Parallel()
	onASwitch(t, func(t *testing.T) {
		addBridge(t, "br1")
		left, both, right := plugIn(t, 1), plugIn(t, 2), boot(t, 3)
		both.plug("br1", "eth1", "10.78.0.2/24")
		right.plug("br1", "eth0", "10.78.0.3/24")
		bystander, stranger := plugIn(t, 4), boot(t, 5)
		stranger.plug("br1", "eth0", "10.78.0.5/24")

		l := newLab(t, left, both, right)
		a, b, c := l.up(left, "a"), l.up(both, "b"), l.up(right, "c")
		a.ready()
		c.ready()
		at := b.ready().Time
		becomesWhole(t, "the node in both LANs and that of the first see each other", at, 2*time.Second, a, b)
		becomesWhole(t, "the node in both LANs and that of the second see each other", at, 2*time.Second, b, c)
		for _, x := range []struct {
			on   *labNode
			peer string
			at   *host
			dev  string
		}{{a, "b", both, "eth0"}, {c, "b", both, "eth1"}, {b, "a", left, "eth0"}, {b, "c", right, "eth0"}} {
			// IPv4 is dialled first. On a busy machine that of the interface's own IPv6 address may be ready before.
			got := netip.MustParseAddrPort(x.on.peer(x.peer).GetAddr()).Addr().WithZone("")
			if has := x.at.run("ip", "-o", "addr", "show", "dev", x.dev); !strings.Contains(has, " "+got.String()+"/") {
				t.Errorf("%s is connected to %s at %s, want an address of that LAN:\n%s", x.on.name, x.peer, got, has)
			}
		}

		id, err := l.state.Node("a").Identity()
		if err != nil {
			t.Fatal(err)
		}
		liar, quiet := stranger.rogue(), bystander.rogue()
		quiet.do(t, rogueOrder{Trap: "10.77.0.4:22"})
		liar.do(t, rogueOrder{Trap: "10.78.0.5:22"})
		lie := rogueOrder{From: []string{"10.78.0.5"}, Times: 1, Lie: lie{ID: forgedID, Tag: id.Tag(), Port: 22, Addrs: []string{"10.77.0.4"}}}
		// Those of its own LAN who believe it dial it first; when they do so again, they have tried all that it named.
		await(t, "the liar is dialled", limit, func() bool {
			liar.do(t, lie)
			return liar.caught(t) >= 6
		})
		t.Logf("the liar was dialled %d times", liar.caught(t))
		if n := quiet.caught(t); n > 0 {
			t.Errorf("a machine of the other LAN that a stranger named was dialled %d times, want never", n)
		}
	})
}

// forgedID is of a node that does not exist.
const forgedID = "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0"
