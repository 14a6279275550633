package introduced

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"symbio/community"
	"symbio/discovery"
	pb "symbio/proto/symbio/v1"
)

// someID is a node's id.
func someID(i int) community.NodeID { return community.NodeID(fmt.Sprintf("%032x", i)) }

func presents(id community.NodeID, addrs ...string) *pb.Introductions {
	return &pb.Introductions{Nodes: []*pb.Introduction{{Id: string(id), Addrs: addrs}}}
}

// known is where the source says that a node may be.
func (s *Source) known(id community.NodeID) []string {
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
			s := New(someID(0))
			s.Add(someID(1), addr, presents(someID(2), c.said))
			if got := len(s.known(someID(2))) == 1; got != want {
				t.Errorf("%q introduced from %s: taken is %t, want %t", c.said, addr, got, want)
			}
		}
	}
}

func TestIntroducedNodeIsAnotherNode(t *testing.T) {
	s := New(someID(0))
	s.AddSelf(someID(1), netip.MustParseAddrPort("10.0.0.1:7946"), true)
	for _, id := range []string{string(someID(0)), string(someID(1)), "", "x", "../../etc", string(someID(2)) + "0"} {
		s.Add(someID(1), "10.0.0.1:7946", presents(community.NodeID(id), "10.0.0.9:7946"))
	}
	if len(s.by) != 1 {
		t.Errorf("known are %v, want only node 1", s.by)
	}
	s.Add(someID(1), "10.0.0.1:7946", &pb.Introductions{All: true, Gone: []string{string(someID(2))}})
	if got := s.known(someID(1)); len(s.by) != 1 || !slices.Equal(got, []string{"10.0.0.1:7946"}) {
		t.Errorf("known are %v, want only where node 1 says itself that it is", s.by)
	}
}

func TestMostReportedAddressIsDialedFirst(t *testing.T) {
	s := New(someID(0))
	x := someID(9)
	s.Add(someID(1), "10.0.0.1:1", presents(x, "10.0.0.66:1", "10.0.0.67:1", "10.0.0.68:1", "10.0.0.69:1", "10.0.0.70:1"))
	s.Add(someID(2), "10.0.0.2:1", presents(x, "10.0.0.9:1"))
	s.Add(someID(3), "10.0.0.3:1", presents(x, "10.0.0.9:1"))
	if got := s.known(x); len(got) != 5 || got[0] != "10.0.0.9:1" {
		t.Errorf("got %v, want 10.0.0.9:1 and then the four of node 1", got)
	}
	s.AddSelf(x, netip.MustParseAddrPort("10.0.0.10:1"), true)
	if got := s.known(x); got[0] != "10.0.0.10:1" {
		t.Errorf("got %v, want first what the node says itself", got)
	}
}

