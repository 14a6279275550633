package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/proto"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

const (
	// maxNodes is how many nodes a view has, as many as a community knows; and maxUnproven how many of them without a
	// record. Any node of the authority can announce as many as it likes.
	maxNodes    = 1024
	maxUnproven = 256
	// newProcess is how soon after a process of a node another one is accepted: a node that pretends to start again and again
	// would fill memberlist's table.
	newProcess = time.Second
	// retryPause is how long a node is not asked again that did not answer with its record, and listsPause one that has said to
	// know of more removed nodes.
	retryPause, listsPause = time.Second, 30 * time.Second
	// deadMemory is how long a dead node is remembered.
	deadMemory = 10 * time.Minute
	// muchNew is which part of the known nodes, 1/muchNew, has to be new before this node asks for the marks of all again.
	muchNew = 8
	// catchUpPause is how long to wait between two times of asking, more or less, and maxCatchUpPause while that brings nothing.
	catchUpPause, maxCatchUpPause = 3 * time.Second, time.Minute
)

// view is what this node knows of the others. It is memberlist's delegate for what comes from other nodes; these methods are
// called under memberlist's lock and do not block. All methods may be called concurrently.
type view struct {
	self    community.NodeID
	revoked *identity.Revocations
	wake    chan struct{} // capacity 1: something is dirty

	mu    sync.Mutex
	nodes map[community.NodeID]*nodeView // guarded by mu
	dirty map[community.NodeID]struct{}  // changed since the last call of changes; guarded by mu
	// unproven counts the nodes without a record, added those that are new since the last call of catchUp, and refused
	// those since then for which there was no room; guarded by mu.
	unproven, added, refused int
	// nextCatchUp is when this node may ask for all again, and catchUpPause how long after that; guarded by mu.
	nextCatchUp  time.Time
	catchUpPause time.Duration
}

// nodeView is one node. Its fields are guarded by view.mu; what they point to does not change.
type nodeView struct {
	meta  []byte // the signed mark
	mark  *pb.Mark
	alive bool      // as memberlist says
	node  *Node     // from its newest record; nil = none yet
	since time.Time // of mark's process, and of the last change of alive

	reported *Node     // to Config.Seen; nil = it is not a member now
	retry    time.Time // not asked for its record before
	lists    time.Time // not asked for its lists of removed nodes before
}

func newView(self community.NodeID, revoked *identity.Revocations) *view {
	return &view{self: self, revoked: revoked, wake: make(chan struct{}, 1),
		nodes: map[community.NodeID]*nodeView{}, dirty: map[community.NodeID]struct{}{}, catchUpPause: catchUpPause}
}

// touch marks a node as changed. The caller holds v.mu.
func (v *view) touch(id community.NodeID) {
	v.dirty[id] = struct{}{}
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

var errOlder = errors.New("a newer mark of the node is known")

// NotifyAlive returns an error for what another node could have made up: see the package comment.
func (v *view) NotifyAlive(peer *memberlist.Node) error {
	name, _, _ := strings.Cut(peer.Name, ".")
	id := community.NodeID(name)
	v.mu.Lock()
	known := v.nodes[id]
	same := known != nil && bytes.Equal(known.meta, peer.Meta)
	v.mu.Unlock()
	if id == v.self {
		return nil // memberlist refutes what is wrong
	}
	var mark *pb.Mark
	var err error
	if same {
		mark = known.mark
	} else if mark, err = verifyMark(peer.Meta); err != nil {
		return err
	}
	at, _ := addrOf(mark)
	if from, ok := netip.AddrFromSlice(peer.Addr); nameOf(mark) != peer.Name || !ok || netip.AddrPortFrom(from.Unmap(), peer.Port) != at {
		return fmt.Errorf("%w: it is of %s at %s", errMark, nameOf(mark), at)
	}
	if same {
		return nil
	}
	return v.accept(id, mark, bytes.Clone(peer.Meta))
}

// accept stores a mark that its node has signed, if it is newer than the known one.
func (v *view) accept(id community.NodeID, mark *pb.Mark, meta []byte) error {
	if v.revoked.Has(id) {
		return identity.ErrRemoved
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.nodes[id]
	switch {
	case n == nil:
		if len(v.nodes) >= maxNodes || v.unproven >= maxUnproven {
			v.refused++
			return fmt.Errorf("%d nodes are known, %d of them without a record", len(v.nodes), v.unproven)
		}
		n = &nodeView{since: time.Now()}
		v.nodes[id] = n
		v.unproven++
		v.added++
	case !later(mark, n.mark):
		return errOlder
	case mark.GetInstance() != n.mark.GetInstance():
		if time.Since(n.since) < newProcess {
			return errors.New("its process began a moment ago")
		}
		n.alive, n.since = false, time.Now() // until memberlist says so of this one
	}
	n.mark, n.meta, n.retry = mark, meta, time.Time{}
	v.touch(id)
	return nil
}

// isBehind reports whether there are probably more nodes than this one has heard of: it has heard of many at once, as when
// many start, or had no room for all.
func (v *view) isBehind() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.unproven > maxUnproven/2 {
		return false // there would be no room for what is new
	}
	behind := v.refused > 0 && len(v.nodes) < maxNodes || v.added*muchNew > len(v.nodes)
	return behind && time.Now().After(v.nextCatchUp)
}

// catchUp is called before this node asks another one for all marks. It returns a node to ask, and whether there is one. The
// pause until the next call grows while nothing new is heard of: another node may announce more nodes than there is room for.
func (v *view) catchUp() (want, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, n := range v.nodes { // any
		if at, ok := addrOf(n.mark); ok && n.alive && n.reported != nil {
			v.catchUpPause = min(2*v.catchUpPause, maxCatchUpPause)
			if v.added > 0 {
				v.catchUpPause = catchUpPause
			}
			v.nextCatchUp = time.Now().Add(v.catchUpPause/2 + rand.N(v.catchUpPause))
			v.added, v.refused = 0, 0
			return want{id, at}, true
		}
	}
	return want{}, false
}

// NotifyJoin, NotifyUpdate and NotifyLeave take memberlist's verdicts.
func (v *view) NotifyJoin(n *memberlist.Node)   { v.setAlive(n.Name, true) }
func (v *view) NotifyUpdate(n *memberlist.Node) { v.setAlive(n.Name, true) }
func (v *view) NotifyLeave(n *memberlist.Node)  { v.setAlive(n.Name, false) }

// setAlive stores a verdict about a process. One about an earlier process of the node says nothing.
func (v *view) setAlive(name string, alive bool) {
	id, _, _ := strings.Cut(name, ".")
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.nodes[community.NodeID(id)]
	if n == nil || nameOf(n.mark) != name {
		return
	}
	if n.alive != alive {
		n.alive, n.since = alive, time.Now()
	}
	v.touch(community.NodeID(id))
}

// store keeps a verified record if it is newer, and what its mark names or later.
func (v *view) store(n *Node) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.nodes[n.ID]
	if known == nil || !n.newer(known.node) {
		return
	}
	if known.node == nil {
		v.unproven--
	}
	known.node = n
	v.touch(n.ID)
}

