package calls

import (
	"sync"

	pb "symbio/proto/symbio/v1"
)

const (
	maxKinds   = 32  // of undelivered sends in one receipt
	maxKindLen = 128 // bytes of each name that a receipt repeats
)

// receipts collects the ends of one-way sends that came over one lane, and acknowledges them in as
// few messages as possible: at most one receipt waits at a time, and what ends meanwhile is added
// to it. So it stays small for a node that sends without end and reads no receipts. It is safe for
// concurrent use.
type receipts struct {
	out *outbox

	mu  sync.Mutex
	now *pb.Receipt // nil when the last one is on its way; guarded by mu
}

// add records the end of one send; err is nil when it was handled. It does not block, because
// actors call it.
func (r *receipts) add(member, capability string, err error) {
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
		r.out.putNow(item{receipt: r.drain, size: overhead})
	}
}

// note counts a failed send under its member, capability and reason. Sends that exceed the limits
// of a receipt are counted without their names. The caller holds r.mu.
func (r *receipts) note(member, capability string, f *pb.Failure) {
	if len(member) > maxKindLen || len(capability) > maxKindLen || len(r.now.Undelivered) >= maxKinds {
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

// drain returns the collected receipt and starts a new one. The outbox calls it when the receipt is
// about to be sent.
func (r *receipts) drain() *pb.Receipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now
	r.now = nil
	return now
}
