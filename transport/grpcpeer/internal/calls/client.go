package calls

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/community"
	"symbio/internal/actor/awake"
	"symbio/internal/actor/term"
	pb "symbio/proto/symbio/v1"
)

// Lanes are the Link streams of a connection. Each has a flow control window of its own, and gRPC sends from
// all of them in turn, 16 KiB at a time.
const (
	short = iota
	bulk
	lanes
)

const (
	// EnvelopeRoom is how many bytes a message may have besides its payload. A request's envelope has at most
	// maxEnvelope bytes as measure counts them; its trace, of at most 567 bytes, is not counted.
	EnvelopeRoom = 64 << 10
	maxEnvelope  = EnvelopeRoom - 1<<10
	// maxContentType is the longest content type of an answer, in bytes.
	maxContentType = 16 << 10
	// shortSize is the longest message of the short lane, in bytes: one of HTTP/2's frames.
	shortSize = 16 << 10
	// overhead is about what a call or an answer costs besides its strings and payload, in bytes; and
	// requesterSize what a requester costs besides its name.
	overhead      = 64
	requesterSize = 16
	// maxQueued is how many calls may wait until others have ended: their callers wait anyway, so it only stops a program that
	// starts callers without end.
	maxQueued = 4096
	// maxUnsent is how many bytes of sends may wait for the stream: enough to keep it busy until a refused
	// sender tries again.
	maxUnsent = 1 << 20
)

var (
	// ErrBroken ends the calls of a connection that broke.
	ErrBroken = errors.New("the connection broke")
	errStuck  = fmt.Errorf("%w: it answers calls that it has not read", ErrProtocol)
	errNoLink = fmt.Errorf("%w: it does not serve Link", ErrProtocol)
	errText   = community.Explain(community.ErrInvalid, "a call's names must be UTF-8 text")
)

// ClientConfig sets up a Client.
type ClientConfig struct {
	// MaxMessage is the longest payload of an answer that this node announces to take, in bytes.
	MaxMessage int
	// MaxCalls is how many calls may be under way, and how many of them may listen. Calls without a listener wait for their turn.
	MaxCalls int
	// Stuck ends the connection when a call that is alone cannot be sent for so long, by Clock.
	Stuck time.Duration
	Clock awake.Clock
	// PeerSends is how many sends may be on their way to the node, as it announces.
	PeerSends uint64
	// PeerHolds says that the node tells when it has accepted a call (protocol 1.3).
	PeerHolds bool
	// Undelivered receives the sends that failed. It must not block.
	Undelivered func(community.DeliveryFailure)
}

// Client is the calling side of one connection. All methods are safe for concurrent use.
type Client struct {
	cfg       ClientConfig
	rpc       pb.PeerClient
	maxSends  int           // at a time
	listening chan struct{} // one per call in a stream of its own
	lanes     [lanes]*outbox
	loops     sync.WaitGroup
	broken    context.Context // ends when a lane has ended, and with it all calls
	lose      context.CancelCauseFunc

	mu sync.Mutex
	// waiting holds the calls that are not answered, in queue or under way, whether their callers still wait
	// or not, because the node works on them. nil when a lane has ended. guarded by mu
	waiting map[uint64]chan *pb.Answer // capacity 1; nil comes when the lane has ended
	queue   turns                      // calls that are sent when others have ended; guarded by mu
	last    uint64                     // id; guarded by mu
	sent    int                        // sends without a receipt; guarded by mu
}

// Open opens both lanes of a connection and starts their goroutines, six in all. It returns an
// error when the streams cannot be opened before ctx ends. The caller must call Close.
func Open(ctx context.Context, rpc pb.PeerClient, cfg ClientConfig) (*Client, error) {
	c := &Client{cfg: cfg, rpc: rpc, waiting: map[uint64]chan *pb.Answer{}, listening: make(chan struct{}, cfg.MaxCalls),
		maxSends: int(min(uint64(cfg.MaxCalls), cfg.PeerSends))}
	c.broken, c.lose = context.WithCancelCause(context.Background())
	// A node may let no more streams begin; that must not hold up more than this connection.
	defer context.AfterFunc(ctx, func() { c.lose(context.Cause(ctx)) })()
	for lane := range c.lanes {
		stream, err := rpc.Link(c.broken, grpc.ForceCodecV2(newCodec()))
		if err == nil {
			err = stream.Send(&pb.Frame{Open: &pb.Open{Bulk: lane == bulk, MaxMessage: uint64(cfg.MaxMessage)}})
		}
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("open the link streams: %w", err)
		}
		out := newOutbox(stream.Send, 0)
		c.lanes[lane] = out
		c.loops.Go(out.run)
		c.loops.Go(func() {
			if cfg.Clock.Silent(c.broken, cfg.Stuck, out.stuck) {
				c.end(errStuck)
			}
		})
		c.loops.Go(func() { c.receive(stream) })
	}
	return c, nil
}

