package grpcpeer

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// maxIntroductions is how many nodes one node introduces. In a larger cluster each tells of those whose ids
// follow its own, so that all are introduced by somebody.
const maxIntroductions = 256

// acquaintance is a node that this one has dialled and is linked with.
type acquaintance struct {
	id   community.NodeID
	addr netip.AddrPort
}

// circle is all acquaintances, gathered once for all who are told of them.
type circle struct {
	stale atomic.Bool
	mu    sync.Mutex
	roll  *[]acquaintance // sorted, never changed; guarded by mu
}

// turned notes that a link has begun or ended.
func (c *circle) turned() { c.stale.Store(true) }

// acquaintances returns the same slice until a link begins or ends.
func (n *Network) acquaintances() *[]acquaintance {
	c := &n.circle
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stale.Swap(false) && c.roll != nil {
		return c.roll
	}
	var all []acquaintance
	n.links.Range(func(_, v any) bool {
		// A link-local address means nothing to others, and a reversed link has none.
		if l := v.(*link); l.addr.IsValid() && !l.addr.Addr().IsLinkLocalUnicast() {
			all = append(all, acquaintance{l.peer.ID, l.addr})
		}
		return true
	})
	byID := func(a, b acquaintance) int { return cmp.Compare(a.id, b.id) }
	if len(all) > maxIntroductions {
		slices.SortFunc(all, func(a, b acquaintance) int {
			return cmp.Or(cmp.Compare(before(a.id, n.self), before(b.id, n.self)), byID(a, b))
		})
		all = all[:maxIntroductions]
	}
	slices.SortFunc(all, byID)
	c.roll = &all
	return c.roll
}

func before(id, self community.NodeID) int {
	if id < self {
		return 1
	}
	return 0
}

// news is what one watcher is told besides the catalog: whom it may want to know, and that this node cannot
// call it. Changes within a second are told together.
type news struct {
	network  *Network
	who      *caller
	loopback bool
	told     *[]acquaintance // nil before the first
	began    time.Time
	at       time.Time // when due was last worth it
}

func (n *Network) newsFor(who *caller) *news {
	from, _ := netip.ParseAddrPort(who.addr)
	return &news{network: n, who: who, loopback: from.Addr().Unmap().IsLoopback(), began: time.Now()}
}

// due returns what the watcher is to be told now.
func (w *news) due(now time.Time) (events []*pb.CatalogEvent) {
	if now.Sub(w.at) < heartbeat*9/10 {
		return nil
	}
	w.at = now
	if roll := w.network.acquaintances(); roll != w.told {
		if said := w.since(*roll); said.GetAll() || len(said.GetNodes())+len(said.GetGone()) > 0 {
			events = append(events, &pb.CatalogEvent{Event: &pb.CatalogEvent_Introductions{Introductions: said}})
		}
		w.told = roll
	}
	if w.unlinked(now) {
		events = append(events, &pb.CatalogEvent{Event: &pb.CatalogEvent_Unlinked{Unlinked: &pb.Unlinked{}}})
	}
	return events
}

// since says how the acquaintances differ from those that the watcher was told of.
func (w *news) since(now []acquaintance) *pb.Introductions {
	said := &pb.Introductions{All: w.told == nil}
	var was []acquaintance
	if w.told != nil {
		was = *w.told
	}
	for len(was) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(was) > 0 && was[0].id < now[0].id:
			if w.mayKnow(was[0]) {
				said.Gone = append(said.Gone, string(was[0].id))
			}
			was = was[1:]
		case len(was) == 0 || now[0].id < was[0].id:
			said.Nodes = w.introduce(said.Nodes, now[0])
			now = now[1:]
		default:
			if was[0] != now[0] && w.mayKnow(now[0]) {
				said.Nodes = w.introduce(said.Nodes, now[0])
			} else if was[0] != now[0] && w.mayKnow(was[0]) {
				said.Gone = append(said.Gone, string(was[0].id))
			}
			was, now = was[1:], now[1:]
		}
	}
	return said
}

func (w *news) introduce(to []*pb.Introduction, a acquaintance) []*pb.Introduction {
	if !w.mayKnow(a) {
		return to
	}
	return append(to, &pb.Introduction{Id: string(a.id), Addrs: []string{a.addr.String()}})
}

// mayKnow reports whether the watcher can do anything with an acquaintance: it is not the watcher itself,
// and not on this machine's loopback while the watcher is elsewhere.
func (w *news) mayKnow(a acquaintance) bool {
	return a.id != w.who.ID && (w.loopback || !a.addr.Addr().Unmap().IsLoopback())
}

// unlinked reports whether the watcher should hear that this node cannot call it: at once when there is no
// address to dial it at, else when dialling has had its time.
func (w *news) unlinked(now time.Time) bool {
	n := w.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.callable(w.who.ID) || w.who.ID == n.self {
		return false
	}
	return now.Sub(w.began) >= reverseGrace || w.who.port.Load() == 0 && n.candidates[string(w.who.ID)] == nil
}

// wasCalled takes the port at which a caller says that it can be dialled: a hint about itself.
func (n *Network) wasCalled(who *caller, port uint32) {
	if port != 0 { // else it was said before, or never is
		who.port.Store(port)
	}
	from, err := netip.ParseAddrPort(who.addr)
	if err != nil || port == 0 || port > 65535 || who.ID == n.self {
		return
	}
	_, linked := n.links.Load(who.ID)
	n.introduced.itself(who.ID, netip.AddrPortFrom(from.Addr().Unmap(), uint16(port)), linked)
}

// Introduced is the discovery source of the nodes that others have introduced, and of those that have
// called this one. It is to be run by a discovery.Roster whose candidates go to Sight.
func (n *Network) Introduced() *Introduced { return n.introduced }
