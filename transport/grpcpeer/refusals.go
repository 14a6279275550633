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
	RefusedConnections   Reason = "connections"      // more than Limits.Connections
	RefusedHandshakes    Reason = "handshakes"       // more than Limits.Handshakes at a time
	RefusedHandshakeRate Reason = "handshake rate"   // more than handshakeRate of one address
	RefusedProof         Reason = "handshake failed" // it did not prove to be a node that this one talks to
	RefusedPerNode       Reason = "connections of a node"
	RefusedExpired       Reason = "certificate ended" // of a connection that was open
	RefusedJoin          Reason = "join"              // for whatever reason; the joiner hears it
	// RefusedSize: a message over Limits.Message and what goes with it; the caller has ErrTooLarge. It is called
	// as in package community, which refuses what is only a little too large.
	RefusedSize = Reason(community.RefusedSize)
)

// maxCounted is how many nodes are counted one by one; a cluster has fewer.
const maxCounted = 4096

// refusals counts refused connections and messages, in total and per verified node, for
// Network.Refusals. The counts never influence a decision. It is safe for concurrent use.
type refusals struct {
	mu       sync.Mutex
	total    map[Reason]uint64                     // guarded by mu
	byNode   map[identity.NodeID]map[Reason]uint64 // of proven nodes; guarded by mu
	reported map[identity.NodeID]time.Time         // guarded by mu
}

// newRefusals returns counters at zero.
func newRefusals() *refusals {
	return &refusals{total: map[Reason]uint64{}, byNode: map[identity.NodeID]map[Reason]uint64{}, reported: map[identity.NodeID]time.Time{}}
}

// add counts a refusal; node is "" when it is not verified. It returns whether the refusal should
// be reported: at most once per node and reportInterval.
func (t *refusals) add(why Reason, node identity.NodeID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total[why]++
	if node == "" {
		return false
	}
	if t.byNode[node] == nil {
		if len(t.byNode) >= maxCounted {
			return false
		}
		t.byNode[node] = map[Reason]uint64{}
	}
	t.byNode[node][why]++
	now := time.Now()
	if now.Sub(t.reported[node]) < reportInterval {
		return false
	}
	t.reported[node] = now
	return true
}

// totals returns a copy of the counts of all nodes together, unverified ones included.
func (t *refusals) totals() map[Reason]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.total)
}

// forNode returns a copy of the counts of one node; nil when nothing was refused.
func (t *refusals) forNode(node community.NodeID) map[Reason]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.byNode[node])
}

// tooManyConns is errTooManyConns with the node that has them.
type tooManyConns struct{ node identity.NodeID }

func (c tooManyConns) Error() string { return fmt.Sprintf("%v: node %s", errTooManyConns, c.node) }
func (c tooManyConns) Unwrap() error { return errTooManyConns }

// reasonOf returns the Reason under which a refusal with this error is counted. Errors of the
// handshake itself are RefusedProof.
func reasonOf(err error) Reason {
	switch {
	case errors.Is(err, errListenerFull):
		return RefusedConnections
	case errors.Is(err, errTooManyHandshakes):
		return RefusedHandshakes
	case errors.Is(err, errHandshakeRate):
		return RefusedHandshakeRate
	case errors.Is(err, errTooManyConns):
		return RefusedPerNode
	case errors.Is(err, errExpired):
		return RefusedExpired
	case errors.Is(err, errJoinFull):
		return RefusedJoin
	}
	return RefusedProof
}

// sizeWatcher is a gRPC stats handler that counts messages over the size limit. gRPC refuses those
// before any handler runs, so this is the only place that sees them.
type sizeWatcher struct {
	refusals *refusals
	report   func(Event)
	max      int
}

// HandleRPC looks at the end of each request for gRPC's size error. It recognizes the error by its
// text, which is all that gRPC offers.
func (s *sizeWatcher) HandleRPC(ctx context.Context, r stats.RPCStats) {
	end, ok := r.(*stats.End)
	if !ok || end.Error == nil {
		return
	}
	st := status.Convert(end.Error)
	// gRPC has no other mark of it. This program's own refusals were counted where that was done.
	if st.Code() != codes.ResourceExhausted || !strings.Contains(st.Message(), "received message larger") {
		return
	}
	remote, ok := callerOf(ctx)
	if !ok {
		return
	}
	if s.refusals.add(RefusedSize, remote.ID) {
		s.report(Event{Kind: Refused, Node: remote.ID, Name: remote.From().Name, Addr: remote.addr, Why: fmt.Sprintf("it sent a message of over %d bytes", s.max)})
	}
}

func (s *sizeWatcher) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (s *sizeWatcher) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (s *sizeWatcher) HandleConn(context.Context, stats.ConnStats)                       {}

// sendNoRoom sends a fatal TLS alert to a client that has not begun its handshake, so that the
// client reports "no room" instead of a broken connection. It blocks for at most 2 × alertTimeout.
func sendNoRoom(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(alertTimeout))
	if _, err := c.Write(identity.NoRoom()); err != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	// Its data is read: closing on top of it would make the other side's kernel forget what was said.
	_, _ = c.Read(make([]byte, 4<<10))
}
