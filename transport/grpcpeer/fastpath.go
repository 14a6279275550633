package grpcpeer

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/actor/term"
	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// linkMinor is the minor version of the protocol since which nodes speak Link.
const linkMinor = 1

// Lanes are the Link streams of a connection. Each has a window of its own, and gRPC sends from all of
// them in turn, 16 KiB at a time.
const (
	short = iota
	bulk
	lanes
)

const (
	// shortSize is what a payload may have to go over the short lane, in bytes: one of HTTP/2's frames.
	shortSize = 16 << 10
	// envelopeSize is what a call or an answer may have besides its payload to go over a lane.
	envelopeSize = 16 << 10
	// overhead is what a call or an answer costs besides its strings and payload, about.
	overhead = 64
)

// fastpath is the calling side of the Link streams of one link: calls of many callers, by id.
type fastpath struct {
	calls int // at a time
	most  int // bytes of a payload that the node takes
	sends int // at a time; 0 = the node takes none
	// report is told of sends that came to nothing.
	report func(community.Undelivered)
	lanes  [lanes]*outbox
	loops  sync.WaitGroup
	// broken ends when a lane has, and with it all calls.
	broken context.Context
	lose   context.CancelCauseFunc

	mu sync.Mutex
	// waiting holds the calls that are not answered, whether their callers still wait or not: the node
	// works on them. nil when a lane has ended. guarded by mu
	waiting map[uint64]chan *pb.Answer // capacity 1; nil comes when the lane has ended
	last    uint64                     // id; guarded by mu
	told    int                        // sends of which the node has not said that they are over; guarded by mu
}

var errStuck = fmt.Errorf("%w: it answers calls that it has not read", errForbidden)

var errNoLink = fmt.Errorf("%w: it says it speaks Link and does not", errForbidden)

// openFastpath opens both lanes, by the end of ctx. node is what the node says it takes.
func openFastpath(ctx context.Context, client pb.PeerClient, limits Limits, node *pb.NodeDescriptor, report func(community.Undelivered)) (*fastpath, error) {
	p := &fastpath{calls: limits.Calls, most: messageSize(node.GetMaxMessage()), waiting: map[uint64]chan *pb.Answer{},
		sends: int(min(uint64(limits.Calls), node.GetMaxSends())), report: report}
	p.broken, p.lose = context.WithCancelCause(context.Background())
	// A node may let no more streams begin; that must not hold up more than this link.
	defer context.AfterFunc(ctx, func() { p.lose(context.Cause(ctx)) })()
	for lane := range p.lanes {
		stream, err := client.Link(p.broken, grpc.ForceCodecV2(newCodec()))
		if err == nil {
			err = stream.Send(&pb.Frame{Open: &pb.Open{Bulk: lane == bulk, MaxMessage: uint64(limits.Message)}})
		}
		if err != nil {
			p.close()
			return nil, fmt.Errorf("open the fast path: %w", err)
		}
		out := newOutbox(stream.Send, 0)
		out.stuck = time.AfterFunc(time.Hour, func() { p.end(errStuck) })
		out.stuck.Stop()
		p.lanes[lane] = out
		p.loops.Go(out.run)
		p.loops.Go(func() { p.receive(stream) })
	}
	return p, nil
}

// messageSize is the limit that a node announced.
func messageSize(announced uint64) int {
	if announced == 0 {
		return 1 << 20
	}
	return int(min(announced, 1<<30))
}

// close fails what is under way and returns when the lanes' goroutines have ended.
func (p *fastpath) close() {
	p.end(errBroken)
	for _, out := range p.lanes {
		if out != nil {
			out.close()
		}
	}
	p.loops.Wait()
}

// end ends both lanes and fails every call.
func (p *fastpath) end(why error) {
	p.lose(why)
	p.mu.Lock()
	all, told := p.waiting, p.told
	p.waiting, p.told = nil, 0
	p.mu.Unlock()
	for _, w := range all {
		w <- nil
	}
	if told > 0 {
		p.report(community.Undelivered{Count: uint64(told), Err: community.ErrUnavailable})
	}
}

// receive hands answers to who waits for them, until the stream ends.
func (p *fastpath) receive(stream grpc.BidiStreamingClient[pb.Frame, pb.Frame]) {
	for {
		f, err := stream.Recv()
		if err != nil {
			if status.Code(err) == codes.Unimplemented {
				p.end(errNoLink)
			}
			p.end(errBroken)
			return
		}
		p.deliver(f.GetAnswers())
		if r := f.GetReceipt(); r != nil {
			p.settle(r)
		}
	}
}

// deliver ends calls. An answer that nobody asked for, or a second one, is nothing.
func (p *fastpath) deliver(answers []*pb.Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range answers {
		if w := p.waiting[a.GetId()]; w != nil {
			delete(p.waiting, a.GetId())
			w <- a
		}
	}
}

// envelope is the size of what a call has besides its payload, and whether it can go over a lane. A
// call that cannot goes by itself, where it cannot break the lane for others.
func envelope(c community.Call) (size int, ok bool) {
	size = overhead + len(c.ID) + len(c.Member) + len(c.Capability) + len(c.ContentType) + len(c.OnBehalf)
	ok = utf8.ValidString(c.ID) && utf8.ValidString(string(c.Member)) && utf8.ValidString(c.Capability) && utf8.ValidString(c.ContentType)
	for _, s := range c.Requester {
		size += len(s) + 2
		ok = ok && utf8.ValidString(s)
	}
	return size, ok && size <= envelopeSize
}

// invoke carries one call whose envelope has a size.
func (p *fastpath) invoke(ctx context.Context, call community.Call, size int) (*pb.Answer, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if len(call.Payload) > p.most {
		return nil, community.ErrTooLarge
	}
	id, w, alone, err := p.enter()
	if err != nil {
		return nil, err
	}
	at, _ := ctx.Deadline()
	out := p.lanes[short]
	if len(call.Payload) > shortSize {
		out = p.lanes[bulk]
	}
	out.put(item{call: &pb.Call{Id: id, Request: requestTo(call, time.Until(at))}, size: len(call.Payload) + size}, alone)
	asker, late := term.Ends(ctx)
	select {
	case a := <-w:
		if a == nil {
			return nil, community.ErrUnavailable
		}
		return a, nil
	case <-asker:
	case <-late:
	}
	p.abandon(id, out)
	return nil, context.Cause(ctx)
}

// enter counts a call in. alone: no other one is under way, so that nothing sent before is waiting to
// get through either.
func (p *fastpath) enter() (id uint64, w chan *pb.Answer, alone bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.waiting == nil:
		return 0, nil, false, community.ErrUnavailable
	case len(p.waiting) >= p.calls:
		return 0, nil, false, community.ErrBusy
	}
	p.last++
	w = make(chan *pb.Answer, 1)
	p.waiting[p.last] = w
	return p.last, w, len(p.waiting) == 1, nil
}

// abandon tells the node that nobody waits any more. The call counts until the node has answered it;
// one that the node has not been told of ends here.
func (p *fastpath) abandon(id uint64, out *outbox) {
	if !out.withdraw(id) {
		out.put(item{cancel: id, size: overhead}, false)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, id)
}
