package grpcpeer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"symbio/community"
	"symbio/internal/actor/awake"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer/internal/calls"
)

// link is a connection on which this node calls one verified node, from the TLS handshake to its
// end. A broken link is never repaired: a new link replaces it.
//
// Fields without a comment on concurrency are set before the link is added to links and constant
// afterwards; atomics may change any time.
type link struct {
	peer community.Peer
	at   endpoint // that was dialed; nowhere = the connection is reversed
	wire linkWire
	// certs are those that the connection rests on.
	certs    certificateTerms
	about    nodeState
	events   linkEvents
	clock    awake.Clock
	limits   Limits
	calls    *calls.Client // made by describe
	reason   linkReason
	use      linkUse
	unlinked chan struct{} // gets a token when the node reports that it cannot call this one; capacity 1
	closed   atomic.Bool   // no new calls: the link ended, or the node announced its stop
	ended    chan struct{} // closed when the link is no more
	since    time.Time
}

// linkReason is why a link ends that this node closes.
type linkReason struct {
	removed atomic.Bool // the node was removed from the cluster
	expired atomic.Bool // its certificate has ended
	idle    atomic.Bool // it was not used; its node stays a member by gossip
}

// linkUse is how a link is used. membership.closeIdle alone uses what is not atomic.
type linkUse struct {
	offered atomic.Bool // the node could not dial this one, and has a reversed connection
	begun   uint64      // calls, at the last look
	looks   int         // without a call
	tried   int         // looks at the last dial of a node that was not reached before
}

// linkWire is the connection of a link, and the gRPC client on it.
type linkWire struct {
	conn net.Conn // closing it ends everything at once
	raw  net.Conn // the same below TLS
	// silence returns how long no byte of the node's connections came, not only how long no heartbeat: one behind a large
	// answer on a slow network is not missed.
	silence func() time.Duration
	grpc    *grpc.ClientConn
	client  pb.PeerClient
}

// linkEvents has the functions that get what the node of a link announces: lists of removed nodes, how far it is in a rotation of the authority, a twin
// of this node, introductions, and sends that failed.
type linkEvents struct {
	revocations   func(from community.NodeID, lists ...*pb.Revocations)
	standing      func(from community.NodeID, s *pb.Standing)
	duplicate     func(mark *pb.Run)
	introductions func(from community.NodeID, addr string, sent *pb.Introductions)
	undelivered   func(community.DeliveryFailure)
}

// nodeState is what is known of the node of a link. describe sets it; atomics change later.
type nodeState struct {
	instance   string // of the node's process
	protocol   version
	rtt        time.Duration
	members    atomic.Int64
	clockAhead atomic.Pointer[time.Duration] // of this node's; nil = unknown
	authority  atomic.Bool                   // the node claims to hold the cluster's authority; its signatures prove it
}

var errConnUsed = errors.New("a link is one connection, and this one has ended")

// newLink makes a gRPC client on a connection whose TLS handshake is done. gRPC may use the
// connection once: reconnecting would skip the verification and the lease, so a second dial returns
// errConnUsed. Retries and the service configuration are off for the same reason: a call is sent at
// most once.
func newLink(conn net.Conn, creds establishedCredentials, node community.NodeID, limits Limits) (*link, error) {
	l := &link{wire: linkWire{conn: conn}, limits: limits, ended: make(chan struct{}), unlinked: make(chan struct{}, 1)}
	var spent atomic.Bool
	var err error
	l.wire.grpc, err = grpc.NewClient("passthrough:///"+string(node),
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if spent.Swap(true) {
				return nil, errConnUsed
			}
			return conn, nil
		}),
		grpc.WithIdleTimeout(0), // an idle link still has a lease
		grpc.WithDisableRetry(), // at most once
		grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithWriteBufferSize(chunk),
		grpc.WithMaxHeaderListSize(limits.Header),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: keepaliveTimeout, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(limits.Message+calls.EnvelopeRoom),
			grpc.MaxCallSendMsgSize(limits.Message+calls.EnvelopeRoom),
		),
	)
	if err != nil {
		return nil, fmt.Errorf("set up the connection: %w", err)
	}
	l.wire.client = pb.NewPeerClient(l.wire.grpc)
	return l, nil
}

// close fails the calls on the link and closes the connection, without an orderly shutdown: that
// would wait for a peer that does not read. It may be called more than once.
func (l *link) close() {
	l.closed.Store(true)
	l.wire.conn.Close()
	l.wire.grpc.Close()
	if l.calls != nil {
		l.calls.Close()
	}
}

