//go:build system && linux

package lan_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"symbio/cmd/symbio/symbiotest"
	symbiov1 "symbio/proto/symbio/v1"
)

// Somebody on the LAN lies by mDNS, which proves nothing (discovery), and runs nodes that are of no cluster of ours.
func TestRogueNodeOnLANDoesNoHarm(t *testing.T) {
	t.Parallel()
	symbiotest.OnASwitch(t, func(t *testing.T) {
		l := symbiotest.NewLab(t, symbiotest.PlugIn(t, 1), symbiotest.PlugIn(t, 2), symbiotest.PlugIn(t, 4))
		enemy := symbiotest.PlugIn(t, 3)
		a, b := l.Up(l.Hosts[0], "a"), l.Up(l.Hosts[1], "b")
		a.Ready()
		becomesWhole(t, "a and b see each other", b.Ready().Time, 2*time.Second, a, b)
		self, err := l.State.Node("b").Identity()
		if err != nil {
			t.Fatal(err)
		}
		r, tag := startRogue(enemy), self.Tag()
		begun := time.Now()

		t.Run("a node of another CA that says it is of our cluster", func(t *testing.T) {
			enemy.Symbio("cluster", "init", "--name", "lab", "--node", "mallory", "--listen", "10.77.0.3:7946")
			mallory := symbiotest.Started(t, enemy.Inside("symbio", "up", "--json", "--name", "mallory", "--no-mdns", "--peer", "10.77.0.1:7946"))
			id := mallory.Expect(t, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" }).ID
			claim := rogueOrder{From: []string{"10.77.0.3"}, Lie: lie{ID: id, Tag: tag, Port: 7946}, Times: 40, Every: 25 * time.Millisecond}
			at := time.Now()
			r.do(t, claim)
			for _, n := range []*symbiotest.LabNode{a, b} {
				n.Says("it refused mallory", at, func(l symbiotest.Line) bool { return l.Type == "refused" && l.ID == id })
				if dials := n.LinesSince(at, func(l symbiotest.Line) bool { return l.Type == "refused" && l.ID == id }); len(dials) > 2 {
					t.Errorf("%s dialled somebody whom it refused %d times in a second, want at most 2", n.Name, len(dials))
				}
				if p := n.Peer(id); p.GetState() != "refused" || p.GetWhy() == "" {
					t.Errorf("%s lists mallory as %v, want refused, and why", n.Name, p)
				}
			}
			a.Says("who knocks was refused", begun, func(l symbiotest.Line) bool { return l.Type == "refused" && l.ID == "" && l.Addr == "10.77.0.3" })
		})

		t.Run("goodbyes in the name of a node that lives", func(t *testing.T) {
			r.do(t, rogueOrder{From: []string{"10.77.0.3"}, Lie: lie{ID: string(self.ID()), Tag: tag, Port: 7946, Goodbye: true}, Times: 40, Every: 50 * time.Millisecond})
		})

		t.Run("another's id at its own address", func(t *testing.T) {
			r.do(t, rogueOrder{Trap: "10.77.0.3:9999"})
			claim := rogueOrder{From: []string{"10.77.0.3"}, Lie: lie{ID: string(self.ID()), Tag: tag, Port: 9999}, Times: 10, Every: 50 * time.Millisecond}
			r.do(t, claim)
			c := l.Up(l.Hosts[2], "c") // which has heard the lie first, and hears it all the time
			at := c.Ready().Time
			symbiotest.Await(t, "the newcomer sees both", func() bool { r.do(t, claim); return whole(a, b, c) })
			symbiotest.Within(t, "a newcomer finds the victim in spite of the lie", at, time.Now(), 5*time.Second)
			r.do(t, claim)
			caught := r.caught(t)
			t.Logf("the liar was dialled %d times in %v", caught, time.Since(at))
			if most := int64(30); caught > most {
				t.Errorf("the liar was dialled %d times, want at most %d", caught, most)
			}
			for _, n := range []*symbiotest.LabNode{a, c} {
				if p := n.Peer("b"); p.GetState() != "connected" || strings.HasPrefix(p.GetAddr(), "10.77.0.3:") {
					t.Errorf("%s has b as %v, want connected where it is", n.Name, p)
				}
			}
		})

		for _, n := range []*symbiotest.LabNode{a, b} {
			lost := n.LinesSince(begun, func(l symbiotest.Line) bool {
				return (l.Type == "left" || l.Type == "became unavailable") && (l.Name == "a" || l.Name == "b")
			})
			if len(lost) > 0 {
				t.Errorf("%s lost a friend meanwhile: %+v", n.Name, lost)
			}
		}
	})
}

// 20,000 nodes that do not exist are announced, from as many addresses as it takes to fill every table.
func TestFloodOfForgedNodesIsBounded(t *testing.T) {
	t.Parallel()
	symbiotest.OnASwitch(t, func(t *testing.T) {
		l := symbiotest.NewLab(t, symbiotest.PlugIn(t, 1), symbiotest.PlugIn(t, 2), symbiotest.PlugIn(t, 4))
		enemy := symbiotest.PlugIn(t, 3)
		var from []string
		batch := ""
		for i := range 80 {
			from = append(from, fmt.Sprintf("10.77.0.%d", 100+i))
			batch += fmt.Sprintf("addr add 10.77.0.%d/24 dev eth0\n", 100+i)
		}
		cmd := "printf '" + batch + "' | ip -batch -"
		enemy.Run("sh", "-c", cmd)
		if _, err := exec.LookPath("nft"); err == nil { // dials that are not even refused take longest
			enemy.Run("nft", "add table inet mute; add chain inet mute in { type filter hook input priority 0; }; add rule inet mute in tcp dport 9 drop")
		}
		a, b := l.Up(l.Hosts[0], "a"), l.Up(l.Hosts[1], "b")
		a.Ready()
		becomesWhole(t, "a and b see each other", b.Ready().Time, 2*time.Second, a, b)
		before, used := a.Peak(), a.CPU()
		id, err := l.State.Node("a").Identity()
		if err != nil {
			t.Fatal(err)
		}

		at := time.Now()
		startRogue(enemy).do(t, rogueOrder{From: from, Lie: lie{Tag: id.Tag(), Port: 9}, New: true, Times: 20_000, Every: 10 * time.Millisecond})
		t.Logf("the flood took %v", time.Since(at))
		c := l.Up(l.Hosts[2], "c")
		becomesWhole(t, "a newcomer and the others see each other", c.Ready().Time, 5*time.Second, a, b, c)
		symbiotest.Await(t, "the node rests again", func() bool {
			begun, start := a.CPU(), time.Now()
			symbiotest.Pause(t, 500*time.Millisecond)
			return float64(a.CPU()-begun)/float64(time.Since(start)) < 0.05
		})
		t.Logf("a rests again %v after the flood began, having used %v of processor time", time.Since(at), a.CPU()-used)
		after := a.Peak()
		t.Logf("memory was %d MiB at most, %d MiB before", after, before)
		if grown := after - before; grown > 40*symbiotest.Slow { // 512 of them are pursued at most, each by a goroutine
			t.Errorf("the flood took %d MiB, want at most %d", grown, 40*symbiotest.Slow)
		}
		// A long flood outlives its first announcements: those stay listed until the dial that is under way for them ends.
		listed := 0
		symbiotest.Await(t, "at most 512 nodes that do not exist, and the three, are listed", func() bool {
			reply, err := a.Client.Nodes(t.Context(), &symbiov1.NodesRequest{})
			if err != nil {
				t.Fatal(err)
			}
			listed = len(reply.GetNodes())
			return listed <= 512+3
		})
		t.Logf("%d nodes are listed", listed)
		if !whole(a, b, c) {
			t.Error("the nodes do not see each other any more")
		}
		if out, err := json.Marshal(a.LinesSince(at, func(l symbiotest.Line) bool { return l.Type == "left" || l.Type == "became unavailable" })); string(out) != "null" {
			t.Errorf("a lost friends meanwhile: %s %v", out, err)
		}
	})
}
