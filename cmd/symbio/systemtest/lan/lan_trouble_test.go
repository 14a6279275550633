//go:build system && linux

package lan_test

import (
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"symbio/cmd/symbio/symbiotest"
)

// The bounds here are those of the failure table (architecture), with time for the start of twelve processes.

// Twelve nodes on four machines: all meet; one is killed while it is called from everywhere; the network interface of a
// machine is pulled out and another put in.
func TestTwelveNodesOnALAN(t *testing.T) {
	t.Parallel()
	symbiotest.OnASwitch(t, func(t *testing.T) {
		l := symbiotest.NewLab(t, symbiotest.PlugIn(t, 1), symbiotest.PlugIn(t, 2), symbiotest.PlugIn(t, 3), symbiotest.PlugIn(t, 4))
		var all []*symbiotest.LabNode
		for i := range 12 {
			all = append(all, l.Up(l.Hosts[i%4], fmt.Sprintf("n%d", i+1), 7001+i))
		}
		var last time.Time
		for _, n := range all {
			if at := n.Ready().Time; at.After(last) {
				last = at
			}
		}
		becomesWhole(t, "12 nodes see each other after the last is ready", last, 5*time.Second, all...)

		t.Run("kill -9 under call load", func(t *testing.T) {
			victim, end := all[11], make(chan struct{})
			slow, fast := all[0].Calls(16, "slow", victim.Name, end), all[1].Calls(16, "node.info", victim.Name, end)
			symbiotest.Await(t, "a call's result", func() bool { return len(victim.LinesSince(time.Time{}, isServed)) > 100 })
			at := time.Now()
			if err := victim.Cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			close(end)
			calls := append(slow(), fast()...)
			endedWell(t, calls, at, 3*time.Second)
			all = all[:11]
			symbiotest.Await(t, "the killed node is unavailable", func() bool {
				return !slices.ContainsFunc(all, func(n *symbiotest.LabNode) bool { return n.Sees()[victim.Name] != "" })
			})
			symbiotest.Within(t, "all notice that it is gone", at, time.Now(), 3*time.Second)
		})

		t.Run("another network interface", func(t *testing.T) {
			h := l.Hosts[1]
			var there, elsewhere []*symbiotest.LabNode
			for _, n := range all {
				if n.Host == h {
					there = append(there, n)
				} else {
					elsewhere = append(elsewhere, n)
				}
			}
			before := elsewhere[0].Sees()
			at := time.Now()
			h.Unplug("eth0")
			symbiotest.Await(t, "they are unavailable", func() bool {
				return !slices.ContainsFunc(elsewhere, func(n *symbiotest.LabNode) bool { return n.Sees()[there[0].Name] != "" })
			})
			symbiotest.Within(t, "all notice that the interface is gone", at, time.Now(), 4*time.Second)
			becomesWhole(t, "those of the machine without a network see each other on loopback", at, 5*time.Second, there...)
			at = time.Now()
			h.Plug("br0", "eth0", "10.77.0.102/24") // with another address
			becomesWhole(t, "all see each other over another interface", at, 5*time.Second, all...)
			if after := elsewhere[0].Sees()[there[0].Name]; after != before[there[0].Name] {
				t.Errorf("%s is %s afterwards, want %s as before", there[0].Name, after, before[there[0].Name])
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
	symbiotest.OnASwitch(t, func(t *testing.T) {
		l := symbiotest.NewLab(t, symbiotest.PlugIn(t, 1), symbiotest.PlugIn(t, 2), symbiotest.PlugIn(t, 3))
		for _, h := range l.Hosts {
			h.Run("nft", "add table inet loss; add chain inet loss in { type filter hook input priority 0; };"+
				` add rule inet loss in iifname "eth0" numgen random mod 10 < 3 drop`)
		}
		a, b, c := l.Up(l.Hosts[0], "a"), l.Up(l.Hosts[1], "b"), l.Up(l.Hosts[2], "c")
		all := []*symbiotest.LabNode{a, b, c}
		var last time.Time
		for _, n := range all {
			last = n.Ready().Time
		}
		for _, n := range all {
			for _, other := range all {
				if n != other {
					n.Says(other.Name+" joined", time.Time{}, func(l symbiotest.Line) bool { return l.Type == "joined" && l.Name == other.Name })
				}
			}
		}
		symbiotest.Within(t, "each has seen each other in spite of the loss", last, time.Now(), time.Minute)

		end := make(chan struct{})
		done := a.Calls(8, "slow", "b", end)
		symbiotest.Pause(t, time.Second)
		close(end)
		for _, c := range done() {
			symbiotest.Within(t, "a call", c.Begun, c.Ended, time.Minute)
		}
		at := time.Now()
		for _, h := range l.Hosts {
			h.Run("nft", "delete table inet loss")
		}
		becomesWhole(t, "all see each other after the loss", at, 5*time.Second, all...)
	})
}

// A LAN without IPv4. The third machine has nothing but the address that every interface gives itself.
func TestNodesOnALANWithIPv6Only(t *testing.T) {
	t.Parallel()
	symbiotest.OnASwitch(t, func(t *testing.T) {
		a, b, c := symbiotest.Boot(t, 1), symbiotest.Boot(t, 2), symbiotest.Boot(t, 3)
		a.Plug("br0", "eth0", "fd77::1/64")
		b.Plug("br0", "eth0", "fd77::2/64")
		c.Plug("br0", "eth0")
		l := symbiotest.NewLab(t, a, b, c)
		var all []*symbiotest.LabNode
		for i, h := range l.Hosts {
			all = append(all, l.Up(h, fmt.Sprintf("n%d", i+1)))
		}
		var last time.Time
		for _, n := range all {
			last = n.Ready().Time
		}
		becomesWhole(t, "3 nodes see each other over IPv6", last, 2*time.Second, all...)
		t.Logf("the first is connected to %s and %s", all[0].Peer("n2").GetAddr(), all[0].Peer("n3").GetAddr())
	})
}

// One machine is in two LANs. It is dialled by the address that it has in the LAN of who dials; and nobody of one LAN
// can make it knock at machines of the other.
func TestNodeInTwoLANs(t *testing.T) {
	t.Parallel()
	symbiotest.OnASwitch(t, func(t *testing.T) {
		symbiotest.AddBridge(t, "br1")
		left, both, right := symbiotest.PlugIn(t, 1), symbiotest.PlugIn(t, 2), symbiotest.Boot(t, 3)
		both.Plug("br1", "eth1", "10.78.0.2/24")
		right.Plug("br1", "eth0", "10.78.0.3/24")
		bystander, stranger := symbiotest.PlugIn(t, 4), symbiotest.Boot(t, 5)
		stranger.Plug("br1", "eth0", "10.78.0.5/24")

		l := symbiotest.NewLab(t, left, both, right)
		a, b, c := l.Up(left, "a"), l.Up(both, "b"), l.Up(right, "c")
		a.Ready()
		c.Ready()
		at := b.Ready().Time
		becomesWhole(t, "the node in both LANs and that of the first see each other", at, 2*time.Second, a, b)
		becomesWhole(t, "the node in both LANs and that of the second see each other", at, 2*time.Second, b, c)
		for _, x := range []struct {
			on   *symbiotest.LabNode
			peer string
			at   *symbiotest.Host
			dev  string
		}{{a, "b", both, "eth0"}, {c, "b", both, "eth1"}, {b, "a", left, "eth0"}, {b, "c", right, "eth0"}} {
			// IPv4 is dialled first. On a busy machine that of the interface's own IPv6 address may be ready before.
			got := netip.MustParseAddrPort(x.on.Peer(x.peer).GetAddr()).Addr().WithZone("")
			if has := x.at.Run("ip", "-o", "addr", "show", "dev", x.dev); !strings.Contains(has, " "+got.String()+"/") {
				t.Errorf("%s is connected to %s at %s, want an address of that LAN:\n%s", x.on.Name, x.peer, got, has)
			}
		}

		id, err := l.State.Node("a").Identity()
		if err != nil {
			t.Fatal(err)
		}
		liar, quiet := startRogue(stranger), startRogue(bystander)
		quiet.do(t, rogueOrder{Trap: "10.77.0.4:22"})
		liar.do(t, rogueOrder{Trap: "10.78.0.5:22"})
		lie := rogueOrder{From: []string{"10.78.0.5"}, Times: 1, Lie: lie{ID: forgedID, Tag: id.Tag(), Port: 22, Addrs: []string{"10.77.0.4"}}}
		// Those of its own LAN who believe it dial it first; when they do so again, they have tried all that it named.
		symbiotest.Await(t, "the liar is dialled", func() bool {
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
