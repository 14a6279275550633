package community

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
)

// DrainingKey is the metadata key that a node has while it takes no new work; see Drain.
const DrainingKey = "draining"

// Drain makes the node of a Community take no new work from other nodes, or take work again. While it is on, the node's
// member has the metadata DrainingKey, and capabilities offered with WithDrain are withheld. Signals are for
// Config.Authorize to refuse, which knows the agents that other nodes still need. The zero Drain is off. It is safe for
// concurrent use, and may be given to one Community after another.
type Drain struct {
	on atomic.Bool

	mu   sync.Mutex
	tell func() // tells the other nodes; nil before New; guarded by mu
}

// Set switches it on or off, and tells the other nodes.
func (d *Drain) Set(on bool) {
	if d.on.Swap(on) == on {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tell != nil {
		d.tell()
	}
}

// IsOn reports whether the node takes no new work. A nil Drain is off.
func (d *Drain) IsOn() bool { return d != nil && d.on.Load() }

// use makes the Drain the one of a roster.
func (d *Drain) use(r *roster) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tell = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.publishOffers()
	}
}

// WithDrain marks the capability as work: while the node drains, it is not in the catalog and its calls are ErrBusy.
// Other capabilities are served on, because work that has begun may need them. Calls under way go on.
func WithDrain() OfferOption { return func(o *offer) { o.drains = true } }

// DrainingError returns the ErrBusy of a node that takes no new work. Nothing was done, so another node may be asked.
func DrainingError(node string) error {
	return Explain(ErrBusy, fmt.Sprintf("node %s is draining: it finishes what runs and takes no new work; ask another node, or this one later", printable(node)))
}

// IsDraining reports whether the member is a node that takes no new work.
func (m Member) IsDraining() bool { return m.Metadata[DrainingKey] != "" }

// metadata returns the metadata of this node's member.
func (r *roster) metadata() map[string]string {
	if !r.cfg.Draining.IsOn() {
		return r.cfg.Metadata
	}
	all := map[string]string{DrainingKey: "true"}
	maps.Copy(all, r.cfg.Metadata)
	return all
}
