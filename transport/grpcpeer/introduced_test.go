package grpcpeer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"symbio/community"
	"symbio/discovery"
	"symbio/discovery/discoverytest"
	pb "symbio/proto/symbio/v1"
)

// someID is a node's id.
func someID(i int) community.NodeID { return community.NodeID(fmt.Sprintf("%032x", i)) }

// from is a link to an introducer.
func from(i int, addr string) *link {
	return &link{peer: community.Peer{ID: someID(i), Addr: addr}}
}

func presents(id community.NodeID, addrs ...string) *pb.Introductions {
	return &pb.Introductions{Nodes: []*pb.Introduction{{Id: string(id), Addrs: addrs}}}
}

func TestIntroducedIsASource(t *testing.T) {
	discoverytest.TestSource(t, func(t *testing.T) discoverytest.Rig {
		s := newIntroduced(someID(0))
		who := from(1, "127.0.0.1:1")
		id := func(a netip.AddrPort) community.NodeID { return someID(int(a.Port())) }
		return discoverytest.Rig{
			Source: s,
			Appear: func(a netip.AddrPort) { s.hear(who, presents(id(a), a.String())) },
			Vanish: func(a netip.AddrPort) { s.hear(who, &pb.Introductions{Gone: []string{string(id(a))}}) },
			Within: time.Second,
		}
	})
}

// known is where the source says that a node may be.
func (s *Introduced) known(id community.NodeID) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, a := range addrsOf(id, s.by[id]) {
		out = append(out, a.String())
	}
	return out
}

func TestOnlyAddressesWorthDiallingAreIntroduced(t *testing.T) {
	for _, c := range []struct {
		said      string
		far, near bool // whether it counts from another machine, and from this one
	}{
		{"10.0.0.7:7946", true, true},
		{"[fd00::7]:7946", true, true},
		{"[2001:db8::7]:7946", true, true},
		{"127.0.0.1:7946", false, true},
		{"[::1]:7946", false, true},
		{"[::ffff:127.0.0.1]:7946", false, true},
		{"10.0.0.7:0", false, false},
		{"0.0.0.0:7946", false, false},
		{"[::]:7946", false, false},
		{"224.0.0.251:5353", false, false},
		{"[ff02::fb]:5353", false, false},
		{"255.255.255.255:7946", false, false},
		{"169.254.1.1:7946", false, false},
		{"[fe80::1%eth0]:7946", false, false},
		{"[fd00::7%\x1b[31m]:7946", false, false},
		{"kitchen.example:7946", false, false},
		{"", false, false},
	} {
		for addr, want := range map[string]bool{"10.0.0.1:7946": c.far, "127.0.0.1:7946": c.near} {
			s := newIntroduced(someID(0))
			s.hear(from(1, addr), presents(someID(2), c.said))
			if got := len(s.known(someID(2))) == 1; got != want {
				t.Errorf("%q introduced from %s: taken is %t, want %t", c.said, addr, got, want)
			}
		}
	}
}

func TestWhoIsIntroducedIsAnotherNode(t *testing.T) {
	s := newIntroduced(someID(0))
	s.itself(someID(1), netip.MustParseAddrPort("10.0.0.1:7946"), true)
	for _, id := range []string{string(someID(0)), string(someID(1)), "", "x", "../../etc", string(someID(2)) + "0"} {
		s.hear(from(1, "10.0.0.1:7946"), presents(community.NodeID(id), "10.0.0.9:7946"))
	}
	if len(s.by) != 1 {
		t.Errorf("known are %v, want only node 1", s.by)
	}
	s.hear(from(1, "10.0.0.1:7946"), &pb.Introductions{All: true, Gone: []string{string(someID(2))}})
	if got := s.known(someID(1)); len(s.by) != 1 || !slices.Equal(got, []string{"10.0.0.1:7946"}) {
		t.Errorf("known are %v, want only where node 1 says itself that it is", s.by)
	}
}

