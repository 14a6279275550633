package calls

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/community"
	"symbio/internal/actor/term"
	pb "symbio/proto/symbio/v1"
)

// maxUnread is how many bytes of answers may wait for a node to read them. Beyond it the calls wait, and so
// their number keeps the node from sending more.
const maxUnread = 256 << 10

// Link serves one lane of a connection until the caller ends the stream or breaks the protocol. The
// first frame says which lane it is. It returns ErrBusy for a lane that is open already.
func (s *Server) Link(stream grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error {
	remote, ok := s.Caller(stream.Context())
	if !ok {
		return ToStatus(community.ErrDenied)
	}
	frame, err := stream.Recv()
	if err != nil {
		return err
	}
	number := short
	if frame.GetOpen().GetBulk() {
		number = bulk
	}
	out := newOutbox(stream.Send, maxUnread)
	conn := remote.Connection()
	if !conn.attach(number, out) {
		return ToStatus(community.ErrBusy)
	}
	l := &lane{server: s, caller: remote, conn: conn, number: number, out: out, receipts: receipts{out: out},
		maxReply: min(MessageSize(frame.GetOpen().GetMaxMessage()), s.MaxMessage), calls: map[uint64]*term.Term{}, jobs: make(chan job)}
	ctx, cancel := context.WithCancel(stream.Context())
	l.running.Go(out.run)
	defer l.close(cancel)
	for {
		if err := l.handleFrame(ctx, frame); err != nil {
			return err
		}
		if frame, err = stream.Recv(); err != nil {
			return err
		}
	}
}

// lane is the serving side of one Link stream. One goroutine reads the stream (Link), one writes it
// (outbox.run), and workers serve calls.
type lane struct {
	server   *Server
	caller   Caller
	conn     *Connection
	number   int
	out      *outbox
	maxReply int // bytes of a payload that the caller and this node take
	running  sync.WaitGroup
	receipts receipts     // outlives the lane while agents have signals that came over it
	terms    term.Set     // of the calls
	jobs     chan job     // to idle workers
	idle     atomic.Int32 // workers

	mu    sync.Mutex
	calls map[uint64]*term.Term // under way; guarded by mu
}

// job is one call for a worker.
type job struct {
	ctx  *term.Term
	id   uint64
	call *pb.InvokeRequest
}

// maxIdle is how many workers of a lane stay for the next call, 8 KiB each. A fresh goroutine would have to grow its stack
// first, which costs more than the call.
const maxIdle = 1024

// close cancels the calls of the lane and returns when they have ended. Nothing is sent on the
// stream afterwards, as gRPC requires of a handler that returns.
func (l *lane) close(cancel context.CancelFunc) {
	cancel()
	l.terms.End(context.Canceled)
	close(l.jobs)
	l.conn.detach(l.number)
	l.out.close()
	l.running.Wait()
}

// handleFrame starts the calls and sends of a frame, and then applies its cancellations. An error
// ends the lane.
func (l *lane) handleFrame(ctx context.Context, f *pb.Frame) error {
	for _, c := range f.GetCalls() {
		if err := l.begin(ctx, c); err != nil {
			return err
		}
	}
	for _, r := range f.GetSends() {
		l.handleSend(r)
	}
	if len(f.GetCancels()) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range f.GetCancels() {
		if call := l.calls[id]; call != nil {
			call.End(context.Canceled)
		}
	}
	return nil
}

var errDuplicateID = status.Error(codes.InvalidArgument, "two calls under way have one id")

// begin starts one call on an idle worker or a new one. Over Server.MaxCalls it answers ErrBusy;
// then the reading goroutine itself waits for room in the outbox, so that a node that floods and
// does not read is not read either. A repeated id ends the lane.
func (l *lane) begin(ctx context.Context, c *pb.Call) error {
	id, r := c.GetId(), c.GetRequest()
	if l.conn.calls.Add(1) > int64(l.server.MaxCalls) {
		l.conn.calls.Add(-1)
		// The reader itself waits for room: a node that floods and does not read is not read either.
		l.out.put(failed(id, l.server.busy()), false)
		return nil
	}
	call := l.terms.Begin(ctx, l.server.deadline(r))
	if !l.register(id, call) {
		call.Close()
		l.conn.calls.Add(-1)
		return errDuplicateID
	}
	j := job{call, id, r}
	select {
	case l.jobs <- j:
	default:
		l.running.Go(func() { l.work(j) })
	}
	return nil
}

// work is a worker: it serves j and then waits for further calls, unless maxIdle workers wait
// already.
func (l *lane) work(j job) {
	for ok := true; ok; {
		l.respond(j)
		if l.idle.Add(1) <= maxIdle {
			j, ok = <-l.jobs
		} else {
			ok = false
		}
		l.idle.Add(-1)
	}
}

// register makes a call cancelable by its id. It returns false when a call with that id is in
// progress.
func (l *lane) register(id uint64, call *term.Term) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[id] != nil {
		return false
	}
	l.calls[id] = call
	return true
}

// respond serves one call and queues the answer, a long one on the bulk lane. The call counts
// against MaxCalls until its answer is queued.
func (l *lane) respond(j job) {
	i := l.result(j)
	j.ctx.Close()
	l.mu.Lock()
	delete(l.calls, j.id)
	l.mu.Unlock()
	out := l.out
	if len(i.answer.GetPayload()) > shortSize {
		if o := l.conn.bulk(); o != nil {
			out = o
		}
	}
	out.put(i, l.conn.calls.Load() == 1)
	l.conn.calls.Add(-1)
}

// result returns the answer of one call. A panic in the host becomes ErrAgentFailed.
func (l *lane) result(j job) (i item) {
	defer func() {
		if p := recover(); p != nil {
			i = failed(j.id, l.panicked("call panicked", p))
		}
	}()
	reply, err := l.server.serve(j.ctx, l.caller, callFrom(j.call), l.maxReply)
	if err != nil {
		return failed(j.id, err)
	}
	return item{answer: &pb.Answer{Id: j.id, Payload: reply.Data, ContentType: reply.ContentType}, size: overhead + len(reply.Data) + len(reply.ContentType)}
}

// handleSend passes a one-way send to the host in the reading goroutine, which keeps sends in
// order, and does not wait until it is handled.
func (l *lane) handleSend(r *pb.InvokeRequest) {
	member, capability := r.GetMember(), r.GetCapability()
	finish := func(err error) {
		l.conn.calls.Add(-1)
		l.receipts.add(member, capability, err)
	}
	if l.conn.calls.Add(1) > int64(l.server.MaxCalls) {
		finish(l.server.busy())
	} else if err := l.deliver(r, finish); err != nil {
		finish(err)
	}
}

// deliver calls Host.ServeTell. If that panics, the send counts as not accepted.
func (l *lane) deliver(r *pb.InvokeRequest, finish func(error)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = l.panicked("send panicked", p)
		}
	}()
	return l.server.Host.ServeTell(l.caller.From(), callFrom(r), finish)
}

// panicked logs a panic and returns the error for the other node, which says nothing of its cause.
func (l *lane) panicked(what string, p any) error {
	l.server.Logger.Error(what, "method", pb.Peer_Link_FullMethodName, "panic", p, "stack", string(debug.Stack()))
	return community.ErrAgentFailed
}

// failed returns an answer item with an error.
func failed(id uint64, err error) item {
	f := failureTo(err)
	return item{answer: &pb.Answer{Id: id, Failure: f}, size: overhead + len(f.GetExplanation())}
}
