package community

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Reason is the limit or check that refused a call of another node.
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

// Refusals counts refused calls by reason.
type Refusals map[Reason]uint64

// Total returns the sum of all reasons.
func (r Refusals) Total() (n uint64) {
	for _, of := range r {
		n += of
	}
	return n
}

// Refusal is a call that this node refused, for Config.OnRefused.
type Refusal struct {
	From   Peer
	Call   Call // without its payload
	Reason Reason
	Err    error // why; for this node only
	// Omitted is how many refusals of the same peer were counted but not reported since the last report. A peer
	// that calls a thousand times therefore does not fill a log.
	Omitted uint64
}

const (
	reportBurst    = 20          // refusals of one peer that are reported at once
	reportInterval = time.Second // and then one in this time
	// maxCallers is how many nodes are remembered as callers; beyond that the one longest idle is
	// forgotten.
	maxCallers = 2 * maxNodes
)

// traffic counts and limits the calls of other nodes, per node.
type traffic struct {
	cfg *Config

	mu     sync.Mutex
	from   map[NodeID]*caller // guarded by mu
	active int                // calls of all under way; guarded by mu
	total  Refusals           // of all that ever called; guarded by mu
}

// caller is a node that has called. All fields are guarded by traffic.mu.
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

// callerOf returns the record of a node and notes its call. It returns nil if there are too many nodes, all with
// active calls.
func (t *traffic) callerOf(id NodeID) *caller {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.from[id]
	if v == nil {
		if len(t.from) >= maxCallers && !t.forgetOne() {
			return nil
		}
		v = &caller{denials: rate.NewLimiter(t.cfg.RefusalRate, t.cfg.RefusalBurst),
			reported: rate.NewLimiter(rate.Every(reportInterval), reportBurst), refused: Refusals{}}
		t.from[id] = v
	}
	v.last = now
	return v
}

// allowDenial counts a denied call and reports whether the peer is still below the rate of denied calls.
func (t *traffic) allowDenial(v *caller) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return v.denials.Allow()
}

// forgetOne removes the caller that has been idle for longest. The caller must hold t.mu.
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

// acquire takes one of limit places for an allowed call. It returns false if v has as many places as are free, so
// that one node gets at most half of them. On success the caller must call release.
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

// release frees the place of a call that has ended.
func (t *traffic) release(v *caller) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v.active--
	t.active--
}

// refuse counts a refusal. report is whether to report it, and omitted how many were not reported before.
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

// refuse counts and reports the refusal of the call, and returns err.
func (c *inboundCall) refuse(why Reason, err error) error {
	omitted, report := c.traffic.refuse(c.caller, why)
	if !report {
		return err
	}
	call := c.withoutPayload()
	c.cfg.Logger.Warn("call refused", "node", c.from.ID, "reason", why, "member", printable(string(call.Member)),
		"capability", printable(call.Capability), "trace", call.Trace.String(), "omitted", omitted)
	if c.cfg.OnRefused != nil {
		c.cfg.OnRefused(Refusal{From: c.from, Call: call, Reason: why, Err: err, Omitted: omitted})
	}
	return err
}

// Refusals returns how many calls of a node this node refused; for its own id, the calls of all nodes. The counts of a
// node can be dropped when it has not called for long and very many others do.
func (c *Community) Refusals(node NodeID) Refusals {
	c.inbound.mu.Lock()
	defer c.inbound.mu.Unlock()
	if node == c.cfg.Node {
		return maps.Clone(c.inbound.total)
	}
	if v := c.inbound.from[node]; v != nil {
		return maps.Clone(v.refused)
	}
	return Refusals{}
}