func TestWhatMostSayIsDialledFirst(t *testing.T) {
	s := newIntroduced(someID(0))
	x := someID(9)
	s.hear(from(1, "10.0.0.1:1"), presents(x, "10.0.0.66:1", "10.0.0.67:1", "10.0.0.68:1", "10.0.0.69:1", "10.0.0.70:1"))
	s.hear(from(2, "10.0.0.2:1"), presents(x, "10.0.0.9:1"))
	s.hear(from(3, "10.0.0.3:1"), presents(x, "10.0.0.9:1"))
	if got := s.known(x); len(got) != 5 || got[0] != "10.0.0.9:1" {
		t.Errorf("got %v, want 10.0.0.9:1 and then the four of node 1", got)
	}
	s.itself(x, netip.MustParseAddrPort("10.0.0.10:1"), true)
	if got := s.known(x); got[0] != "10.0.0.10:1" {
		t.Errorf("got %v, want first what the node says itself", got)
	}
}

func TestAnIntroductionLastsWhileSomebodyVouches(t *testing.T) {
	x := someID(9)
	for _, c := range []struct {
		name string
		end  func(s *Introduced)
		left int // addresses after it
	}{
		{"one takes it back", func(s *Introduced) { s.hear(from(1, "10.0.0.1:1"), &pb.Introductions{Gone: []string{string(x)}}) }, 1},
		{"one begins anew without it", func(s *Introduced) { s.hear(from(1, "10.0.0.1:1"), &pb.Introductions{All: true}) }, 1},
		{"one is removed", func(s *Introduced) { s.leaves(someID(1), true) }, 1},
		{"one is away for a moment", func(s *Introduced) {
			s.leaves(someID(1), false)
			s.expire(time.Now().Add(vouchTime - time.Second))
		}, 2},
		{"one is away and comes back", func(s *Introduced) {
			s.leaves(someID(1), false)
			s.stays(someID(1))
			s.expire(time.Now().Add(2 * vouchTime))
		}, 2},
		{"one is away for good", func(s *Introduced) {
			s.leaves(someID(1), false)
			s.expire(time.Now().Add(vouchTime + time.Second))
		}, 1},
		{"both are away for good", func(s *Introduced) {
			s.leaves(someID(1), false)
			s.leaves(someID(2), false)
			s.expire(time.Now().Add(vouchTime + time.Second))
		}, 0},
		{"a stranger takes it back", func(s *Introduced) { s.hear(from(3, "10.0.0.3:1"), &pb.Introductions{Gone: []string{string(x)}}) }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newIntroduced(someID(0))
			for i := range 2 {
				s.stays(someID(1 + i))
				s.hear(from(1+i, fmt.Sprintf("10.0.0.%d:1", 1+i)), presents(x, fmt.Sprintf("10.0.1.%d:1", i)))
			}
			c.end(s)
			if got := s.known(x); len(got) != c.left {
				t.Errorf("got %v, want %d addresses", got, c.left)
			}
			if len(s.by) > 1 {
				t.Errorf("known are %v, want one node at the most", s.by)
			}
		})
	}
}

// However much one says, it is heard at its pace and fills no more than its room.
func TestOneIntroducerIsHeardAtItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIntroduced(someID(0))
		heard := 0
		for i := range 100000 {
			before := s.by[someID(2+i%512)][someID(1)]
			s.hear(from(1, "10.0.0.1:1"), presents(someID(2+i%512), fmt.Sprintf("10.0.%d.%d:1", i/250%250, i%250)))
			if !slices.Equal(before, s.by[someID(2+i%512)][someID(1)]) {
				heard++
			}
			time.Sleep(time.Millisecond)
		}
		if want := introductionBurst + 100*introductionPace; heard > want+1 {
			t.Errorf("%d changes were heard in 100 s, want %d", heard, want)
		}
		if len(s.by) > maxIntroductions || len(s.dirty) > maxIntroductions {
			t.Errorf("%d nodes are kept and %d to be reported, want %d", len(s.by), len(s.dirty), maxIntroductions)
		}
		for i := range 2 * maxVouchers {
			s.hear(from(1000+i, "10.0.0.1:1"), presents(someID(2), "10.0.0.9:1"))
		}
		if len(s.vouchers) != maxVouchers {
			t.Errorf("%d introducers are kept, want %d", len(s.vouchers), maxVouchers)
		}
	})
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
		w := &news{who: &caller{addr: name}, loopback: loopback}
		w.who.ID = someID(7)
		has := map[string]string{}
		for n, roll := range rolls {
			said := w.since(roll)
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
			w.told = &roll
		}
	}
}