// MessageSize returns the largest payload, in bytes, for a node that announced a limit. 0 means 1
// MiB, for nodes that announce none. It is at most 1 GiB, so that it fits an int everywhere.
func MessageSize(announced uint64) int {
	if announced == 0 {
		return 1 << 20
	}
	return int(min(announced, 1<<30))
}

// Broken returns a context that ends when the calls of the connection have ended, with the reason
// as its cause.
func (c *Client) Broken() context.Context { return c.broken }

// Close fails the calls in flight with ErrUnavailable and returns when the goroutines of the lanes
// have ended. The connection must be closed before it, or by another goroutine: Close waits for
// reads that only the end of the connection ends.
func (c *Client) Close() {
	c.end(ErrBroken)
	for _, out := range c.lanes {
		if out != nil {
			out.close()
		}
	}
	c.loops.Wait()
}

// end ends both lanes, fails every call, and reports the sends that were not acknowledged as
// undelivered. Only the first reason counts.
func (c *Client) end(why error) {
	c.lose(why)
	c.mu.Lock()
	all, sent := c.waiting, c.sent
	c.waiting, c.queue, c.sent = nil, turns{}, 0
	c.mu.Unlock()
	for _, w := range all {
		w <- nil
	}
	if sent > 0 {
		c.cfg.Undelivered(community.DeliveryFailure{Count: uint64(sent), Err: community.ErrUnavailable})
	}
}

// receive reads one lane and passes its answers to their callers until the stream ends, which ends
// the connection.
func (c *Client) receive(stream grpc.BidiStreamingClient[pb.Frame, pb.Frame]) {
	for {
		f, err := stream.Recv()
		if err != nil {
			if status.Code(err) == codes.Unimplemented {
				c.end(errNoLink)
			}
			c.end(ErrBroken)
			return
		}
		c.dispatch(f.GetAnswers())
		if r := f.GetReceipt(); r != nil {
			c.settle(r)
		}
	}
}

// dispatch passes answers to the waiting callers. An answer without a waiting call (a second one,
// or one to an unknown id) is ignored.
func (c *Client) dispatch(answers []*pb.Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range answers {
		if w := c.waiting[a.GetId()]; w != nil {
			c.ended(a.GetId())
			w <- a
		}
	}
}

// ended forgets a call that was under way, and sends the one that waits for longest. The caller holds c.mu.
func (c *Client) ended(id uint64) {
	delete(c.waiting, id)
	if next, ok := c.queue.pop(); ok {
		next.message.setDeadline(time.Until(next.at))
		next.out.putNow(next.item())
	}
}

// measure returns the size of a call's envelope. It returns ErrTooLarge for an envelope that does not fit into
// EnvelopeRoom, and ErrInvalid for names that protobuf cannot encode. The community has checked the payload.
func (c *Client) measure(call community.Call) (envelope int, err error) {
	envelope = overhead + len(call.ID) + len(call.Member) + len(call.Capability) + len(call.ContentType) + len(call.OnBehalf)
	text := utf8.ValidString(call.ID) && utf8.ValidString(string(call.Member)) && utf8.ValidString(call.Capability) && utf8.ValidString(call.ContentType)
	for _, s := range call.Requester {
		envelope += len(s) + requesterSize
		text = text && utf8.ValidString(s)
	}
	switch {
	case envelope > maxEnvelope:
		return 0, community.ErrTooLarge
	case !text:
		return 0, errText
	}
	return envelope, nil
}

// Invoke carries one call and waits for its answer. A call that listens has a stream of its own.
func (c *Client) Invoke(ctx context.Context, call community.Call) (community.Reply, error) {
	envelope, err := c.measure(call)
	switch {
	case err != nil:
		return community.Reply{}, err
	case ctx.Err() != nil:
		return community.Reply{}, context.Cause(ctx)
	case call.Listen != nil || call.Accept != nil:
		return c.invokeStream(ctx, call)
	}
	at, _ := ctx.Deadline()
	one := turn{message: messageTo(call, time.Until(at)), size: len(call.Payload) + envelope, out: c.lanes[short], at: at}
	long := max(len(call.Payload), envelope) > shortSize
	if long {
		one.out = c.lanes[bulk]
	}
	w, place, err := c.register(one)
	switch {
	case err != nil:
		return community.Reply{}, err
	case place != later:
		one.out.put(one.item(), place == alone && !long) // sends may fill the other lane, without being under way as calls are
	}
	parent, own := term.Ends(ctx)
	select {
	case a := <-w:
		return replyFrom(a)
	case <-parent:
	case <-own:
	}
	c.abandon(one.message.call.Id, one.out)
	return community.Reply{}, context.Cause(ctx)
}

