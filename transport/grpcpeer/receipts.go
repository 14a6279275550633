package grpcpeer

import (
	"sync"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// maxKinds is how many kinds of undelivered sends one receipt tells apart, and nameRoom how many bytes of
// each name it repeats.
const (
	maxKinds = 32
	nameRoom = 128
)

// receipts gathers what became of the sends of one lane, for one receipt at a time: who sends without
// end to whom nobody reads cannot make it grow.
type receipts struct {
	out *outbox

	mu  sync.Mutex
	now *pb.Receipt // nil when the last one is on its way; guarded by mu
}

// over notes the end of a send. It does not block: actors call it.
func (r *receipts) over(member, capability string, err error) {
	r.mu.Lock()
	first := r.now == nil
	if first {
		r.now = &pb.Receipt{}
	}
	r.now.Over++
	if err != nil {
		r.note(member, capability, failureTo(err))
	}
	r.mu.Unlock()
	if first {
		r.out.add(item{receipt: r.take, size: overhead})
	}
}

// note needs r.mu.
func (r *receipts) note(member, capability string, f *pb.Failure) {
	if len(member) > nameRoom || len(capability) > nameRoom || len(r.now.Undelivered) >= maxKinds {
		member, capability = "", ""
	}
	for _, u := range r.now.Undelivered {
		if u.Member == member && u.Capability == capability && u.Failure.Reason == f.Reason {
			u.Count++
			return
		}
	}
	r.now.Undelivered = append(r.now.Undelivered, &pb.Undelivered{Member: member, Capability: capability, Failure: f, Count: 1})
}

// take is called when the receipt is sent.
func (r *receipts) take() *pb.Receipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now
	r.now = nil
	return now
}

// tell puts a send on its way. Room for it there is while few enough are on their way to the node, and
// little enough waits here.
func (p *fastpath) tell(call community.Call, size int) error {
	if len(call.Payload) > p.most {
		return community.ErrTooLarge
	}
	r := requestTo(call, 0)
	r.Deadline = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		return community.ErrUnavailable
	}
	// One lane for all of them, so that they stay in order, and the one on which nobody hurries.
	if p.told >= p.sends || !p.lanes[bulk].offer(item{send: r, size: len(call.Payload) + size}, unsent) {
		return community.ErrBusy
	}
	p.told++
	return nil
}

// unsent is how many bytes of sends may wait for the stream: enough to keep it busy for as long as
// somebody who was refused waits before trying again.
const unsent = 1 << 20

// settle makes room for further sends, and reports those that came to nothing. What a node says
// beyond what was sent is nothing.
func (p *fastpath) settle(r *pb.Receipt) {
	p.mu.Lock()
	over := min(r.GetOver(), uint64(p.told))
	p.told -= int(over)
	p.mu.Unlock()
	for _, u := range r.GetUndelivered() {
		n := min(u.GetCount(), over)
		over -= n
		p.report(community.Undelivered{Member: community.MemberID(u.GetMember()), Perception: u.GetCapability(), Count: n, Err: fromFailure(u.GetFailure())})
	}
}
