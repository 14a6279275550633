package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// KindInbound is the Kind of an Entry about a call from another node.
const KindInbound = "inbound"

// Inbound is a decision about a call from another node, with its subject.
type Inbound struct {
	// Peer is the id of the calling node, as its certificate proves it. Name is what that node
	// calls itself; it proves nothing.
	Peer, Name string
	// Verb is "invoke" for a capability or "send" for a perception; What is its name. Member is the
	// id of the receiver, "" for the node itself.
	Verb, What, Member string
	// Requester is the chain on whose behalf the peer says that it calls, the origin first.
	Requester []string
	Allowed   bool
	// Stage, Rule and Why come from the verdict on the call.
	Stage, Rule, Why string
}

// CallsConfig sets up Calls.
type CallsConfig struct {
	// Node is this node's id.
	Node string
	// Append writes a record: Log.Append. Without one no call may be allowed.
	Append func(Entry) error
	// Told is called with each record after it was written. It must not block or call methods of
	// the Calls. Default: none.
	Told func(Entry)
	// Window is how long calls that repeat a recorded one are only counted. Default a minute: a
	// peer that calls all the time then costs one record a minute for each thing that it does, a
	// megabyte a day.
	Window time.Duration
	// Allowed and Refused are the most different calls of one peer that have records of their own
	// in a Window; all others are counted together. Defaults 128 and 32: more than a node has to
	// say to another in a minute. A peer that makes each call look different fills 200 KiB a minute
	// at most.
	Allowed, Refused int
}

// Calls records decisions about calls from other nodes. The first of each kind has a record before
// Note returns; repetitions are counted, and the count is recorded at the end of the window. So
// every decision is in the record, and a flood of calls does not fill the disk. Make it with
// NewCalls. All methods may be called from many goroutines; they wait for each other while one
// writes a record.
type Calls struct {
	cfg CallsConfig

	mu sync.Mutex
	// kinds has an entry for each kind that has a record and was seen in this or the last window;
	// guarded by mu.
	kinds map[kind]*repeats
	// peers counts the entries of kinds of each peer, those for others left out; guarded by mu.
	peers map[of]int
	// owed is why the last counts could not be recorded; guarded by mu. While it is set, Note tries
	// again first and refuses calls.
	owed error
}

// kind is what calls have in common that are counted together. It is comparable, for use as a key
// of a map.
type kind struct {
	of
	// requester joins Inbound.Requester with line breaks.
	verb, what, member, requester string
	rule                          string
	// others stands for all calls of a peer that were too many or too long to tell apart; the other
	// fields are then empty.
	others bool
}

// of is a peer and whether its calls were allowed; each of the two has its own limit, so that
// refused calls cannot use up the records of allowed ones.
type of struct {
	peer    string
	allowed bool
}

// repeats counts the calls of a kind since its last record. first and last are when the counted
// calls came.
type repeats struct {
	call        Inbound
	count       uint64
	first, last time.Time
}

// maxKind is the most bytes of What, Member, Rule and Requester in all that make a kind of their
// own. Longer calls are counted together, so that a peer cannot fill the memory with names.
const maxKind = 1 << 10

// NewCalls returns Calls with defaults filled in. Run, or Flush from time to time, must be
// called, or counts stay unwritten.
func NewCalls(cfg CallsConfig) *Calls {
	if cfg.Window <= 0 {
		cfg.Window = time.Minute
	}
	if cfg.Allowed <= 0 {
		cfg.Allowed = 128
	}
	if cfg.Refused <= 0 {
		cfg.Refused = 32
	}
	if cfg.Told == nil {
		cfg.Told = func(Entry) {}
	}
	return &Calls{cfg: cfg, kinds: map[kind]*repeats{}, peers: map[of]int{}}
}

// Note records a decision or counts it. If it returns an error, the call must be refused, even
// if the decision was to allow it: an allowed call without a record could not be found later.
// The first call of a kind blocks for a write to the file.
func (c *Calls) Note(in Inbound) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cfg.Append == nil {
		return errors.New("calls of other nodes: there is nowhere to record them")
	}
	if c.owed != nil {
		if err := c.flush(); err != nil {
			return err
		}
	}
	k := kindOf(in)
	r := c.kinds[k]
	if r == nil && !k.others && c.peers[k.of] >= c.most(k.allowed) {
		k = kind{of: k.of, others: true}
		r = c.kinds[k]
	}
	if r != nil {
		now := time.Now()
		if r.count++; r.count == 1 {
			r.first = now
		}
		r.last = now
		return nil
	}
	if k.others {
		in = in.together()
	}
	if err := c.write(in, repeats{}); err != nil {
		return err
	}
	c.kinds[k] = &repeats{call: in}
	if !k.others {
		c.peers[k.of]++
	}
	return nil
}

