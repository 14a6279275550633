package community_test

import (
	"context"
	"testing"
	"time"

	"symbio/actor"
	"symbio/community"
)

// BenchmarkSend is a signal to an agent of this node. Its floor, measured in the same run, is the
// same message given to an actor directly; x-ask says how many times as long it takes. What an Ask
// costs over a bare request of the actor engine, actor's own benchmark says.
func BenchmarkSend(b *testing.B) {
	sys := actor.NewSystem(actor.Config{})
	defer sys.Shutdown(context.Background())
	c := community.New(community.Config{System: sys})
	m := spawn(b, c, "ann", &worker{})
	defer c.Terminate(context.Background(), m.ID)
	ref, err := sys.Spawn(actor.Props{New: func() (actor.Behavior, error) {
		return actor.Func(func(_ context.Context, msg any) (any, error) { return msg, nil }), nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	s := work("hello")
	send := func() {
		if _, err := c.Send(ctx, m.ID, s); err != nil {
			b.Error(err)
		}
	}
	ask := func() {
		if _, err := ref.Ask(ctx, &s); err != nil {
			b.Error(err)
		}
	}
	b.Run("one", func(b *testing.B) {
		versus(b, send, ask, func(f func(), n int) {
			for range n {
				f()
			}
		})
	})
	b.Run("64callers", func(b *testing.B) {
		versus(b, send, ask, func(f func(), n int) {
			done := make(chan bool)
			for range 64 {
				go func() {
					for range n / 64 {
						f()
					}
					done <- true
				}()
			}
			for range 64 {
				<-done
			}
		})
	})
}

// versus runs f and its floor in turns, so that both meet the same weather.
func versus(b *testing.B, f, floor func(), times func(f func(), n int)) {
	b.ReportAllocs()
	var took, least time.Duration
	const turns = 10
	for i := range turns {
		n := b.N*(i+1)/turns - b.N*i/turns
		begun := time.Now()
		times(f, n)
		took += time.Since(begun)
		b.StopTimer()
		begun = time.Now()
		times(floor, n)
		least += time.Since(begun)
		b.StartTimer()
	}
	b.ReportMetric(float64(took)/float64(max(least, 1)), "x-ask")
}