// replyFrom returns the result of a call from its answer. nil means that the lane ended first.
func replyFrom(a *pb.Answer) (community.Reply, error) {
	if a == nil {
		return community.Reply{}, community.ErrUnavailable
	}
	if f := a.GetFailure(); f != nil {
		return community.Reply{}, notCanceled(fromFailure(f))
	}
	return community.Reply{Data: a.GetPayload(), ContentType: a.GetContentType()}, nil
}

// notCanceled replaces context.Canceled from the other node by ErrUnavailable: the caller here did
// not cancel the call, and would take that error for its own doing.
func notCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return community.ErrUnavailable
	}
	return err
}

// place is when a call is sent.
type place int

// A call that is alone has nothing before it on the wire. One that comes later is sent by ended.
const (
	later place = iota
	now
	alone
)

// register gives a call an id and a channel for its answer, and puts it into the queue if MaxCalls are under way. ErrBusy:
// maxQueued calls wait already. ErrUnavailable: a lane has ended.
func (c *Client) register(one turn) (chan *pb.Answer, place, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	under := len(c.waiting) - c.queue.len()
	switch {
	case c.waiting == nil:
		return nil, later, community.ErrUnavailable
	case c.queue.len() >= maxQueued:
		return nil, later, busyWith(c.cfg.MaxCalls)
	}
	c.last++
	one.message.call.Id = c.last
	w := make(chan *pb.Answer, 1)
	c.waiting[c.last] = w
	switch {
	case under >= c.cfg.MaxCalls:
		c.queue.push(one)
		return w, later, nil
	case under == 0:
		return w, alone, nil
	}
	return w, now, nil
}

// abandon cancels a call whose caller has given up. A call that was not sent yet is withdrawn. One
// that was sent counts against MaxCalls until the node has answered it: the node still works on it.
func (c *Client) abandon(id uint64, out *outbox) {
	if c.dequeue(id) {
		return
	}
	if !out.withdraw(id) {
		out.put(item{cancel: id, size: overhead}, false)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[id] != nil {
		c.ended(id)
	}
}

// dequeue forgets a call that waits for others to end, and reports whether it did.
func (c *Client) dequeue(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.queue.remove(id) {
		return false
	}
	delete(c.waiting, id)
	return true
}

// Tell queues a one-way send and returns at once. It returns ErrBusy when too many are
// unacknowledged or too many bytes wait, ErrUnavailable when the connection has ended, and the
// errors of measure.
func (c *Client) Tell(call community.Call) error {
	envelope, err := c.measure(call)
	if err != nil {
		return err
	}
	r := requestTo(call, 0)
	r.Deadline = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		return community.ErrUnavailable
	}
	// All sends go over one lane, so that they stay in order, and over the one without short calls.
	if c.sent >= c.maxSends || !c.lanes[bulk].tryPut(item{send: r, size: len(call.Payload) + envelope}, maxUnsent) {
		return community.ErrBusy
	}
	c.sent++
	c.last++
	return nil
}

// Activity returns how many calls and sends began, and whether one is under way.
func (c *Client) Activity() (begun uint64, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.busy()
}

// busy reports whether a call or a send is under way. The caller holds c.mu.
func (c *Client) busy() bool { return len(c.waiting) > 0 || c.sent > 0 || len(c.listening) > 0 }

// CloseIdle makes calls that begin later fail with ErrUnavailable before anything of them is sent. It changes nothing and
// returns false if one is under way.
func (c *Client) CloseIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy() {
		return false
	}
	c.waiting = nil
	return true
}

// settle applies a receipt: it makes room for further sends and reports those that failed. Counts
// beyond what was sent are ignored, because the other node may be wrong or lying.
func (c *Client) settle(r *pb.Receipt) {
	c.mu.Lock()
	over := min(r.GetOver(), uint64(c.sent))
	c.sent -= int(over)
	c.mu.Unlock()
	for _, u := range r.GetUndelivered() {
		n := min(u.GetCount(), over)
		over -= n
		c.cfg.Undelivered(community.DeliveryFailure{Member: community.MemberID(u.GetMember()), Perception: u.GetCapability(), Count: n, Err: fromFailure(u.GetFailure())})
	}
}