// countIdle returns for how many looks in a row no call went over the link, this one included.
func (l *link) countIdle() int {
	begun, busy := l.calls.Activity()
	if l.use.looks++; busy || begun != l.use.begun {
		l.use.looks, l.use.tried = 0, 0
	}
	l.use.begun = begun
	return l.use.looks
}

// closeIdle closes the link unless a call is under way. Calls that begin later make a new link.
func (l *link) closeIdle() {
	l.reason.idle.Store(true)
	if !l.calls.CloseIdle() {
		l.reason.idle.Store(false)
		return
	}
	l.abort()
}

var (
	errSilent   = fmt.Errorf("no sign of life for %v", silenceTimeout)
	errStopping = errors.New("this node stops")
	errIdle     = errors.New("it was not used")
)

// goodbye is the error of a link whose node announced that it stops.
type goodbye struct{ reason string }

func (f goodbye) Error() string { return f.reason }

// goodbyeTime is how long the Watch of a node is read whose lanes have ended: when the node stops, its goodbye comes
// in another stream, and may be read after their end. The calls have failed by then.
const goodbyeTime = 250 * time.Millisecond

// watch passes what the node announces to lease until the link ends, and returns why. The link and
// the lease have ended when it returns.
//
// It ends when the connection breaks, when nothing arrives for silenceTimeout, when the node breaks
// the protocol or says goodbye, when the community ends the lease, or when ctx ends.
func (l *link) watch(ctx context.Context, lease *community.Lease) error {
	err := l.runWatch(ctx, lease)
	l.closed.Store(true)
	if !l.reason.idle.Load() {
		lease.Lost(err) // of no effect after a goodbye
	}
	l.close()
	return err
}

// runWatch reads the Watch stream until it ends. Two things can end the stream from this side: the
// watchdog, which looks for silence, and goodbyeTime after the end of the calls' lanes.
func (l *link) runWatch(parent context.Context, lease *community.Lease) error {
	ctx, cancel := context.WithCancel(parent)
	var silent atomic.Bool
	var watchdog sync.WaitGroup
	defer watchdog.Wait()
	defer cancel()
	// Ending the stream, not the connection: the lease is told first, then the calls fail.
	watchdog.Go(func() { silent.Store(l.clock.Silent(ctx, silenceTimeout, l.wire.silence)); cancel() })
	// The community may end the lease, too.
	defer context.AfterFunc(lease.Valid(), cancel)()
	late := time.AfterFunc(silenceTimeout, cancel)
	late.Stop()
	defer late.Stop()
	defer context.AfterFunc(l.calls.Broken(), func() { late.Reset(goodbyeTime) })()
	stream, err := l.wire.client.Watch(ctx, &pb.WatchRequest{}, grpc.MaxCallRecvMsgSize(maxCatalog))
	if err != nil {
		return l.endReason(parent, &silent, lease)
	}
	announced := announcements{link: l, lease: lease, members: map[community.MemberID]struct{}{}}
	for {
		event, err := stream.Recv()
		if err != nil {
			return l.endReason(parent, &silent, lease)
		}
		if err := announced.apply(event); err != nil {
			return err
		}
		l.about.members.Store(int64(len(announced.members)))
	}
}

// endReason returns why a Watch stream ended without a goodbye. The order matters: removal, expiry
// and silence all show as a broken connection, too. A removed node leaves the community at once, as
// with a goodbye, because it does not come back.
func (l *link) endReason(ctx context.Context, silent *atomic.Bool, lease *community.Lease) error {
	switch {
	case l.reason.idle.Load():
		return errIdle
	case l.reason.removed.Load():
		bye := goodbye{identity.ErrRemoved.Error()}
		lease.Goodbye(bye.reason)
		return bye
	case l.reason.expired.Load():
		return errExpired
	case ctx.Err() != nil:
		return errStopping
	case silent.Load():
		return errSilent
	case lease.Valid().Err() != nil:
		return context.Cause(lease.Valid())
	case l.calls.Broken().Err() != nil:
		return context.Cause(l.calls.Broken())
	}
	return calls.ErrBroken
}

// announcements applies the events of one Watch stream to a lease. members is kept to bound how
// many a node announces. It is used by the stream's goroutine.
type announcements struct {
	link    *link
	lease   *community.Lease
	members map[community.MemberID]struct{}
}

