package grpcpeer

import (
	"net/netip"
	"time"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// introductionFeed is what one watcher is told of this node's links: the nodes that it may want to know, and that this
// node cannot call it. Changes within a second are told together.
type introductionFeed struct {
	links        *links
	self         community.NodeID
	isDiscovered func(community.NodeID) bool // whether discovery names a node
	caller       *caller
	loopback     bool
	sent         *[]acquaintance // nil before the first
	started      time.Time
	lastCheck    time.Time // of the last look
}

func (s *server) newIntroductionFeed(remote *caller) *introductionFeed {
	from, _ := netip.ParseAddrPort(remote.addr)
	return &introductionFeed{links: s.links, self: s.self, isDiscovered: s.candidates.isDiscovered, caller: remote,
		loopback: from.Addr().Unmap().IsLoopback(), started: time.Now()}
}

// events returns what the watcher is to be told now.
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

// diff returns how the acquaintances differ from those that the watcher was told of.
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

// canUse reports whether the watcher can use an acquaintance: it is not the watcher itself, and not on this
// machine's loopback while the watcher is on another machine.
func (w *introductionFeed) canUse(a acquaintance) bool {
	return a.id != w.caller.ID && (w.loopback || !a.addr.Addr().Unmap().IsLoopback())
}

// isUnlinked reports whether to tell the watcher that this node cannot call it: at once when there is no address to
// dial it at, else when dialling has had its time.
func (w *introductionFeed) isUnlinked(now time.Time) bool {
	if w.links.callable(w.caller.ID) || w.caller.ID == w.self {
		return false
	}
	return now.Sub(w.started) >= reverseGrace || w.caller.port.Load() == 0 && !w.isDiscovered(w.caller.ID)
}

// recordPort takes the port at which a caller says that it can be dialled: a hint about itself.
func (s *server) recordPort(remote *caller, port uint32) {
	if port != 0 { // else it was said before, or never is
		remote.port.Store(port)
	}
	from, err := netip.ParseAddrPort(remote.addr)
	if err != nil || port == 0 || port > 65535 || remote.ID == s.self {
		return
	}
	_, linked := s.links.get(remote.ID)
	s.introduced.AddSelf(remote.ID, netip.AddrPortFrom(from.Addr().Unmap(), uint16(port)), linked)
}
