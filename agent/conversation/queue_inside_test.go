package conversation

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// What is tested here lasts an instant, too short to be met from outside.
func TestSlotThatComesWithTheEndOfTheContextIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{})
		if err := c.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- c.acquire(ctx) }()
		synctest.Wait()
		c.mu.Lock()
		c.queue = nil // somebody has just given it the slot
		cancel()
		c.mu.Unlock()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if c.busy {
			t.Error("nobody has the slot, and nobody can get it")
		}
	})
}
