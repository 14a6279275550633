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

// batch is how many signals are on their way to an agent at most: fewer than its mailbox takes.
const batch = 512

// counter is an agent that counts signals, and says when it has handled a batch.
type counter struct {
	n    int
	done chan bool
}

func (c *counter) Perceptions() []string { return []string{"work"} }

func (c *counter) Receive(context.Context, community.Signal) (community.Reply, error) {
	if c.n++; c.n%batch == 0 {
		c.done <- true
	}
	return community.Reply{}, nil
}

// BenchmarkTell is BenchmarkSend for a batch of signals that nobody waits for.
func BenchmarkTell(b *testing.B) {
	sys := actor.NewSystem(actor.Config{})
	defer sys.Shutdown(context.Background())
	c := community.New(community.Config{System: sys})
	ours, bare := &counter{done: make(chan bool)}, &counter{done: make(chan bool)}
	m, err := c.Spawn(context.Background(), "ann", func(community.Member) (community.Agent, error) { return ours, nil })
	if err != nil {
		b.Fatal(err)
	}
	defer c.Terminate(context.Background(), m.ID)
	send, end := actortest.BareSend(func() { _, _ = bare.Receive(context.Background(), community.Signal{}) })
	defer end()
	ctx, s := context.Background(), community.Signal{Perception: "work", Data: []byte("hello")}
	versus(b, func() {
		for range batch {
			if err := c.Tell(ctx, m.ID, s); err != nil {
				b.Error(err)
			}
		}
		<-ours.done
	}, func() {
		for range batch {
			send()
		}
		<-bare.done
	}, func(f func(), n int) {
		for range n {
			f()
		}
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
