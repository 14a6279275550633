package grpcpeer

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/transport/grpcpeer/internal/introduced"
)

// linked is a server that has links to nodes, by where they were dialed; "" = reversed.
func linked(self int, addrs map[int]string) *server {
	n := &local{links: newLinks(someID(self))}
	s := &server{local: n, candidates: newCandidates(n, nil)}
	for i, a := range addrs {
		s.link(i, a)
	}
	return s
}

func (s *server) link(i int, addr string) {
	l := &link{peer: community.Peer{ID: someID(i)}}
	if addr != "" {
		l.at.addr = netip.MustParseAddrPort(addr)
	}
	s.links.remove(l.peer.ID)
	s.links.add(l)
}

// watcher is node 99 at 10.0.0.99, that listens on a port.
func (s *server) watcher(port uint32) *introductionFeed {
	remote := &caller{addr: "10.0.0.99:40000"}
	remote.ID = someID(99)
	remote.port.Store(port)
	return s.newIntroductionFeed(remote)
}

// inShort is what events say, in short.
func inShort(events []*pb.CatalogEvent) string {
	out := ""
	for _, e := range events {
		if i := e.GetIntroductions(); i != nil {
			out += fmt.Sprintf("introductions all=%t +%d -%d;", i.GetAll(), len(i.GetNodes()), len(i.GetGone()))
		}
		if e.GetUnlinked() != nil {
			out += "unlinked;"
		}
	}
	return out
}

func TestNewsComeTogetherOnceASecond(t *testing.T) {
	n := linked(0, map[int]string{1: "10.0.0.1:1", 99: "10.0.0.99:1"})
	w := n.watcher(1)
	for _, step := range []struct {
		at   time.Duration
		do   func()
		want string
	}{
		{0, func() {}, "introductions all=true +1 -0;"},
		{time.Second, func() {}, ""},
		{2 * time.Second, func() { n.link(2, "10.0.0.2:1") }, "introductions all=false +1 -0;"},
		{2100 * time.Millisecond, func() { n.link(3, "10.0.0.3:1"); n.links.remove(someID(1)) }, ""},
		{2200 * time.Millisecond, func() { n.link(4, "10.0.0.4:1") }, ""},
		{3 * time.Second, func() {}, "introductions all=false +2 -1;"},
		{4 * time.Second, func() { n.link(3, "10.0.0.33:1") }, "introductions all=false +1 -0;"},
	} {
		step.do()
		if got := inShort(w.events(w.started.Add(step.at))); got != step.want {
			t.Errorf("after %v: told %q, want %q", step.at, got, step.want)
		}
	}
}

func TestOnlyDialedNodesAreIntroduced(t *testing.T) {
	n := linked(0, map[int]string{1: "10.0.0.1:1", 2: "", 3: "[fe80::3%eth0]:1", 4: "127.0.0.1:1", 99: "10.0.0.99:1"})
	if got, want := inShort(n.watcher(1).events(time.Now())), "introductions all=true +1 -0;"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

// Dialling has its turn before a connection is asked for, unless there is nothing to dial.
func TestReversedConnectionIsRequestedAfterDialing(t *testing.T) {
	for _, c := range []struct {
		name        string
		port        uint32
		set         func(n *server)
		first, then string
	}{
		{"it can be dialled, as it says", 1, nil, "", "unlinked;"},
		{"nobody knows where it is", 0, nil, "unlinked;", "unlinked;"},
		{"discovery says where it is", 0, func(n *server) { n.candidates.byKey[string(someID(99))] = &candidate{} }, "", "unlinked;"},
		{"it is linked", 1, func(n *server) { n.link(99, "10.0.0.99:1") }, "", ""},
		{"it is linked by what it opened", 0, func(n *server) { n.link(99, "") }, "", ""},
		{"it has just opened one", 0, func(n *server) { n.links.reserve(someID(99)) }, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := linked(0, nil)
			if c.set != nil {
				c.set(n)
			}
			w := n.watcher(c.port)
			const none = "introductions all=true +0 -0;"
			if got := inShort(w.events(w.started)); got != none+c.first {
				t.Errorf("at once: told %q, want %q", got, none+c.first)
			}
			if got := inShort(w.events(w.started.Add(time.Second))); got != c.then {
				t.Errorf("a second later: told %q, want %q", got, c.then)
			}
		})
	}
}

// In a cluster that is too large for one to introduce all, somebody introduces each.
func TestEachNodeIsIntroduced(t *testing.T) {
	const size = 1000
	by := map[community.NodeID]int{}
	for self := 0; self < size; self += 100 {
		n := linked(self, nil)
		for i := range size {
			if i != self {
				n.link(i, "10.0.0.1:1")
			}
		}
		all := *n.links.acquaintances()
		if len(all) != introduced.MaxNodes {
			t.Fatalf("node %d introduces %d, want %d", self, len(all), introduced.MaxNodes)
		}
		for _, a := range all {
			by[a.id]++
		}
	}
	if len(by) != size {
		t.Errorf("%d of %d nodes are introduced by one of ten", len(by), size)
	}
}

// What one watcher is told, applied to what it knew, is what there is to know.
func TestNewsAreTheDifference(t *testing.T) {
	at := func(i int, addr string) acquaintance { return acquaintance{someID(i), netip.MustParseAddrPort(addr)} }
	rolls := [][]acquaintance{
		{},
		{at(1, "10.0.0.1:1"), at(3, "10.0.0.3:1"), at(5, "127.0.0.1:5")},
		{at(1, "10.0.0.1:2"), at(2, "10.0.0.2:1"), at(5, "10.0.0.5:1")},
		{at(2, "127.0.0.1:2"), at(7, "10.0.0.7:1")},
		{at(7, "10.0.0.7:1")},
		{},
	}
	for name, loopback := range map[string]bool{"10.0.0.7:9": false, "127.0.0.1:9": true} {
		w := &introductionFeed{caller: &caller{addr: name}, loopback: loopback}
		w.caller.ID = someID(7)
		has := map[string]string{}
		for n, roll := range rolls {
			said := w.diff(roll)
			if said.GetAll() != (n == 0) {
				t.Errorf("%s, roll %d: all is %t", name, n, said.GetAll())
			}
			for _, i := range said.GetNodes() {
				has[i.GetId()] = i.GetAddrs()[0]
			}
			for _, id := range said.GetGone() {
				if has[id] == "" {
					t.Errorf("%s, roll %d: %s is gone and was never there", name, n, id)
				}
				delete(has, id)
			}
			want := map[string]string{}
			for _, a := range roll {
				if a.id != someID(7) && (loopback || !a.addr.Addr().IsLoopback()) {
					want[string(a.id)] = a.addr.String()
				}
			}
			if fmt.Sprint(has) != fmt.Sprint(want) {
				t.Errorf("%s, roll %d: it knows %v, want %v", name, n, has, want)
			}
			w.sent = &roll
		}
	}
}
