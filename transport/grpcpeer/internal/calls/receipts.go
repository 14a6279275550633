package calls

import (
	"sync"

	pb "symbio/proto/symbio/v1"
)

const (
	maxKinds   = 32  // of undelivered sends in one receipt
	maxKindLen = 128 // bytes of each name that a receipt repeats
)

// receipts counts the sends of one lane that have ended, for one receipt at a time. It stays small for a node
// that sends without end and reads no receipts.
type receipts struct {
	out *outbox

	mu  sync.Mutex
	now *pb.Receipt // nil when the last one is on its way; guarded by mu
}

// add counts the end of a send. It does not block: actors call it.
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

// note needs r.mu.
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

// drain returns the receipt when it is sent.
func (r *receipts) drain() *pb.Receipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now
	r.now = nil
	return now
}