func TestIntroductionLastsWhileAnIntroducerRemains(t *testing.T) {
	x := someID(9)
	for _, c := range []struct {
		name string
		end  func(s *Source)
		left int // addresses after it
	}{
		{"one takes it back", func(s *Source) { s.Add(someID(1), "10.0.0.1:1", &pb.Introductions{Gone: []string{string(x)}}) }, 1},
		{"one begins anew without it", func(s *Source) { s.Add(someID(1), "10.0.0.1:1", &pb.Introductions{All: true}) }, 1},
		{"one is removed", func(s *Source) { s.Disconnected(someID(1), true) }, 1},
		{"one is away for a moment", func(s *Source) {
			s.Disconnected(someID(1), false)
			s.expire(time.Now().Add(lifetime - time.Second))
		}, 2},
		{"one is away and comes back", func(s *Source) {
			s.Disconnected(someID(1), false)
			s.Connected(someID(1))
			s.expire(time.Now().Add(2 * lifetime))
		}, 2},
		{"one is away for good", func(s *Source) {
			s.Disconnected(someID(1), false)
			s.expire(time.Now().Add(lifetime + time.Second))
		}, 1},
		{"both are away for good", func(s *Source) {
			s.Disconnected(someID(1), false)
			s.Disconnected(someID(2), false)
			s.expire(time.Now().Add(lifetime + time.Second))
		}, 0},
		{"a stranger takes it back", func(s *Source) { s.Add(someID(3), "10.0.0.3:1", &pb.Introductions{Gone: []string{string(x)}}) }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := New(someID(0))
			for i := range 2 {
				s.Connected(someID(1 + i))
				s.Add(someID(1+i), fmt.Sprintf("10.0.0.%d:1", 1+i), presents(x, fmt.Sprintf("10.0.1.%d:1", i)))
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
func TestIntroducerIsRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(someID(0))
		heard := 0
		for i := range 100000 {
			before := s.by[someID(2+i%512)][someID(1)]
			s.Add(someID(1), "10.0.0.1:1", presents(someID(2+i%512), fmt.Sprintf("10.0.%d.%d:1", i/250%250, i%250)))
			if !slices.Equal(before, s.by[someID(2+i%512)][someID(1)]) {
				heard++
			}
			time.Sleep(time.Millisecond)
		}
		if want := changeBurst + 100*changeRate; heard > want+1 {
			t.Errorf("%d changes were heard in 100 s, want %d", heard, want)
		}
		if len(s.by) > MaxNodes || len(s.dirty) > MaxNodes {
			t.Errorf("%d nodes are kept and %d to be reported, want %d", len(s.by), len(s.dirty), MaxNodes)
		}
		for i := range 2 * maxIntroducers {
			s.Add(someID(1000+i), "10.0.0.1:1", presents(someID(2), "10.0.0.9:1"))
		}
		if len(s.introducers) != maxIntroducers {
			t.Errorf("%d introducers are kept, want %d", len(s.introducers), maxIntroducers)
		}
	})
}

// FuzzIntroductions gives a node whatever another may introduce.
func FuzzIntroductions(f *testing.F) {
	f.Add([]byte{})
	for _, m := range []*pb.Introductions{{All: true, Gone: []string{string(someID(1)), "x"}}, presents(someID(2), "10.0.0.1:1", "x", ""),
		{Nodes: []*pb.Introduction{{}, {Id: string(someID(5))}, {Id: string(someID(3)), Addrs: []string{"127.0.0.1:1", "[fe80::1%x]:1"}}}}} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.Introductions
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		s := New(someID(0))
		s.Add(someID(1), "10.0.0.1:1", &m)
		s.Add(someID(1), "10.0.0.1:1", &m)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		_ = s.Run(ctx, func(discovery.Sighting) {})
		for id, addrs := range s.changes() {
			t.Errorf("node %s at %v is left to be reported", id, addrs)
		}
		for id, said := range s.by {
			for _, a := range said[someID(1)] {
				if ip := a.Addr(); id == someID(0) || id == someID(1) || len(id) != 32 || ip.IsLoopback() || ip.IsLinkLocalUnicast() ||
					ip.Zone() != "" {
					t.Errorf("%s at %s was taken", id, a)
				}
			}
		}
		s.Disconnected(someID(1), true)
		if len(s.by)+len(s.introducers) != 0 {
			t.Errorf("%v and %v are left of an introducer that was removed", s.by, s.introducers)
		}
	})
}

// A node is reported when it comes, when its addresses change and when it goes, and not in between.
func TestOnlyChangesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s, x := New(someID(0)), someID(9)
		var reports []string
		done := make(chan error)
		go func() {
			done <- s.Run(ctx, func(g discovery.Sighting) { reports = append(reports, fmt.Sprint(g.Addrs, g.Gone)) })
		}()
		for _, step := range []struct {
			said *pb.Introductions
			want string
		}{
			{presents(x, "10.0.1.1:1"), "[10.0.1.1:1] false"},
			{presents(x, "10.0.1.1:1"), ""},
			{presents(x, "10.0.1.2:1"), "[10.0.1.2:1] false"},
			{presents(x, "10.0.1.2:1"), ""},
			{&pb.Introductions{Gone: []string{string(x)}}, "[] true"},
			{&pb.Introductions{Gone: []string{string(x)}}, ""},
			{presents(x, "10.0.1.1:1", "10.0.1.2:1"), "[10.0.1.1:1 10.0.1.2:1] false"},
		} {
			reports = nil
			s.Add(someID(1), "10.0.0.1:1", step.said)
			s.mu.Lock()
			s.dirty[x] = true // as if others said the same
			s.mu.Unlock()
			time.Sleep(2 * time.Minute) // the source looks once a minute
			synctest.Wait()             // at this very moment, too
			if got := strings.Join(reports, "; "); got != step.want {
				t.Errorf("after %v: got %q, want %q", step.said, got, step.want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