// most returns how many kinds of one peer have records of their own.
func (c *Calls) most(allowed bool) int {
	if allowed {
		return c.cfg.Allowed
	}
	return c.cfg.Refused
}

// kindOf returns the kind of a call. Calls that differ in Name, Stage or Why only are of one kind.
// A call whose words have more than maxKind bytes in all is of the kind others.
func kindOf(in Inbound) kind {
	k := kind{of: of{in.Peer, in.Allowed}, verb: in.Verb, what: in.What, member: in.Member, rule: in.Rule}
	long := len(in.What) + len(in.Member) + len(in.Rule)
	for _, r := range in.Requester {
		long += len(r)
	}
	if long > maxKind {
		return kind{of: k.of, others: true}
	}
	k.requester = strings.Join(in.Requester, "\n")
	return k
}

// together returns what is recorded for calls of a peer that are counted without telling them
// apart.
func (in Inbound) together() Inbound {
	verdict := "refused"
	if in.Allowed {
		verdict = "allowed"
	}
	return Inbound{Peer: in.Peer, Name: in.Name, Allowed: in.Allowed, Why: "Further calls that were " + verdict + ", too many or too long to tell apart."}
}

// Flush records all counts now. After an error the counts are kept, and the next Note tries again.
func (c *Calls) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flush()
}

// flush records the counts, and forgets the kinds that did not come again since the last flush, so
// that their next call has a record of its own. The caller holds c.mu.
func (c *Calls) flush() error {
	c.owed = nil
	for k, r := range c.kinds {
		if r.count == 0 {
			delete(c.kinds, k)
			c.leave(k)
			continue
		}
		if err := c.write(r.call, *r); err != nil {
			c.owed = err
			return err
		}
		r.count = 0
	}
	return nil
}

// leave gives back the place of a kind among the places of its peer. The caller holds c.mu.
func (c *Calls) leave(k kind) {
	if k.others {
		return
	}
	if c.peers[k.of]--; c.peers[k.of] <= 0 {
		delete(c.peers, k.of)
	}
}

// Run flushes at the end of each window until ctx ends, and then once more. It returns the error of
// the last flush. Errors before that are reported by Note, which refuses calls until the counts are
// written.
func (c *Calls) Run(ctx context.Context) error {
	tick := time.NewTicker(c.cfg.Window)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = c.Flush() // the next Note says so, and refuses
		case <-ctx.Done():
			return c.Flush()
		}
	}
}

// write records a call, or with r.count > 0 that many repetitions of it. The caller holds c.mu.
func (c *Calls) write(in Inbound, r repeats) error {
	e := in.entry(c.cfg.Node)
	if r.count > 0 {
		e.Time, e.Count, e.Since = r.last, r.count, &r.first
	}
	if err := c.cfg.Append(e); err != nil {
		return fmt.Errorf("calls of other nodes: %w", err)
	}
	c.cfg.Told(e)
	return nil
}

// entry returns the record of the call at this node. Entry.For has the nearest requester first,
// Inbound.Requester the origin.
func (in Inbound) entry(node string) Entry {
	e := Entry{
		Time: time.Now(), Node: node, Kind: KindInbound, Agent: in.Peer, Name: in.Name, For: slices.Clone(in.Requester), Tool: in.Verb,
		Verdict: "deny", Stage: in.Stage, Rule: in.Rule, Source: "authorize", Why: in.Why, Approved: in.Allowed,
	}
	slices.Reverse(e.For)
	if in.Allowed {
		e.Verdict = "allow"
	}
	if in.What != "" {
		c := CallArgs{Capability: in.What, Member: in.Member}
		if in.Verb == "send" {
			c.Capability, c.Perception = "", in.What
		}
		e.Args, _ = json.Marshal(c) // three strings cannot fail
	}
	return e
}

// CallArgs is the Args of an Entry of KindInbound, in JSON. Either Capability or Perception is set,
// by Inbound.Verb.
type CallArgs struct {
	Capability string `json:"capability,omitempty"`
	Perception string `json:"perception,omitempty"`
	Member     string `json:"member,omitempty"`
}
