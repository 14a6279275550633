package grpcpeer

import (
	"context"
	"sync"

	"symbio/community"
)

// courier carries sends to a node that knows calls only: one call after the other, so that they stay in
// order, and nobody waits for the answers.
type courier struct {
	carry   func(context.Context, community.Call) error
	failed  func(community.Call, error)
	running sync.WaitGroup

	mu     sync.Mutex
	queue  []community.Call // guarded by mu
	bytes  int              // of queue; guarded by mu
	busy   bool             // somebody works it off; guarded by mu
	closed bool             // guarded by mu
}

// maxQueued is how many sends may wait for one courier.
const maxQueued = 64

func (c *courier) put(call community.Call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return community.ErrUnavailable
	case len(c.queue) >= maxQueued || c.bytes >= unsent:
		return community.ErrBusy
	}
	c.queue = append(c.queue, call)
	c.bytes += len(call.Payload)
	if !c.busy {
		c.busy = true
		c.running.Go(c.run)
	}
	return nil
}

func (c *courier) run() {
	for {
		c.mu.Lock()
		if len(c.queue) == 0 {
			c.busy = false
			c.mu.Unlock()
			return
		}
		call := c.queue[0]
		c.queue = c.queue[1:]
		c.bytes -= len(call.Payload)
		closed := c.closed
		c.mu.Unlock()
		err := community.ErrUnavailable
		if !closed {
			err = c.carry(context.Background(), call)
		}
		if err != nil {
			c.failed(call, err)
		}
	}
}

// close returns when nothing is carried any more. The link must have ended.
func (c *courier) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
}

// tell carries a call whose answer nobody waits for.
func (l *link) tell(call community.Call) error {
	if l.closed.Load() {
		return community.ErrUnavailable
	}
	if len(call.Payload) > l.limits.Message {
		return community.ErrTooLarge
	}
	size, ok := envelope(call)
	if !ok {
		return community.ErrTooLarge
	}
	if l.fast != nil && l.fast.sends > 0 {
		return l.fast.tell(call, size)
	}
	return l.courier.put(call)
}

// newCourier is the courier of a link.
func newCourier(l *link) *courier {
	return &courier{
		carry: func(ctx context.Context, call community.Call) error {
			ctx, cancel := context.WithTimeout(ctx, l.limits.Deadline)
			defer cancel()
			_, err := l.invoke(ctx, call)
			return err
		},
		failed: func(call community.Call, err error) {
			l.undelivered(community.Undelivered{Node: l.peer.ID, Member: call.Member, Perception: call.Capability, Count: 1, Err: err})
		},
	}
}
