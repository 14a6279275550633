package step

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// usual is how many steps Parallel and Map run at once when no limit is given: enough to hide the
// waiting for models and machines, and no more than one agent of another node takes at a time.
const usual = 16

func atOnce(limit int) int {
	if limit < 1 {
		return usual
	}
	return limit
}

// errVanished: the goroutine of a step ended itself, as testing's FailNow does.
var errVanished = errors.New("the step ended without a result")

// workers runs functions beside each other. When one panics it cancels the others, and wait panics
// in its place.
type workers struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	panic string // guarded by mu
}

func (c *workers) start(f func()) {
	c.wg.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				c.mu.Lock()
				c.panic = fmt.Sprintf("%v\n\nwhere the step panicked: %s", p, debug.Stack())
				c.mu.Unlock()
				c.cancel()
			}
		}()
		f()
	})
}

// wait returns when all have ended.
func (c *workers) wait() {
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.panic != "" {
		panic(c.panic)
	}
}

// attempt runs one of several steps, and hands its result on whatever becomes of it.
func attempt[In, Out any](ctx context.Context, s Step[In, Out], index int, in In, done func(Result[Out])) {
	r := Result[Out]{Index: index, Err: errVanished}
	defer func() { done(r) }()
	r.Value, r.Err = s.Run(ctx, in)
}