// apply applies one event. It returns an error that ends the link for a goodbye, and when the node
// has over maxMembers members. Events that this version does not know are ignored; they still count
// as a sign of life.
func (c *announcements) apply(event *pb.CatalogEvent) error {
	switch e := event.GetEvent().(type) {
	case *pb.CatalogEvent_Snapshot:
		all := catalogFrom(e.Snapshot)
		clear(c.members)
		for _, m := range all.Members {
			c.members[m.ID] = struct{}{}
		}
		c.lease.Snapshot(all)
	case *pb.CatalogEvent_Joined:
		m := memberFrom(e.Joined)
		c.members[m.ID] = struct{}{}
		c.lease.Joined(m)
	case *pb.CatalogEvent_Updated:
		m := memberFrom(e.Updated)
		c.members[m.ID] = struct{}{}
		c.lease.Updated(m)
	case *pb.CatalogEvent_Left:
		id := community.MemberID(e.Left)
		delete(c.members, id)
		c.lease.Left(id)
	case *pb.CatalogEvent_Goodbye:
		bye := goodbye{clean(e.Goodbye.GetReason())}
		c.lease.Goodbye(bye.reason)
		return bye
	case *pb.CatalogEvent_Revocations:
		c.link.events.revocations(c.link.peer.ID, e.Revocations)
	case *pb.CatalogEvent_Standing:
		c.link.events.standing(c.link.peer.ID, e.Standing)
	case *pb.CatalogEvent_Duplicate:
		c.link.events.duplicate(e.Duplicate)
	case *pb.CatalogEvent_Introductions:
		c.link.events.introductions(c.link.peer.ID, c.link.peer.Addr, e.Introductions)
	case *pb.CatalogEvent_Unlinked:
		select {
		case c.link.unlinked <- struct{}{}:
		default:
		}
	case *pb.CatalogEvent_Heartbeat:
		if now := e.Heartbeat.GetNow(); now.IsValid() {
			ahead := time.Until(now.AsTime())
			c.link.about.clockAhead.Store(&ahead)
		}
	case *pb.CatalogEvent_HoldsAuthority:
		c.link.about.authority.Store(e.HoldsAuthority)
	}
	// An event of a later minor version is a sign of life too.
	if len(c.members) > maxMembers {
		return fmt.Errorf("%w: it announces over %d members", calls.ErrProtocol, maxMembers)
	}
	return nil
}

// describe calls Describe, checks the answer against the certificate, and opens the lanes for
// calls. It returns calls.ErrProtocol when the node claims another id than its certificate has, and
// incompatible for another major version.
func (l *link) describe(ctx context.Context, self *pb.DescribeRequest) error {
	began := time.Now()
	d, err := l.wire.client.Describe(ctx, self, grpc.MaxCallRecvMsgSize(maxCatalog))
	if err != nil {
		return fmt.Errorf("ask the node to describe itself: %w", err)
	}
	l.about.rtt = time.Since(began)
	l.about.protocol = version{d.GetProtocol().GetMajor(), d.GetProtocol().GetMinor()}
	l.peer.Name, l.peer.MaxMessage = clean(d.GetName()), min(l.limits.Message, calls.MessageSize(d.GetMaxMessage()))
	l.about.authority.Store(d.GetHoldsAuthority())
	l.about.instance = d.GetRun().GetInstance()
	l.events.standing(l.peer.ID, d.GetStanding()) // first: the lists may be by a new authority
	l.events.revocations(l.peer.ID, append(d.GetMoreRevocations(), d.GetRevocations())...)
	if d.GetId() != string(l.peer.ID) {
		return fmt.Errorf("%w: it calls itself another node than its certificate does", calls.ErrProtocol)
	}
	if l.about.protocol.major != protocol.major {
		return incompatible{l.about.protocol}
	}
	l.calls, err = calls.Open(ctx, l.wire.client, calls.ClientConfig{
		MaxMessage: l.limits.Message, MaxCalls: l.limits.Calls, Stuck: silenceTimeout, Clock: l.clock, PeerSends: d.GetMaxSends(),
		PeerHolds: l.about.protocol.minor >= 3,
		Undelivered: func(u community.DeliveryFailure) {
			u.Node = l.peer.ID
			l.events.undelivered(u)
		},
	})
	return err
}

// incompatible is the error of a node of another major version.
type incompatible struct{ theirs version }

func (e incompatible) Error() string {
	return fmt.Sprintf("it speaks version %s of the protocol and this node speaks %s; install the same symbio on both", e.theirs, protocol)
}