// hasRecord reports whether the view has the record r.
func (v *view) hasRecord(r *pb.Record) bool {
	s := &pb.Statement{}
	if proto.Unmarshal(r.GetStatement(), s) != nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.nodes[community.NodeID(s.GetId())]
	return n != nil && n.node != nil && bytes.Equal(n.node.record.GetStatement(), r.GetStatement())
}

// records returns the known records of the nodes ids; nil = of all nodes.
func (v *view) records(ids []string) (out []*pb.Record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if ids == nil {
		for id := range v.nodes {
			ids = append(ids, string(id))
		}
	}
	for _, id := range ids {
		if n := v.nodes[community.NodeID(id)]; n != nil && n.node != nil && n.alive {
			out = append(out, n.node.record)
		}
	}
	return out
}

// isAlive reports whether memberlist says that the node is alive.
func (v *view) isAlive(id community.NodeID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.nodes[id]
	return n != nil && n.alive
}

// hasAddr reports whether a known node is at addr.
func (v *view) hasAddr(addr netip.AddrPort) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, n := range v.nodes {
		if at, _ := addrOf(n.mark); at == addr {
			return true
		}
	}
	return false
}

// change is what changed of one node since the last call of changes.
type change struct {
	id   community.NodeID
	seen *Node // not nil: it is a member, with this record
	gone bool  // it is no member any more
	left bool  // because it said so
	why  error
}

// changes returns what changed, as it is to be reported.
func (v *view) changes() (out []change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id := range v.dirty {
		if c, ok := v.changeOf(id, v.nodes[id]); ok {
			out = append(out, c)
		}
	}
	clear(v.dirty)
	return out
}

var (
	errDead = errors.New("the other nodes do not hear of it any more")
	errLeft = errors.New("its node said goodbye")
)

func (v *view) changeOf(id community.NodeID, n *nodeView) (change, bool) {
	if n == nil {
		return change{}, false
	}
	why := errDead
	if n.node != nil && identity.Lapsed(n.node.NotAfter, time.Now()) {
		why = identity.ErrExpired
	}
	if v.revoked.Has(id) {
		why = identity.ErrRemoved
	}
	if n.alive && !n.mark.GetLeaving() && why == errDead {
		if n.node == nil || n.node == n.reported || n.node.Statement.GetInstance() != n.mark.GetInstance() {
			return change{}, false
		}
		n.reported = n.node
		return change{id: id, seen: n.node}, true
	}
	if n.reported == nil {
		return change{}, false
	}
	if n.mark.GetLeaving() && why == errDead {
		why = errLeft
	}
	n.reported = nil
	return change{id: id, gone: true, left: why == errLeft || why == identity.ErrRemoved, why: why}, true
}

// recheck makes changes look at all nodes again, and forgets those that are dead for long, or were removed.
func (v *view) recheck() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, n := range v.nodes {
		if n.reported == nil && (v.revoked.Has(id) || !n.alive && time.Since(n.since) > deadMemory) {
			if n.node == nil {
				v.unproven--
			}
			delete(v.nodes, id)
			continue
		}
		v.touch(id)
	}
}

// want is a node to be asked for records.
type want struct {
	id   community.NodeID
	addr netip.AddrPort
}

// missing returns the nodes whose newest record this node does not have, or which know of more removed nodes than epoch.
// wait is when to look again; 0 = nothing is missing.
func (v *view) missing(epoch uint64) (all []want, wait time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	for id, n := range v.nodes {
		at, _ := addrOf(n.mark)
		switch {
		case !n.alive || n.mark.GetLeaving():
		case !n.node.matches(n.mark) && now.Before(n.retry):
			wait = retryPause / 2
		case !n.node.matches(n.mark), n.mark.GetRevocations() > epoch && now.After(n.lists):
			all = append(all, want{id, at})
		}
	}
	return all, wait
}

// postpone notes that a node was asked.
func (v *view) postpone(id community.NodeID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if n := v.nodes[id]; n != nil {
		n.retry, n.lists = time.Now().Add(retryPause), time.Now().Add(listsPause)
	}
}
