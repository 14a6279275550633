package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"symbio/agent/llm"
	"symbio/agent/step"
	"symbio/community"
)

// unknownPlaces is how many tasks are sent to a node that it has not accepted yet if it does not say how many it has places
// for, as older nodes do not.
const unknownPlaces = 8

// calls is the community for the calls of tasks. It is safe for concurrent use.
type calls struct {
	*community.Community
	mu         sync.Mutex
	unaccepted map[community.MemberID]int // calls by node; guarded by mu
}

// Invoke invokes a capability, tells the task of ctx that a node is about to begin with it, and returns the answer as JSON.
// The error of a call that no node has accepted says so (community.NotBegun).
func (c *calls) Invoke(ctx context.Context, on community.MemberID, capability string, s community.Signal) (community.Reply, error) {
	offered, _ := c.Capability(community.NodeID(on), capability)
	places := cmp.Or(offered.Places, unknownPlaces)
	c.mu.Lock()
	full := c.unaccepted[on] >= places // so that one which is frozen does not hold up more than it could do
	if !full {
		c.unaccepted[on]++
	}
	c.mu.Unlock()
	if full {
		return community.Reply{}, community.Explain(community.ErrBusy, fmt.Sprintf("it has not yet accepted %d tasks that were sent to it, which is as many as it has places for", places))
	}
	answered := sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.unaccepted[on]--; c.unaccepted[on] == 0 {
			delete(c.unaccepted, on)
		}
	})
	defer answered()
	begun := false
	ctx = community.WithAcceptance(ctx, func() error {
		begun = true
		answered()
		return step.Reader[func(community.MemberID) error](nil)(ctx)(on)
	})
	reply, err := c.Community.Invoke(ctx, on, capability, s)
	switch {
	case err == nil:
		return community.Reply{Data: []byte(llm.AsJSON(string(reply.Data))), ContentType: "application/json"}, nil
	case !begun && (errors.Is(err, community.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)):
		return community.Reply{}, fmt.Errorf("%w: it did not accept the task: %v", community.ErrBusy, err)
	}
	return reply, err
}
