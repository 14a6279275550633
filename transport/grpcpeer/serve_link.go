package grpcpeer

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/actor/term"
	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// unread is how many bytes of answers may wait for a node to read them; more make the calls wait, and
// so their number keeps the node from sending more.
const unread = 256 << 10

// Link answers the calls of one lane of a connection until the caller ends it.
func (s *server) Link(stream grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error {
	who, ok := callerOf(stream.Context())
	if !ok {
		return toWire(community.ErrDenied)
	}
	frame, err := stream.Recv()
	if err != nil {
		return err
	}
	lane := short
	if frame.GetOpen().GetBulk() {
		lane = bulk
	}
	out := newOutbox(stream.Send, unread)
	if !who.lanes.open(lane, out) {
		return toWire(community.ErrBusy)
	}
	d := &clerk{server: s, who: who, lane: lane, out: out, receipts: receipts{out: out}, most: messageSize(frame.GetOpen().GetMaxMessage()), calls: map[uint64]*term.Term{}, jobs: make(chan job)}
	ctx, cancel := context.WithCancel(stream.Context())
	d.running.Go(out.run)
	defer d.close(cancel)
	for {
		if err := d.take(ctx, frame); err != nil {
			return err
		}
		if frame, err = stream.Recv(); err != nil {
			return err
		}
	}
}

// laneSet is the lanes that a connection has open here.
type laneSet struct {
	mu  sync.Mutex
	all [lanes]*outbox // guarded by mu
}

func (l *laneSet) open(lane int, out *outbox) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[lane] != nil {
		return false
	}
	l.all[lane] = out
	return true
}

func (l *laneSet) close(lane int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[lane] = nil
}

func (l *laneSet) bulk() *outbox {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[bulk]
}

// clerk is the serving side of one lane.
type clerk struct {
	*server
	who     *caller
	lane    int
	out     *outbox
	most    int // bytes of a payload that the caller takes
	running sync.WaitGroup
	// receipts outlives the lane while agents have signals that came over it.
	receipts receipts
	terms    term.Set     // of the calls
	jobs     chan job     // to who is idle
	idle     atomic.Int32 // how many that are

	mu    sync.Mutex
	calls map[uint64]*term.Term // under way; guarded by mu
}

// job is a call to serve.
type job struct {
	ctx  *term.Term
	id   uint64
	call *pb.InvokeRequest
}

// maxIdle is how many goroutines of a lane stay for the next call. A fresh one would have to grow its
// stack first, which costs more than the call.
const maxIdle = 64

// close ends the calls of a lane and returns when they have ended. Nobody sends on the stream then.
func (d *clerk) close(cancel context.CancelFunc) {
	cancel()
	d.terms.End(context.Canceled)
	close(d.jobs)
	d.who.lanes.close(d.lane)
	d.out.close()
	d.running.Wait()
}

// take begins the calls of a frame, and cancels what it says. An error ends the lane.
func (d *clerk) take(ctx context.Context, f *pb.Frame) error {
	for _, c := range f.GetCalls() {
		if err := d.begin(ctx, c); err != nil {
			return err
		}
	}
	for _, r := range f.GetSends() {
		d.takeSend(r)
	}
	if len(f.GetCancels()) == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range f.GetCancels() {
		if call := d.calls[id]; call != nil {
			call.End(context.Canceled)
		}
	}
	return nil
}

var errTwice = status.Error(codes.InvalidArgument, "two calls under way have one id")

func (d *clerk) begin(ctx context.Context, c *pb.Call) error {
	id, r := c.GetId(), c.GetRequest()
	if d.who.calls.Add(1) > int64(d.cfg.Limits.Streams) {
		d.who.calls.Add(-1)
		// The reader itself waits for room: who floods and does not read is not read either.
		d.out.put(failed(id, community.Explain(community.ErrBusy, "too many calls of this node at a time")), false)
		return nil
	}
	under := d.terms.Begin(ctx, d.limitOf(r))
	if !d.note(id, under) {
		under.Close()
		d.who.calls.Add(-1)
		return errTwice
	}
	j := job{under, id, r}
	select {
	case d.jobs <- j:
	default:
		d.running.Go(func() { d.work(j) })
	}
	return nil
}

// work serves a call, and then others while there are not too many who do.
func (d *clerk) work(j job) {
	for ok := true; ok; {
		d.serve(j)
		if d.idle.Add(1) <= maxIdle {
			j, ok = <-d.jobs
		} else {
			ok = false
		}
		d.idle.Add(-1)
	}
}

// note makes a call one that can be cancelled.
func (d *clerk) note(id uint64, under *term.Term) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls[id] != nil {
		return false
	}
	d.calls[id] = under
	return true
}

// serve answers one call. It counts until its answer is on its way.
func (d *clerk) serve(j job) {
	i := d.answer(j.ctx, j.id, j.call)
	j.ctx.Close()
	d.mu.Lock()
	delete(d.calls, j.id)
	d.mu.Unlock()
	out := d.out
	if len(i.answer.GetPayload()) > shortSize {
		if o := d.who.lanes.bulk(); o != nil {
			out = o
		}
	}
	out.put(i, d.who.calls.Load() == 1)
	d.who.calls.Add(-1)
}

func (d *clerk) answer(ctx context.Context, id uint64, r *pb.InvokeRequest) (i item) {
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Logger.Error("call panicked", "method", pb.Peer_Link_FullMethodName, "panic", p, "stack", string(debug.Stack()))
			i = failed(id, community.ErrAgentFailed)
		}
	}()
	if len(r.GetPayload()) > d.cfg.Limits.Message {
		return failed(id, community.ErrTooLarge)
	}
	reply, err := d.host.Serve(ctx, d.who.peer(), callFrom(r))
	switch {
	case err != nil:
		return failed(id, err)
	case len(reply.Data) > min(d.most, d.cfg.Limits.Message):
		return failed(id, community.ErrTooLarge)
	case len(reply.ContentType) > envelopeSize || !utf8.ValidString(reply.ContentType):
		return failed(id, community.ErrAgentFailed)
	}
	return item{answer: &pb.Answer{Id: id, Payload: reply.Data, ContentType: reply.ContentType}, size: overhead + len(reply.Data) + len(reply.ContentType)}
}

// takeSend hands a send on at once, so that they stay in order, and nobody waits for what becomes of it.
func (d *clerk) takeSend(r *pb.InvokeRequest) {
	member, capability := r.GetMember(), r.GetCapability()
	over := func(err error) {
		d.who.calls.Add(-1)
		d.receipts.over(member, capability, err)
	}
	var err error
	switch {
	case d.who.calls.Add(1) > int64(d.cfg.Limits.Streams):
		err = community.Explain(community.ErrBusy, "too many calls of this node at a time")
	case len(r.GetPayload()) > d.cfg.Limits.Message:
		err = community.ErrTooLarge
	default:
		err = d.hand(r, over)
	}
	if err != nil {
		over(err)
	}
}

// hand gives a send to the host. One that panics has not taken it.
func (d *clerk) hand(r *pb.InvokeRequest, over func(error)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Logger.Error("send panicked", "method", pb.Peer_Link_FullMethodName, "panic", p, "stack", string(debug.Stack()))
			err = community.ErrAgentFailed
		}
	}()
	return d.host.Take(d.who.peer(), callFrom(r), over)
}

func failed(id uint64, err error) item {
	f := failureTo(err)
	return item{answer: &pb.Answer{Id: id, Failure: f}, size: overhead + len(f.GetExplanation())}
}
