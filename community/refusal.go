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
	RefusedRate       Reason = "rate"            // too many refused calls in a short time: ErrBusy
	RefusedSize       Reason = "too large"       // the payload, the reply or the chain of requesters: ErrTooLarge
	RefusedDenied     Reason = "denied"          // by Config.Authorize: ErrDenied
	RefusedUndecided  Reason = "not decided"     // Config.Authorize cannot decide now: ErrUnavailable
	RefusedNode       Reason = "busy node"       // too many calls of that node, or of all, at a time: ErrBusy
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
	// Omitted is how many refusals of the same peer were counted since the last that was reported, but
	// not reported, so that a peer that calls a thousand times does not fill a log.
	Omitted uint64
}

const (
	reportBurst = 20          // refusals of one peer that are reported at once
	reportEach  = time.Second // and then one in this time
	// maxCallers is how many nodes are remembered as callers; beyond that the one longest idle is
	// forgotten.
	maxCallers = 2 * maxNodes
)

// traffic counts the calls of other nodes, by node.
type traffic struct {
	cfg *Config

	mu     sync.Mutex
	from   map[NodeID]*caller // guarded by mu
	active int                // calls of all under way; guarded by mu
	total  Refusals           // of all that ever called; guarded by mu
}

// caller is a node that has called. All is guarded by traffic.mu.
type caller struct {
	active   int // calls under way
	last     time.Time
	denials  *rate.Limiter
	reported *rate.Limiter
	refused  Refusals
	omitted  uint64
}

func newTraffic(cfg *Config) *traffic {
	return &traffic{cfg: cfg, from: map[NodeID]*caller{}, total: Refusals{}}
}

// arrive notes a call. The caller is nil when there are too many of them, all with calls under way.
func (t *traffic) arrive(id NodeID) *caller {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.from[id]
	if v == nil {
		if len(t.from) >= maxCallers && !t.forgetOne() {
			return nil
		}
		v = &caller{denials: rate.NewLimiter(t.cfg.RefusalRate, t.cfg.RefusalBurst), reported: rate.NewLimiter(rate.Every(reportEach), reportBurst), refused: Refusals{}}
		t.from[id] = v
	}
	v.last = now
	return v
}

// deny reports whether the rate lets one more call of v be denied, and counts it.
func (t *traffic) deny(v *caller) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return v.denials.Allow()
}

// forgetOne forgets the caller that has been idle for longest. It needs t.mu.
func (t *traffic) forgetOne() bool {
	var oldest NodeID
	for id, v := range t.from {
		if v.active == 0 && (oldest == "" || v.last.Before(t.from[oldest].last)) {
			oldest = id
		}
	}
	delete(t.from, oldest)
	return oldest != ""
}

// acquire takes one of limit places for a call that is allowed, unless v has as many as are free.
func (t *traffic) acquire(v *caller, limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v.active >= limit-t.active {
		return false
	}
	v.active++
	t.active++
	return true
}

func (t *traffic) release(v *caller) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v.active--
	t.active--
}

// refuse counts a refusal, and says whether to report it, and how many before it were not.
func (t *traffic) refuse(v *caller, why Reason) (omitted uint64, report bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total[why]++
	if v == nil {
		return 0, false
	}
	v.refused[why]++
	if !v.reported.Allow() {
		v.omitted++
		return 0, false
	}
	omitted, v.omitted = v.omitted, 0
	return omitted, true
}

// refuse counts and reports that the call is refused, and returns err.
func (c *inboundCall) refuse(why Reason, err error) error {
	omitted, report := c.traffic.refuse(c.caller, why)
	if !report {
		return err
	}
	call := c.withoutPayload()
	c.cfg.Logger.Warn("call refused", "node", c.from.ID, "reason", why, "member", printable(string(call.Member)),
		"capability", printable(call.Capability), "trace", call.Trace.String(), "omitted", omitted)
	if c.cfg.Refused != nil {
		c.cfg.Refused(Refusal{From: c.from, Call: call, Reason: why, Err: err, Omitted: omitted})
	}
	return err
}

// Refusals returns how many calls of a node were refused here; of this node's own id, of all nodes
// together. A node that has not called for long may be forgotten when very many call.
func (t *traffic) Refusals(node NodeID) Refusals {
	t.mu.Lock()
	defer t.mu.Unlock()
	if node == t.cfg.Node {
		return maps.Clone(t.total)
	}
	if v := t.from[node]; v != nil {
		return maps.Clone(v.refused)
	}
	return Refusals{}
}