// FuzzIntroductions gives a node whatever another may introduce.
func FuzzIntroductions(f *testing.F) {
	feed(f, &pb.Introductions{}, &pb.Introductions{All: true, Gone: []string{string(someID(1)), "x"}}, presents(someID(2), "10.0.0.1:1", "x", ""),
		&pb.Introductions{Nodes: []*pb.Introduction{{}, {Id: string(someNode)}, {Id: string(someID(3)), Addrs: []string{"127.0.0.1:1", "[fe80::1%x]:1"}}}})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.Introductions
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		s := newIntroduced(someID(0))
		s.hear(from(1, "10.0.0.1:1"), &m)
		s.hear(from(1, "10.0.0.1:1"), &m)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		_ = s.Run(ctx, func(discovery.Sighting) {})
		for id, addrs := range s.changes() {
			t.Errorf("node %s at %v is left to be reported", id, addrs)
		}
		for id, said := range s.by {
			for _, a := range said[someID(1)] {
				if ip := a.Addr(); id == someID(0) || id == someID(1) || len(id) != 32 || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.Zone() != "" {
					t.Errorf("%s at %s was taken", id, a)
				}
			}
		}
		s.leaves(someID(1), true)
		if len(s.by)+len(s.vouchers) != 0 {
			t.Errorf("%v and %v are left of an introducer that was removed", s.by, s.vouchers)
		}
	})
}

// A node that says that it cannot call has lost the connection that it was offered before.
func TestANewOfferCutsTheOldOne(t *testing.T) {
	c := newCallbacks(nil)
	var far []net.Conn
	for i := range 3 {
		near, end := net.Pipe()
		far = append(far, end)
		go c.Accept()
		if err := c.serve(t.Context(), someID(1+i/2), tls.Client(near, &tls.Config{}), newBatch(near)); err != nil {
			t.Fatal(err)
		}
	}
	_ = far[0].SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := far[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the first connection: got %v, want that it is cut", err)
	}
	for _, o := range []community.NodeID{someID(1), someID(2)} {
		c.of[o].Close()
	}
	if len(c.of) != 0 {
		t.Errorf("%v is kept of connections that have ended", c.of)
	}
}

// at is a listener with an address.
type at string

func (at) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (at) Close() error              { return nil }
func (a at) Addr() net.Addr          { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(string(a))) }

func TestAPortIsSaidOnlyWhereItCanBeDialled(t *testing.T) {
	for _, c := range []struct {
		listens, from string
		want          uint32
	}{
		{"10.0.0.1:7946", "10.0.0.1:40000", 7946},
		{"10.0.0.1:7946", "10.0.0.2:40000", 0},
		{"127.0.0.1:7946", "127.0.0.1:40000", 7946},
		{"127.0.0.1:7946", "10.0.0.1:40000", 0},
		{"0.0.0.0:7946", "10.0.0.1:40000", 7946},
		{"0.0.0.0:7946", "[fd00::1]:40000", 0},
		{"[::]:7946", "10.0.0.1:40000", 7946},
		{"[::]:7946", "[fd00::1]:40000", 7946},
	} {
		n := &Network{listener: newDoor(at(c.listens), 1, nil)}
		if got := n.portAt(at(c.from).Addr()); got != c.want {
			t.Errorf("listening on %s, connected from %s: said port %d, want %d", c.listens, c.from, got, c.want)
		}
	}
}
