package conversation

import (
	"context"
	"slices"
)

// acquire waits for the slot, behind those who came before. With an error the slot is not the caller's.
func (c *Conversation) acquire(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.mu.Lock()
	if !c.busy {
		c.busy = true
		c.mu.Unlock()
		return nil
	}
	if len(c.queue) >= c.cfg.Waiting {
		c.mu.Unlock()
		return ErrBusy
	}
	mine := make(chan struct{})
	c.queue = append(c.queue, mine)
	c.mu.Unlock()
	select {
	case <-mine:
		if ctx.Err() == nil {
			return nil
		}
		c.release() // it came too late
	case <-ctx.Done():
		if !c.withdraw(mine) {
			c.release() // both at once
		}
	}
	return context.Cause(ctx)
}

// withdraw takes one who waits out of the queue; false: the slot is theirs already.
func (c *Conversation) withdraw(who chan struct{}) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.queue, who)
	if i < 0 {
		return false
	}
	c.queue = slices.Delete(c.queue, i, i+1)
	return true
}

// release gives the slot to the one who has waited longest.
func (c *Conversation) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		c.busy = false
		return
	}
	close(c.queue[0])
	c.queue = slices.Delete(c.queue, 0, 1)
}
