package grpcpeer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// link is one connection to one proven node, from its handshake to its end. A broken link is never
// mended: a new one takes its place.
type link struct {
	peer    community.Peer
	addr    netip.AddrPort // that was dialled; none = the connection is reversed
	conn    net.Conn       // closing it ends everything at once
	raw     net.Conn       // the same below TLS
	heard   func(from community.NodeID, lists ...*pb.Revocations)
	alarmed func(twin *pb.Run)
	// undelivered is told of sends that came to nothing.
	undelivered func(community.Undelivered)
	courier     *courier    // for a node that knows no sends
	instance    string      // of the node's process
	removed     atomic.Bool // the node was removed from the cluster
	lapsed      atomic.Bool // its certificate has ended
	// authority: the node holds the cluster's, as it says; what it signs shows whether it does.
	authority atomic.Bool
	// theirs and ours are until when the certificates are good that each end has shown; half is half the
	// life of the node's.
	theirs, ours validity
	half         time.Duration
	grpc         *grpc.ClientConn
	client       pb.PeerClient
	limits       Limits
	// unlinked has something when the node says that it cannot call this one; capacity 1.
	unlinked   chan struct{}
	introduced func(introducer *link, said *pb.Introductions)
	slots      chan struct{} // one per call in flight that has a stream of its own
	fast       *fastpath     // nil = the node does not speak Link
	streams    bool          // the node speaks InvokeStream
	closed     atomic.Bool   // no new calls: it ended, or the node said goodbye
	ended      chan struct{} // closed when the link is no more
	members    atomic.Int64
	protocol   Version
	rtt        time.Duration
	since      time.Time
}

var errSpent = errors.New("a link is one connection, and this one has ended")

// newLink makes gRPC use a connection whose handshake is done, once.
func newLink(conn net.Conn, creds handed, node community.NodeID, limits Limits) (*link, error) {
	l := &link{conn: conn, limits: limits, slots: make(chan struct{}, limits.Calls), ended: make(chan struct{}), unlinked: make(chan struct{}, 1)}
	l.courier = newCourier(l)
	var spent atomic.Bool
	var err error
	l.grpc, err = grpc.NewClient("passthrough:///"+string(node),
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if spent.Swap(true) {
				return nil, errSpent
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
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(limits.Message+envelopeRoom),
			grpc.MaxCallSendMsgSize(limits.Message+envelopeRoom),
		),
	)
	if err != nil {
		return nil, fmt.Errorf("set up the connection: %w", err)
	}
	l.client = pb.NewPeerClient(l.grpc)
	return l, nil
}

// close ends the link and fails the calls on it. The connection goes first: an orderly end would wait
// for a peer that does not read.
func (l *link) close() {
	l.closed.Store(true)
	l.conn.Close()
	l.grpc.Close()
	if l.fast != nil {
		l.fast.close()
	}
	l.courier.close()
}

func (l *link) invoke(ctx context.Context, call community.Call) (community.Reply, error) {
	if l.closed.Load() {
		return community.Reply{}, community.ErrUnavailable
	}
	if len(call.Payload) > l.limits.Message {
		return community.Reply{}, community.ErrTooLarge
	}
	if call.Listen != nil && l.streams {
		return l.invokeStream(ctx, call)
	}
	if size, ok := envelope(call); ok && l.fast != nil {
		answer, err := l.fast.invoke(ctx, call, size)
		if err != nil {
			return community.Reply{}, err
		}
		return l.read(answer)
	}
	return l.invokeAlone(ctx, call)
}

// invokeAlone carries a call in a stream of its own.
func (l *link) invokeAlone(ctx context.Context, call community.Call) (community.Reply, error) {
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	default:
		return community.Reply{}, community.ErrBusy
	}
	at, _ := ctx.Deadline()
	reply, err := l.client.Invoke(ctx, requestTo(call, time.Until(at)))
	if err != nil {
		return community.Reply{}, l.why(ctx, err)
	}
	if len(reply.GetPayload()) > l.limits.Message {
		return community.Reply{}, community.ErrTooLarge
	}
	return community.Reply{Data: reply.GetPayload(), ContentType: reply.GetContentType()}, nil
}

// read turns an answer over Link into what its caller gets.
func (l *link) read(a *pb.Answer) (community.Reply, error) {
	if f := a.GetFailure(); f != nil {
		err := fromFailure(f)
		if errors.Is(err, context.Canceled) { // by the other node, not by the caller
			err = community.ErrUnavailable
		}
		return community.Reply{}, err
	}
	if len(a.GetPayload()) > l.limits.Message {
		return community.Reply{}, community.ErrTooLarge
	}
	return community.Reply{Data: a.GetPayload(), ContentType: a.GetContentType()}, nil
}

// why says how a call failed: the caller's own end comes first, then the link's, then what was answered.
func (l *link) why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	said := fromWire(err)
	if errors.Is(said, context.Canceled) { // by this link's end or by the other node, not by the caller
		return community.ErrUnavailable
	}
	return said
}

var (
	errSilent    = fmt.Errorf("no sign of life for %v", silence)
	errStopping  = errors.New("this node stops")
	errBroken    = errors.New("the connection broke")
	errForbidden = errors.New("it broke the rules of the protocol")
)

// farewell is how a watched node ended the link on purpose.
type farewell struct{ reason string }

func (f farewell) Error() string { return f.reason }

// lastNews is how long a node is listened to whose lanes have ended: when it stops, its goodbye is on the way beside
// their end, and which of them is read first nobody knows. The calls have failed by then.
const lastNews = 250 * time.Millisecond

