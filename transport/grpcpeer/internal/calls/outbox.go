package calls

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "symbio/proto/symbio/v1"
)

// outbox sends the items of one Link stream. An item that is alone is sent at once by the goroutine
// that put it, which saves a handover between goroutines. Items that arrive while a message is
// being sent are collected, and go together in the next one. So latency is low when little happens,
// and the number of messages grows slower than the load.
//
// All methods are safe for concurrent use, except run, which has one goroutine.
type outbox struct {
	send func(*pb.Frame) error // blocks while the stream is full, fails when it has ended

	// room is how many bytes may wait before put makes its caller wait too; 0 = callers are bounded
	// by something else, and never wait.
	maxWaiting int

	// since is when a caller of put began to send, in nanoseconds since made and one more; 0 = none does. A call that is alone finds the
	// stream empty, if the node has read its answers; a node that answers without reading would hold it up.
	since atomic.Int64
	made  time.Time

	mu      sync.Mutex
	work    sync.Cond // for senders: the queue has items, a send has ended, or the outbox closed
	space   sync.Cond // for callers that wait for room: one is woken, and wakes the next if there is more
	queue   []item    // guarded by mu
	bytes   int       // of queue; guarded by mu
	sending bool      // a call of send is under way; guarded by mu
	closed  bool      // guarded by mu
}

// item is a call, a send, an answer, a receipt, or the cancellation of a call.
type item struct {
	call    *pb.Call
	send    *pb.InvokeRequest
	answer  *pb.Answer
	receipt func() *pb.Receipt // as it is when it is sent
	cancel  uint64
	size    int
}

// maxFrame is how many bytes go in one message, unless one item alone has more: enough to make the cost of a
// message small, and not so many that the first item waits for the last.
const maxFrame = 64 << 10

// newOutbox returns an outbox that sends with send, which is never called concurrently. The caller
// must run run.
func newOutbox(send func(*pb.Frame) error, room int) *outbox {
	o := &outbox{send: send, maxWaiting: room, made: time.Now()}
	o.work.L, o.space.L = &o.mu, &o.mu
	return o
}

// put queues an item, or sends it before it returns if alone says that nothing else is under way.
// It blocks while maxWaiting bytes wait, if that is set. After close the item is dropped; the
// caller of close fails the calls that are left.
func (o *outbox) put(i item, alone bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.maxWaiting > 0 && o.bytes >= o.maxWaiting && !o.closed {
		o.space.Wait()
	}
	if o.closed {
		return
	}
	now := alone && !o.sending && len(o.queue) == 0
	if !now {
		o.append(i)
	}
	if o.bytes < o.maxWaiting {
		o.space.Signal()
	}
	if !now {
		return
	}
	var one pb.Frame
	pack(&one, i)
	o.since.Store(1 + int64(time.Since(o.made)))
	defer o.since.Store(0)
	o.transmit(&one)
}

// stuck returns for how long a caller of put has been sending one item.
func (o *outbox) stuck() time.Duration {
	since := o.since.Load()
	if since == 0 {
		return 0
	}
	return time.Since(o.made) - time.Duration(since-1)
}

// tryPut queues an item unless max bytes wait already or the outbox is closed; it reports whether
// it did. It never blocks.
func (o *outbox) tryPut(i item, max int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.bytes >= max {
		return false
	}
	o.append(i)
	return true
}

// putNow queues an item without a limit and without blocking. It is for items that are few and
// small, such as receipts.
func (o *outbox) putNow(i item) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.append(i)
	}
}

// append adds an item to the queue and wakes run. The caller holds o.mu.
func (o *outbox) append(i item) {
	o.queue = append(o.queue, i)
	o.bytes += i.size
	if !o.sending {
		o.work.Signal()
	}
}

// withdraw removes a call that was not sent yet, and reports whether it did. The node then never
// sees the call.
func (o *outbox) withdraw(id uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := slices.IndexFunc(o.queue, func(i item) bool { return i.call.GetId() == id })
	if at < 0 {
		return false
	}
	o.bytes -= o.queue[at].size
	o.queue = slices.Delete(o.queue, at, at+1)
	return true
}

// run sends the queued items until close. It is the only goroutine that fills frames of more than
// one item.
func (o *outbox) run() {
	o.mu.Lock()
	defer o.mu.Unlock()
	var frame pb.Frame
	for {
		for !o.closed && (o.sending || len(o.queue) == 0) {
			o.work.Wait()
		}
		if o.closed {
			return
		}
		// Other goroutines that are ready may have items, too: let them run, once. When none is ready,
		// Gosched returns at once.
		o.mu.Unlock()
		runtime.Gosched()
		o.mu.Lock()
		if o.sending || !o.fillFrame(&frame) {
			continue
		}
		o.transmit(&frame)
		clear(frame.Calls)
		clear(frame.Sends)
		clear(frame.Answers)
	}
}

// fillFrame moves items from the queue into f, up to maxFrame bytes but at least one. It returns
// false when the queue is empty. The caller holds o.mu.
func (o *outbox) fillFrame(f *pb.Frame) bool {
	f.Calls, f.Sends, f.Answers, f.Cancels, f.Receipt = f.Calls[:0], f.Sends[:0], f.Answers[:0], f.Cancels[:0], nil
	n, bytes := 0, 0
	for _, i := range o.queue {
		if n > 0 && bytes+i.size > maxFrame {
			break
		}
		pack(f, i)
		bytes += i.size
		n++
	}
	o.queue = slices.Delete(o.queue, 0, n)
	o.bytes -= bytes
	if n > 0 && o.maxWaiting > 0 {
		o.space.Signal()
	}
	return n > 0
}

// transmit sends a frame. The caller holds o.mu, which is released while the stream blocks. Its
// error is ignored: the goroutine that reads the stream gets the same one and ends the connection.
func (o *outbox) transmit(f *pb.Frame) {
	o.sending = true
	o.mu.Unlock()
	_ = o.send(f)
	o.mu.Lock()
	o.sending = false
	if len(o.queue) > 0 || o.closed {
		o.work.Broadcast()
	}
}

// close drops the queue, wakes everything that waits, and returns when no send is in progress. The
// stream must have ended, or be about to, because a send in progress is not interrupted.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.queue, o.bytes = nil, 0
	o.work.Broadcast()
	o.space.Broadcast()
	for o.sending {
		o.work.Wait()
	}
}

// pack adds an item to a frame. A receipt is made now, so that it has everything that ended until
// it is sent.
func pack(f *pb.Frame, i item) {
	switch {
	case i.call != nil:
		f.Calls = append(f.Calls, i.call)
	case i.send != nil:
		f.Sends = append(f.Sends, i.send)
	case i.receipt != nil:
		f.Receipt = i.receipt()
	case i.answer != nil:
		f.Answers = append(f.Answers, i.answer)
	default:
		f.Cancels = append(f.Cancels, i.cancel)
	}
}
