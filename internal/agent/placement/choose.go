package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"symbio/community"
	"symbio/internal/security/visible"
)

// candidate is a node with a free place.
type candidate struct {
	node        community.Member // zero = this node
	taken, free int              // places
	held        int              // by tasks of this Chooser
}

// busy returns the part of the places that is taken.
func (c candidate) busy() float64 { return float64(c.taken) / float64(max(c.taken+c.free, 1)) }

// String says how many places are taken, for reasons.
func (c candidate) String() string {
	return fmt.Sprintf("%s has %d of %d places taken", cmp.Or(c.node.Name, "this node"), c.taken, c.taken+c.free)
}

// choose returns the place of a ticket, or the error that it gets. ok is false if it has to wait.
// lenders are the other nodes. The caller must hold choosing.
func (c *Chooser) choose(ctx context.Context, t *ticket, lenders []community.Member) (g grant, ok bool) {
	r := t.request
	strategy := cmp.Or(r.Strategy, c.cfg.Strategy)
	here, mayHere := c.local(r)
	draining := c.cfg.Draining != nil && c.cfg.Draining()
	if mayHere && here.free > 0 && !draining && (strategy == Local || strategy == LocalFirst) {
		return grant{place: Place{Reason: here.String()}}, true
	}
	var open []candidate
	var passed []string
	fitting := 0
	if strategy != Local {
		open, passed, fitting = c.remote(ctx, r, lenders)
	}
	if mayHere && here.free > 0 && (!draining || fitting == 0) {
		open = append([]candidate{here}, open...)
	}
	c.mu.Lock()
	waits := t.waiting
	c.mu.Unlock()
	switch {
	case len(open) > 0:
		best := pick(open, strategy)
		why := reason(best, open, strategy)
		if mayHere && here.free == 0 {
			why = here.String() + ", and " + why
		}
		return grant{place: Place{Node: best.node, Reason: list(why, passed)}}, true
	case mayHere && r.Waiting == nil: // also on a node that drains: the task belongs to one that runs
		return grant{place: Place{Reason: list(here.String()+", but the task does not wait", passed)}}, true
	case !mayHere && fitting == 0 && !waits:
		return grant{err: c.none(r, passed, lenders)}, true
	}
	return grant{}, false
}

// local returns this node as a candidate, and whether it fits.
func (c *Chooser) local(r Request) (candidate, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.held[""]
	return candidate{taken: held, free: max(c.cfg.Local-held, 0), held: held}, r.NotHere == "" && c.cfg.Self.HasLabels(r.Where)
}

// remote returns the other nodes with a free place, why others that fit were passed by, and how many
// fit and may have a place later.
func (c *Chooser) remote(ctx context.Context, r Request, lenders []community.Member) (open []candidate, passed []string, fitting int) {
	var nodes []community.Member
	for _, m := range lenders {
		if !m.HasLabels(r.Where) {
			continue
		}
		if r.Allowed != nil {
			if err := r.Allowed(m); err != nil {
				passed = append(passed, m.Name+": "+err.Error())
				continue
			}
		}
		nodes = append(nodes, m)
	}
	c.ask(ctx, nodes)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range nodes {
		n := c.nodes[m.ID]
		switch {
		case n.err != nil && isFinal(n.err):
			passed = append(passed, m.Name+": "+visible.Line(n.err.Error(), 2*community.MaxLabelValue))
			continue
		case n.err == nil && n.load.Free > n.starting:
			open = append(open, candidate{m, n.load.Lent + n.starting, n.load.Free - n.starting, c.held[m.ID]})
		}
		fitting++
	}
	return open, passed, fitting
}

// isFinal reports whether a node that answered its load with the error will not take a task later
// either: it does not lend to this node, or does not know the question.
func isFinal(err error) bool {
	return errors.Is(err, community.ErrDenied) || errors.Is(err, community.ErrInvalid) || errors.Is(err, community.ErrNotProvided)
}

