package grpcpeer

import (
	"net/netip"
	"time"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// introductionFeed computes what one watcher is told about this node's links: which nodes this one
// is connected to, so that the watcher can dial them, and that this node cannot dial the watcher,
// so that the watcher offers a reversed connection. Changes are collected for about a second. It is
// used by the goroutine of one Watch stream.
type introductionFeed struct {
	links        *links
	self         community.NodeID
	isDiscovered func(community.NodeID) bool // whether discovery names a node
	callable     func(community.NodeID) bool // whether this node can call it
	grace        func() time.Duration        // how long this node may take to dial
	caller       *caller
	loopback     bool
	sent         *[]acquaintance // nil before the first
	started      time.Time
	lastCheck    time.Time // of the last look
}

// newIntroductionFeed returns the feed for the Watch stream of a caller.
func (s *server) newIntroductionFeed(remote *caller) *introductionFeed {
	from, _ := netip.ParseAddrPort(remote.addr)
	return &introductionFeed{links: s.links, self: s.self(), isDiscovered: s.candidates.isDiscovered, callable: s.callable,
		grace: s.candidates.members.first.grace, caller: remote,
		loopback: from.Addr().Unmap().IsLoopback(), started: time.Now()}
}

// callable reports whether this node can call the node now or in a moment: it has a link, or it can make one.
func (s *server) callable(id community.NodeID) bool {
	return s.links.callable(id) || s.candidates.members.covers(id)
}

// events returns the events to send now. It is called at least once per heartbeat and returns
// nothing more often than that.
func (w *introductionFeed) events(now time.Time) (events []*pb.CatalogEvent) {
	if now.Sub(w.lastCheck) < heartbeat*9/10 {
		return nil
	}
	w.lastCheck = now
	if all := w.links.acquaintances(); all != w.sent {
		if i := w.diff(*all); i.GetAll() || len(i.GetNodes())+len(i.GetGone()) > 0 {
			events = append(events, &pb.CatalogEvent{Event: &pb.CatalogEvent_Introductions{Introductions: i}})
		}
		w.sent = all
	}
	if w.isUnlinked(now) {
		events = append(events, &pb.CatalogEvent{Event: &pb.CatalogEvent_Unlinked{Unlinked: &pb.Unlinked{}}})
	}
	return events
}

// diff returns how now differs from what was sent. The first time it lists everything and sets All,
// so that the watcher drops what an earlier connection told it.
func (w *introductionFeed) diff(now []acquaintance) *pb.Introductions {
	out := &pb.Introductions{All: w.sent == nil}
	before := map[community.NodeID]netip.AddrPort{}
	if w.sent != nil {
		for _, a := range *w.sent {
			if w.canUse(a) {
				before[a.id] = a.addr
			}
		}
	}
	for _, a := range now {
		if !w.canUse(a) {
			continue
		}
		if before[a.id] != a.addr {
			out.Nodes = append(out.Nodes, &pb.Introduction{Id: string(a.id), Addrs: []string{a.addr.String()}})
		}
		delete(before, a.id)
	}
	for id := range before {
		out.Gone = append(out.Gone, string(id))
	}
	return out
}

// canUse reports whether the watcher could dial a. A loopback address is of use only to a watcher
// on this machine, and a watcher is not introduced to itself.
func (w *introductionFeed) canUse(a acquaintance) bool {
	return a.id != w.caller.ID && (w.loopback || !a.addr.Addr().Unmap().IsLoopback())
}

// isUnlinked reports whether to tell the watcher that this node has no connection on which it could
// call it. It is told at once when no address of the watcher is known; otherwise after
// reverseGrace, which gives this node's own dial time to succeed.
func (w *introductionFeed) isUnlinked(now time.Time) bool {
	if w.callable(w.caller.ID) || w.caller.ID == w.self {
		return false
	}
	return now.Sub(w.started) >= w.grace() || w.caller.port.Load() == 0 && !w.isDiscovered(w.caller.ID)
}

// recordPort adds a hint for the caller: its address, with the port on which it says it listens. It
// is only a hint, since the port is not verified. 0 means that the caller did not say, or does not
// listen where this node could reach it.
func (s *server) recordPort(remote *caller, port uint32) {
	if port != 0 { // 0 must not erase an earlier report
		remote.port.Store(port)
	}
	from, err := netip.ParseAddrPort(remote.addr)
	if err != nil || port == 0 || port > 65535 || remote.ID == s.self() {
		return
	}
	at := netip.AddrPortFrom(from.Addr().Unmap(), uint16(port))
	_, linked := s.links.get(remote.ID)
	s.introduced.AddSelf(remote.ID, at, linked)
	s.candidates.members.meet(remote.ID, at)
}
