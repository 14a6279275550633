package community

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Reason says which limit or check refused a call of another node.
type Reason string

// The reasons.
const (
	RefusedRate       Reason = "rate"            // too many calls in a short time: ErrBusy
	RefusedSize       Reason = "too large"       // the payload, the reply or the chain of requesters: ErrTooLarge
	RefusedDenied     Reason = "denied"          // by Config.Authorize: ErrDenied
	RefusedNode       Reason = "busy node"       // too many calls of that node at a time: ErrBusy
	RefusedAgent      Reason = "busy agent"      // too many calls for one agent, or its mailbox is full: ErrBusy
	RefusedCapability Reason = "busy capability" // more calls than WithConcurrency lets in: ErrBusy
	RefusedInvalid    Reason = "invalid"         // the input does not fit its schema: ErrInvalid
)

// Refusals counts refused calls by the reason; a reason that is not there has refused none.
type Refusals map[Reason]uint64

// Total is all of them.
func (r Refusals) Total() (n uint64) {
	for _, of := range r {
		n += of
	}
	return n
}

// Refusal is a call that was refused here, for Config.Refused.
type Refusal struct {
	From   Peer
	Call   Call // without its payload
	Reason Reason
	Err    error // why; for this node only
	// Omitted is how many refusals of the same peer were counted since the last that was told, but
	// not told: who knocks a thousand times fills no log.
	Omitted uint64
}

const (
	toldBurst = 20          // refusals of one peer that are told at once
	toldEach  = time.Second // and then one in this time
	// maxVisitors is how many nodes are remembered as callers; beyond that the one longest idle is
	// forgotten.
	maxVisitors = 2 * maxNodes
)

// traffic is who calls, and how much.
type traffic struct {
	limit rate.Limit
	burst int

	mu    sync.Mutex
	from  map[NodeID]*visitor // guarded by mu
	total Refusals            // of all that ever called; guarded by mu
}

// visitor is a node that has called. All is guarded by traffic.mu.
type visitor struct {
	flying  int // calls under way
	last    time.Time
	calls   *rate.Limiter
	told    *rate.Limiter
	refused Refusals
	omitted uint64
}

func newTraffic(cfg Config) *traffic {
	return &traffic{limit: cfg.CallRate, burst: cfg.CallBurst, from: map[NodeID]*visitor{}, total: Refusals{}}
}

// arrive notes a call, and tells whether the rate allows it. The visitor is nil when there are too many
// of them, all with calls under way.
func (t *traffic) arrive(id NodeID) (*visitor, bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.from[id]
	if v == nil {
		if len(t.from) >= maxVisitors && !t.forgetOne() {
			return nil, false
		}
		v = &visitor{calls: rate.NewLimiter(t.limit, t.burst), told: rate.NewLimiter(rate.Every(toldEach), toldBurst), refused: Refusals{}}
		t.from[id] = v
	}
	v.last = now
	return v, v.calls.AllowN(now, 1)
}

// forgetOne forgets the visitor that has been idle for longest. It needs t.mu.
func (t *traffic) forgetOne() bool {
	var oldest NodeID
	for id, v := range t.from {
		if v.flying == 0 && (oldest == "" || v.last.Before(t.from[oldest].last)) {
			oldest = id
		}
	}
	delete(t.from, oldest)
	return oldest != ""
}

func (t *traffic) enter(v *visitor, limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v.flying >= limit {
		return false
	}
	v.flying++
	return true
}

func (t *traffic) leave(v *visitor) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v.flying--
}

// refuse counts a refusal, and says whether it is to be told, and how many before it were not.
func (t *traffic) refuse(v *visitor, why Reason) (omitted uint64, tell bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total[why]++
	if v == nil {
		return 0, false
	}
	v.refused[why]++
	if !v.told.Allow() {
		v.omitted++
		return 0, false
	}
	omitted, v.omitted = v.omitted, 0
	return omitted, true
}

// inbound is a call on its way to whom it is for.
type inbound struct {
	c       *Community
	from    Peer
	call    Call
	visitor *visitor
}

// refuse counts and tells that the call is refused, and returns answer, which is what the peer hears.
func (in *inbound) refuse(why Reason, err, answer error) error {
	omitted, tell := in.c.calls.refuse(in.visitor, why)
	if !tell {
		return answer
	}
	call := in.call
	call.Payload, call.Listen = nil, nil
	in.c.cfg.Logger.Warn("call refused", "node", in.from.ID, "reason", why, "member", printable(string(call.Member)),
		"capability", printable(call.Capability), "trace", call.Trace.String(), "err", err, "omitted", omitted)
	if in.c.cfg.Refused != nil {
		in.c.cfg.Refused(Refusal{From: in.from, Call: call, Reason: why, Err: err, Omitted: omitted})
	}
	return answer
}

// Refusals returns how many calls of a node were refused here; of this node's own id, of all nodes
// together. A node that has not called for long may be forgotten when very many call.
func (c *Community) Refusals(node NodeID) Refusals {
	c.calls.mu.Lock()
	defer c.calls.mu.Unlock()
	if node == c.cfg.Node {
		return maps.Clone(c.calls.total)
	}
	if v := c.calls.from[node]; v != nil {
		return maps.Clone(v.refused)
	}
	return Refusals{}
}