// ask asks the nodes for their load, at the same time, unless it is known well enough. A node that
// does not answer in time has no free place.
func (c *Chooser) ask(ctx context.Context, nodes []community.Member) {
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var asking sync.WaitGroup
	c.mu.Lock()
	now := time.Now()
	maps.DeleteFunc(c.nodes, func(id community.MemberID, n *nodeState) bool {
		return n.starting == 0 && c.held[id] == 0 && now.Sub(n.asked) > time.Minute // it may be gone
	})
	for _, m := range nodes {
		n := c.nodes[m.ID]
		if n == nil {
			n = &nodeState{}
			c.nodes[m.ID] = n
		}
		if now.Sub(n.asked) < maxAge {
			continue
		}
		asking.Go(func() {
			load, err := c.cfg.Load(limited, m)
			c.mu.Lock()
			defer c.mu.Unlock()
			if n.load, n.err = load.Checked(), err; ctx.Err() == nil { // else the task has ended, not the node
				n.asked = time.Now()
			}
		})
	}
	c.mu.Unlock()
	asking.Wait()
}

// Loads returns the load of the nodes that lend agents, which it asks for as a choice does, and the free
// places of this one. A node that does not answer within a second is not there.
func (c *Chooser) Loads(ctx context.Context) map[community.MemberID]Load {
	here, _ := c.local(Request{})
	all, lenders := map[community.MemberID]Load{c.cfg.Self.ID: {Free: here.free}}, c.cfg.Lenders("")
	c.ask(ctx, lenders)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range lenders {
		if n := c.nodes[m.ID]; n != nil && n.err == nil {
			all[m.ID] = n.load
		}
	}
	return all
}

// Nodes returns this node, unless NotHere says no, and those that lend the definition, as far as they
// have the labels of a request. Their places may be taken. The error wraps ErrNone if there is none.
func (c *Chooser) Nodes(r Request) (all []community.MemberID, err error) {
	lenders := c.cfg.Lenders(r.Definition)
	for _, m := range append([]community.Member{c.cfg.Self}, lenders...) {
		if m.HasLabels(r.Where) && (r.NotHere == "" || m.ID != c.cfg.Self.ID) {
			all = append(all, m.ID)
		}
	}
	if len(all) == 0 {
		return nil, c.none(r, nil, lenders)
	}
	return all, nil
}

// pick returns the best candidate. This node is the first one, and wins among equals.
func pick(open []candidate, s Strategy) candidate {
	return slices.MinFunc(open, func(a, b candidate) int {
		fewest := 0
		if s == Spread {
			fewest = cmp.Compare(a.held, b.held)
		}
		return cmp.Or(fewest, cmp.Compare(a.busy(), b.busy()))
	})
}

// reason says why the best candidate was chosen.
func reason(best candidate, open []candidate, s Strategy) string {
	switch {
	case len(open) == 1:
		return best.String() + ", and no other that fits has one free"
	case s == Spread:
		return fmt.Sprintf("%s, and of %d nodes the fewest tasks from here", best, len(open))
	}
	return fmt.Sprintf("%s, the smallest part of %d nodes", best, len(open))
}

// list appends why nodes were passed by.
func list(text string, passed []string) string {
	if len(passed) == 0 {
		return text
	}
	return text + "; passed by: " + strings.Join(passed, "; ")
}

// none returns the error of a task that no node fits. It lists what there is.
func (c *Chooser) none(r Request, passed []string, lenders []community.Member) error {
	what := "no node lends the agent " + r.Definition
	if len(r.Where) > 0 {
		what = "no node with " + join(r.Where) + " can have the agent " + r.Definition
	}
	there := []string{describe(c.cfg.Self)}
	for _, m := range lenders {
		there = append(there, describe(m))
	}
	if r.NotHere != "" {
		passed = append([]string{c.cfg.Self.Name + ": " + r.NotHere}, passed...)
	}
	return fmt.Errorf("%w: %s. There are %s", ErrNone, list(what, passed), strings.Join(there, ", "))
}
