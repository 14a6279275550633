package actor_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"symbio/actor"
)

// Goroutines that stay for the next message do not outlive the last actor: the bubble would not end.
func TestSystemIsEmptyAfterLastActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := actor.NewSystem(actor.Config{})
		for range 2 { // and they come again with the next one
			var all []*actor.Ref
			for range 100 {
				r, err := s.Spawn(actor.Props{New: func() (actor.Behavior, error) { return actor.Func(echo), nil }})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, r)
			}
			var asking sync.WaitGroup
			for _, r := range all {
				asking.Go(func() {
					for range 10 {
						if _, err := r.Ask(context.Background(), "x"); err != nil {
							t.Error(err)
						}
					}
				})
			}
			asking.Wait()
			synctest.Wait()
			if n := runtime.NumGoroutine(); n > 4*runtime.GOMAXPROCS(0)+55 { // it counts 32 too many now and then
				t.Errorf("100 actors that have nothing to do have %d goroutines", n)
			}
			for _, r := range all {
				if err := r.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
