package actor_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	proto "github.com/asynkron/protoactor-go/actor"

	"symbio/actor"
	"symbio/internal/actor/actortest"
)

// The floor of each figure is Proto.Actor itself, measured in the same run; an x-floor of 1 is as fast,
// or as small, as the floor.

type ping struct{}

var pong any = "pong"

// ourAsk returns a request to an echo actor of ours.
func ourAsk(b *testing.B) (ask func(context.Context) error, end func()) {
	s := actor.NewSystem(actor.Config{})
	r, err := s.Spawn(actor.Props{New: func() (actor.Behavior, error) {
		return actor.Func(func(context.Context, any) (any, error) { return pong, nil }), nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	return func(ctx context.Context) error {
		_, err := r.Ask(ctx, &ping{})
		return err
	}, func() { s.Shutdown(context.Background()) }
}

// share runs total asks on callers goroutines and returns the time for one.
func share(b *testing.B, total, callers int, ask func() error) time.Duration {
	start := time.Now()
	var callersDone sync.WaitGroup
	for i := range callers {
		n := total / callers
		if i < total%callers {
			n++
		}
		callersDone.Go(func() {
			for range n {
				if err := ask(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	callersDone.Wait()
	return time.Since(start)
}

func benchmarkAsk(b *testing.B, callers int, ctx context.Context) {
	bare, endBare := actortest.BareRequest()
	defer endBare()
	ask, end := ourAsk(b)
	defer end()
	ours := func() error { return ask(ctx) }
	var floor, took time.Duration
	b.ReportAllocs()
	// In slices, so that a machine whose speed changes meanwhile changes both.
	for left := b.N; left > 0; {
		n := min(left, 20_000)
		b.StopTimer()
		floor += share(b, n, callers, bare)
		b.StartTimer()
		took += share(b, n, callers, ours)
		left -= n
	}
	b.ReportMetric(float64(floor.Nanoseconds())/float64(b.N), "floor-ns/op")
	b.ReportMetric(float64(took)/float64(floor), "x-floor")
}

func BenchmarkAskSequential(b *testing.B) { benchmarkAsk(b, 1, context.Background()) }

func BenchmarkAsk64Callers(b *testing.B) { benchmarkAsk(b, 64, context.Background()) }

// A deadline is what most callers have, and what RequestFuture always has.
func BenchmarkAskWithDeadline(b *testing.B) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	benchmarkAsk(b, 1, ctx)
}

const idleActors = 100_000

// inUse returns the bytes that are alive.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

func BenchmarkSpawnIdle(b *testing.B) {
	var floorTime, ourTime time.Duration
	var floorBytes, ourBytes uint64
	for range b.N {
		t, n := spawnBare()
		floorTime, floorBytes = floorTime+t, floorBytes+n
		t, n = spawnOurs(b)
		ourTime, ourBytes = ourTime+t, ourBytes+n
	}
	actors := float64(b.N * idleActors)
	b.ReportMetric(actors/ourTime.Seconds(), "spawns/s")
	b.ReportMetric(float64(ourTime)/float64(floorTime), "x-floor-time")
	b.ReportMetric(float64(ourBytes)/actors, "B/actor")
	b.ReportMetric(float64(floorBytes)/actors, "floor-B/actor")
	b.ReportMetric(float64(ourBytes)/float64(floorBytes), "x-floor-bytes")
}

func spawnBare() (time.Duration, uint64) {
	s := actortest.Bare()
	defer s.Shutdown()
	props := proto.PropsFromFunc(func(proto.Context) {})
	pids := make([]*proto.PID, idleActors)
	before := inUse()
	start := time.Now()
	for i := range pids {
		pids[i] = s.Root.Spawn(props)
	}
	took := time.Since(start)
	after := inUse()
	for _, pid := range pids {
		s.Root.Stop(pid)
	}
	return took, after - before
}

func spawnOurs(b *testing.B) (time.Duration, uint64) {
	s := actor.NewSystem(actor.Config{})
	idle := func() (actor.Behavior, error) { return actor.Func(echo), nil }
	before := inUse()
	start := time.Now()
	for range idleActors {
		if _, err := s.Spawn(actor.Props{New: idle}); err != nil {
			b.Fatal(err)
		}
	}
	took := time.Since(start)
	after := inUse()
	if err := s.Shutdown(context.Background()); err != nil {
		b.Error(err)
	}
	return took, after - before
}

func echo(_ context.Context, msg any) (any, error) { return msg, nil }
