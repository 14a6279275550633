package grpcpeer

import (
	"net/netip"
	"time"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// neighbourNews is what one watcher is told of this node's links: the nodes that it may want to know, and that this
// node cannot call it. Changes within a second are told together.
type neighbourNews struct {
	links    *links
	self     community.NodeID
	knows    func(community.NodeID) bool // whether discovery names a node
	caller   *caller
	loopback bool
	sent     *[]acquaintance // nil before the first
	began    time.Time
	at       time.Time // of the last look
}

func (s *server) newsFor(who *caller) *neighbourNews {
	from, _ := netip.ParseAddrPort(who.addr)
	return &neighbourNews{links: s.links, self: s.self, knows: s.candidates.knows, caller: who,
		loopback: from.Addr().Unmap().IsLoopback(), began: time.Now()}
}

// due returns what the watcher is to be told now.
func (w *neighbourNews) due(now time.Time) (events []*pb.CatalogEvent) {
	if now.Sub(w.at) < heartbeat*9/10 {
		return nil
	}
	w.at = now
	if all := w.links.acquaintances(); all != w.sent {
		if i := w.since(*all); i.GetAll() || len(i.GetNodes())+len(i.GetGone()) > 0 {
			events = append(events, &pb.CatalogEvent{Event: &pb.CatalogEvent_Introductions{Introductions: i}})
		}
		w.sent = all
	}
	if w.unlinked(now) {
		events = append(events, &pb.CatalogEvent{Event: &pb.CatalogEvent_Unlinked{Unlinked: &pb.Unlinked{}}})
	}
	return events
}

// since returns how the acquaintances differ from those that the watcher was told of.
func (w *neighbourNews) since(now []acquaintance) *pb.Introductions {
	out := &pb.Introductions{All: w.sent == nil}
	before := map[community.NodeID]netip.AddrPort{}
	if w.sent != nil {
		for _, a := range *w.sent {
			if w.mayKnow(a) {
				before[a.id] = a.addr
			}
		}
	}
	for _, a := range now {
		if !w.mayKnow(a) {
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

// mayKnow reports whether the watcher can use an acquaintance: it is not the watcher itself, and not on this
// machine's loopback while the watcher is on another machine.
func (w *neighbourNews) mayKnow(a acquaintance) bool {
	return a.id != w.caller.ID && (w.loopback || !a.addr.Addr().Unmap().IsLoopback())
}

// unlinked reports whether to tell the watcher that this node cannot call it: at once when there is no address to
// dial it at, else when dialling has had its time.
func (w *neighbourNews) unlinked(now time.Time) bool {
	if w.links.callable(w.caller.ID) || w.caller.ID == w.self {
		return false
	}
	return now.Sub(w.began) >= reverseGrace || w.caller.port.Load() == 0 && !w.knows(w.caller.ID)
}

// called takes the port at which a caller says that it can be dialled: a hint about itself.
func (s *server) called(who *caller, port uint32) {
	if port != 0 { // else it was said before, or never is
		who.port.Store(port)
	}
	from, err := netip.ParseAddrPort(who.addr)
	if err != nil || port == 0 || port > 65535 || who.ID == s.self {
		return
	}
	_, linked := s.links.get(who.ID)
	s.introduced.AddSelf(who.ID, netip.AddrPortFrom(from.Addr().Unmap(), uint16(port)), linked)
}
