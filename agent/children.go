package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"symbio/agent/conversation"
	"symbio/agent/tool/peer"
	"symbio/community"
	"symbio/security/permission"
)

// child is a sub-agent as its parent has it.
type child struct {
	member  community.Member
	hand    hand
	account *account

	work   *work    // the latest that it was given; nil = none; guarded by the parent's mu
	unsaid []string // what was said to it and came too late; guarded by the parent's mu
}

// hand is how a parent has hold of a sub-agent, wherever that lives.
type hand interface {
	// stop ends it and all below it, and returns when that is done, or it does not stop in time.
	stop(ctx context.Context)
	// gone is why it is gone; nil = it is not.
	gone() error
	// steer says something to it while it works.
	steer(ctx context.Context, text string) (conversation.Receipt, error)
	// doing is what it does now, for people and models; "" = not known.
	doing() string
}

// local is the hand of a sub-agent of this node.
type local struct{ life *life }

func (h local) stop(ctx context.Context) {
	err := h.life.factory.cfg.Community.Terminate(ctx, h.life.self.ID)
	if err != nil && !errors.Is(err, community.ErrNotFound) {
		h.life.factory.cfg.Logger.Warn("sub-agent not terminated", "agent", h.life.self.ID, "err", err)
	}
}

func (h local) gone() error {
	if _, here := h.life.factory.cfg.Community.Member(h.life.self.ID); here {
		return nil
	}
	return errors.New("it has ended")
}

func (h local) steer(ctx context.Context, text string) (conversation.Receipt, error) {
	guests, err := h.life.parent.held(false)
	if err != nil {
		return conversation.Receipt{}, err
	}
	return h.life.factory.SteerFrom(ctx, h.life.self.ID, text, community.Signal{Requester: peer.Requester(ctx), OnBehalf: guests})
}

func (h local) doing() string {
	h.life.mu.Lock()
	defer h.life.mu.Unlock()
	return h.life.latest
}

// note keeps what the agent does, for its parent.
func (l *life) note(e Event) {
	if l.parent == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Type {
	case EventCall:
		l.latest = "uses " + e.Tool
	case EventTurn:
		l.latest = fmt.Sprintf("turn %d", e.Turn)
	case EventTask, EventDone, EventFailed:
		l.latest = ""
	}
}

// brood are the sub-agents of an agent, and what they work on.
type brood struct {
	alive context.Context // ends with the agent
	kill  context.CancelFunc
	works sync.WaitGroup // Go is guarded by the agent's mu
	all   []*child       // in the order in which they were made
	tasks map[string]*duty
	stir  chan struct{} // closed, and replaced, when one is done with something
}

// maxGone is how many sub-agents that are gone a parent remembers, for their results.
const maxGone = 64

func newBrood() *brood {
	b := &brood{tasks: map[string]*duty{}, stir: make(chan struct{})}
	b.alive, b.kill = context.WithCancel(context.Background())
	return b
}

// wake tells those that wait.
func (b *brood) wake() {
	close(b.stir)
	b.stir = make(chan struct{})
}

// raise notes a new sub-agent. It needs mu.
func (l *life) raise(c *child) {
	l.brood.all = append(l.brood.all, c)
	gone := 0
	for _, other := range slices.Backward(l.brood.all) {
		if other.hand.gone() != nil {
			gone++
		}
	}
	l.brood.all = slices.DeleteFunc(l.brood.all, func(c *child) bool {
		if gone <= maxGone || c.hand.gone() == nil {
			return false
		}
		gone--
		return true
	})
}

// offspring are the agent's sub-agents, the oldest first: those of these ids or names, or all.
func (l *life) offspring(names []string) ([]*child, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(names) == 0 {
		return slices.Clone(l.brood.all), nil
	}
	var some []*child
	for _, name := range names {
		c, err := l.brood.one(name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(some, c) {
			some = append(some, c)
		}
	}
	return some, nil
}

// one finds a sub-agent by its id, or by a name that only one has. Of those of a name that are gone the latest counts.
func (b *brood) one(name string) (found *child, err error) {
	var names []string
	several := 0
	for _, c := range b.all {
		switch {
		case string(c.member.ID) == name:
			return c, nil
		case c.member.Name != name:
		case c.hand.gone() == nil:
			found, several = c, several+1
		case several == 0:
			found = c
		}
		names = append(names, c.member.Name)
	}
	switch {
	case several > 1:
		return nil, fmt.Errorf("%d of your sub-agents are called %q: name one by its agent_id", several, name)
	case found != nil:
		return found, nil
	case len(names) == 0:
		return nil, fmt.Errorf("you have no sub-agent %q, nor any other; replicate_agent makes them", name)
	}
	return nil, fmt.Errorf("you have no sub-agent %q; yours are %v", name, names)
}

// childTools are those that an agent has for its own sub-agents. They come with replicate_agent.
var childTools = []string{"message_agent", "wait_agents", "stop_agents"}

func forChildren(tool string) bool { return slices.Contains(childTools, tool) }

// parental is a chain by which an agent may do with its own sub-agents what no rule denies: that it was allowed to make
// them is enough. The tools reach nobody else's.
func parental(chain permission.Chain) permission.Chain {
	chain = slices.Clone(chain)
	for i, link := range chain {
		chain[i].Granted = func() (all []permission.Granted) {
			if link.Granted != nil {
				all = slices.Clone(link.Granted())
			}
			for _, name := range childTools {
				if rule, err := permission.ParseRule(name); err == nil { // they are names of tools
					all = append(all, permission.Granted{Rule: rule, Source: "having made them"})
				}
			}
			return all
		}
	}
	return chain
}