// watch hands to lease what the node says of itself, until the link breaks, the node falls silent,
// breaks the rules or says goodbye, or ctx ends. When it returns the lease is over and the link ended.
func (l *link) watch(ctx context.Context, lease *community.Lease) error {
	err := l.follow(ctx, lease)
	l.closed.Store(true)
	lease.Lost(err) // of no effect after a goodbye
	l.close()
	return err
}

func (l *link) follow(parent context.Context, lease *community.Lease) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	var silent atomic.Bool
	// Ending the stream, not the connection: the lease is told first, then the calls fail.
	watchdog := time.AfterFunc(silence, func() { silent.Store(true); cancel() })
	defer watchdog.Stop()
	// A lease that the community has ended is one that nobody listens to.
	defer context.AfterFunc(lease.Valid(), cancel)()
	if l.fast != nil {
		late := time.AfterFunc(silence, cancel)
		late.Stop()
		defer late.Stop()
		defer context.AfterFunc(l.fast.broken, func() { late.Reset(lastNews) })()
	}
	stream, err := l.client.Watch(ctx, &pb.WatchRequest{}, grpc.MaxCallRecvMsgSize(catalogSize))
	if err != nil {
		return l.ending(parent, &silent, lease)
	}
	told := census{lease: lease, members: map[community.MemberID]struct{}{},
		heard: func(list *pb.Revocations) { l.heard(l.peer.ID, list) }, alarmed: l.alarmed, holds: l.authority.Store,
		introduced: func(said *pb.Introductions) { l.introduced(l, said) }, unlinked: l.unlinked}
	for {
		event, err := stream.Recv()
		if err != nil {
			return l.ending(parent, &silent, lease)
		}
		watchdog.Reset(silence)
		if err := told.apply(event); err != nil {
			return err
		}
		l.members.Store(int64(len(told.members)))
	}
}

// ending says why a Watch stream ended that nobody said goodbye on. The members of a node that was
// removed do not come back, so that they are not waited for.
func (l *link) ending(ctx context.Context, silent *atomic.Bool, lease *community.Lease) error {
	switch {
	case l.removed.Load():
		bye := farewell{identity.ErrRemoved.Error()}
		lease.Goodbye(bye.reason)
		return bye
	case l.lapsed.Load():
		return errLapsed
	case ctx.Err() != nil:
		return errStopping
	case silent.Load():
		return errSilent
	case lease.Valid().Err() != nil:
		return context.Cause(lease.Valid())
	case l.fast != nil && l.fast.broken.Err() != nil:
		return context.Cause(l.fast.broken)
	}
	return errBroken
}

// census hands to a lease what a node announces over one link, and counts it.
type census struct {
	lease   *community.Lease
	members map[community.MemberID]struct{}
	heard   func(*pb.Revocations)
	alarmed func(*pb.Run)

	introduced func(*pb.Introductions)
	unlinked   chan<- struct{}
	holds      func(bool)
}

// apply hands over one event. A node that announces without end is an error, which ends the link.
func (c *census) apply(event *pb.CatalogEvent) error {
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
		bye := farewell{clean(e.Goodbye.GetReason())}
		c.lease.Goodbye(bye.reason)
		return bye
	case *pb.CatalogEvent_Revocations:
		c.heard(e.Revocations)
	case *pb.CatalogEvent_Twin:
		c.alarmed(e.Twin)
	case *pb.CatalogEvent_Introductions:
		c.introduced(e.Introductions)
	case *pb.CatalogEvent_Unlinked:
		select {
		case c.unlinked <- struct{}{}:
		default:
		}
	case *pb.CatalogEvent_HoldsAuthority:
		c.holds(e.HoldsAuthority)
	}
	// A heartbeat needs nothing done, and an event of a later minor version is a sign of life too.
	if len(c.members) > maxAnnounced {
		return fmt.Errorf("%w: it announces over %d members", errForbidden, maxAnnounced)
	}
	return nil
}

// describe asks the node who it is, checks that it says what its certificate does, and opens the fast
// path when both speak it.
func (l *link) describe(ctx context.Context, self *pb.DescribeRequest) error {
	began := time.Now()
	d, err := l.client.Describe(ctx, self, grpc.MaxCallRecvMsgSize(catalogSize))
	if err != nil {
		return fmt.Errorf("ask the node to describe itself: %w", err)
	}
	l.rtt = time.Since(began)
	l.protocol = Version{d.GetProtocol().GetMajor(), d.GetProtocol().GetMinor()}
	l.peer.Name = clean(d.GetName())
	l.authority.Store(d.GetHoldsAuthority())
	l.instance = d.GetRun().GetInstance()
	l.heard(l.peer.ID, append(d.GetMoreRevocations(), d.GetRevocations())...)
	if d.GetId() != string(l.peer.ID) {
		return fmt.Errorf("%w: it calls itself another node than its certificate does", errForbidden)
	}
	if ours := self.GetProtocol(); l.protocol.Major != ours.GetMajor() {
		return &incompatible{l.protocol, Version{ours.GetMajor(), ours.GetMinor()}}
	}
	minor := min(l.protocol.Minor, self.GetProtocol().GetMinor())
	l.streams = minor >= streamMinor
	if minor < linkMinor {
		return nil
	}
	l.fast, err = openFastpath(ctx, l.client, l.limits, d, func(u community.Undelivered) {
		u.Node = l.peer.ID
		l.undelivered(u)
	})
	return err
}

// incompatible is a node of another major version.
type incompatible struct{ theirs, ours Version }

func (e *incompatible) Error() string {
	return fmt.Sprintf("it speaks version %s of the protocol and this node speaks %s; install the same symbio on both", e.theirs, e.ours)
}
