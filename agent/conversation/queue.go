package conversation

import "context"

// acquire waits for the slot, behind those who came before. With an error the slot is not the caller's: ErrBusy, at once,
// when Config.Waiting others wait, or the cause of ctx.
func (c *Conversation) acquire(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c.slot.TryAcquire(1) {
		return nil
	}
	defer c.waiting.Add(-1)
	if c.waiting.Add(1) > int64(c.cfg.Waiting) {
		return ErrBusy
	}
	if c.slot.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// release gives the slot to the caller that has waited longest.
func (c *Conversation) release() { c.slot.Release(1) }
