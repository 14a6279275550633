package grpcpeer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"symbio/community"
	"symbio/security/identity"
)

// Reason says what refused a connection, or a message before it was read.
type Reason string

// The reasons.
const (
	RefusedConnections Reason = "connections"      // more than Limits.Connections
	RefusedHandshakes  Reason = "handshakes"       // more than Limits.Handshakes at a time
	RefusedPace        Reason = "handshake rate"   // more than Limits.HandshakeRate of one address
	RefusedProof       Reason = "handshake failed" // it did not prove to be a node that this one talks to
	RefusedPerNode     Reason = "connections of a node"
	RefusedLapsed      Reason = "certificate ended" // of a connection that was open
	RefusedJoin        Reason = "join"              // for whatever reason; the joiner hears it
	// RefusedSize: a message over Limits.Message and what goes with it; the caller has ErrTooLarge. It is called
	// as in package community, which refuses what is only a little too large.
	RefusedSize = Reason(community.RefusedSize)
)

// maxTallied is how many nodes are counted one by one; a cluster has fewer.
const maxTallied = 4096

// tally counts refusals.
type tally struct {
	mu    sync.Mutex
	total map[Reason]uint64                     // guarded by mu
	of    map[identity.NodeID]map[Reason]uint64 // of who is proven; guarded by mu
	told  map[identity.NodeID]time.Time         // guarded by mu
}

func newTally() *tally {
	return &tally{total: map[Reason]uint64{}, of: map[identity.NodeID]map[Reason]uint64{}, told: map[identity.NodeID]time.Time{}}
}

// add counts a refusal of a node, "" when it is not proven who it is. It reports whether that is worth telling:
// of one node, once a minute.
func (t *tally) add(why Reason, node identity.NodeID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total[why]++
	if node == "" {
		return false
	}
	if t.of[node] == nil {
		if len(t.of) >= maxTallied {
			return false
		}
		t.of[node] = map[Reason]uint64{}
	}
	t.of[node][why]++
	now := time.Now()
	if now.Sub(t.told[node]) < quiet {
		return false
	}
	t.told[node] = now
	return true
}

// Refusals returns how many connections and messages of a node were refused here before they came to a
// community; of this node's own id, of everybody together.
func (n *Network) Refusals(node community.NodeID) map[Reason]uint64 {
	n.tally.mu.Lock()
	defer n.tally.mu.Unlock()
	if node == n.self {
		return maps.Clone(n.tally.total)
	}
	return maps.Clone(n.tally.of[node])
}

// crowded is errCrowded of a node.
type crowded struct{ node identity.NodeID }

func (c crowded) Error() string { return fmt.Sprintf("%v: node %s", errCrowded, c.node) }
func (c crowded) Unwrap() error { return errCrowded }

// reasonOf is what a connection was refused for.
func reasonOf(err error) Reason {
	switch {
	case errors.Is(err, errFull):
		return RefusedConnections
	case errors.Is(err, errRush):
		return RefusedHandshakes
	case errors.Is(err, errPace):
		return RefusedPace
	case errors.Is(err, errCrowded):
		return RefusedPerNode
	case errors.Is(err, errLapsed):
		return RefusedLapsed
	case errors.Is(err, errGateFull):
		return RefusedJoin
	}
	return RefusedProof
}

// scales notices the messages that gRPC refuses for their size, of which no handler hears.
type scales struct {
	tally *tally
	tell  func(Event)
	most  int
}

func (s *scales) HandleRPC(ctx context.Context, r stats.RPCStats) {
	end, ok := r.(*stats.End)
	if !ok || end.Error == nil {
		return
	}
	said := status.Convert(end.Error)
	// gRPC has no other mark of it. What this program refuses was counted where that was done.
	if said.Code() != codes.ResourceExhausted || !strings.Contains(said.Message(), "received message larger") {
		return
	}
	who, ok := callerOf(ctx)
	if !ok {
		return
	}
	if s.tally.add(RefusedSize, who.ID) {
		s.tell(Event{Kind: Refused, Node: who.ID, Name: who.peer().Name, Addr: who.addr, Why: fmt.Sprintf("it sent a message of over %d bytes", s.most)})
	}
}

func (s *scales) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (s *scales) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (s *scales) HandleConn(context.Context, stats.ConnStats)                       {}

// sorry tells a connection that has not made its handshake yet, in the words of TLS, that there is no room for
// it. Without that it would see a connection that breaks.
func sorry(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(lastWord))
	if _, err := c.Write(identity.NoRoom()); err != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	// What it has sent is read: closing on top of it would make the other side's kernel forget what was said.
	_, _ = c.Read(make([]byte, 4<<10))
}
