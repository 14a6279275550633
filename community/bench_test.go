package community_test

import (
	"context"
	"testing"
	"time"

	"symbio/actor"
	"symbio/community"
	"symbio/internal/actor/actortest"
)

// BenchmarkSend is a signal to an agent of this node. Its floor, measured in the same run, is a
// request to an actor of bare Proto.Actor; x-floor says how many times as long it takes.
func BenchmarkSend(b *testing.B) {
	sys := actor.NewSystem(actor.Config{})
	defer sys.Shutdown(context.Background())
	c := community.New(community.Config{System: sys})
	m := spawn(b, c, "ann", &worker{})
	defer c.Terminate(context.Background(), m.ID)
	request, end := actortest.BareRequest()
	defer end()
	ctx := context.Background()
	s := work("hello")
	send := func() {
		if _, err := c.Send(ctx, m.ID, s); err != nil {
			b.Error(err)
		}
	}
	bare := func() {
		if err := request(); err != nil {
			b.Error(err)
		}
	}
	b.Run("one", func(b *testing.B) {
		versus(b, send, bare, func(f func(), n int) {
			for range n {
				f()
			}
		})
	})
	b.Run("64callers", func(b *testing.B) {
		versus(b, send, bare, func(f func(), n int) {
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
	b.ReportMetric(float64(took)/float64(max(least, 1)), "x-floor")
}
