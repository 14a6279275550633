package actor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"symbio/actor"
)

// TestEveryAskEndsInExactlyOneOutcome lets many ask at random while actors panic, are slow, are stopped,
// patiently or not, and come back. No ask has a deadline unless it says so: one that is forgotten hangs,
// and the bubble says so. Every message that was accepted must be answered or seen, and none seen twice.
func TestEveryAskEndsInExactlyOneOutcome(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	var ways [4]int64 // how often each way out was taken, over all rounds
	for seed := range rounds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &load{t: t, seed: uint64(seed), sys: actor.NewSystem(actor.Config{
					Mailbox: 8, Restarts: 3, BackOff: time.Millisecond, MaxBackOff: 20 * time.Millisecond,
				})}
				l.run()
				for i, n := range []*atomic.Int64{&l.answers, &l.busy, &l.stopped, &l.panicked} {
					ways[i] += n.Load()
				}
			})
		})
	}
	for i, way := range []string{"answered", "busy", "stopped", "panicked"} {
		if ways[i] == 0 {
			t.Errorf("the load never met %q", way)
		}
	}
}

type load struct {
	t    *testing.T
	seed uint64
	sys  *actor.System

	asks, tells                            atomic.Int64
	seen, answers, busy, stopped, panicked atomic.Int64
	ended, born                            atomic.Int64
	accepted, done                         atomic.Int64 // posts
	unseen                                 sync.Map     // ids of messages that were refused: Receive must not see them
	handled                                sync.Map     // ids that Receive has seen
}

var errNotToday = errors.New("not today")

type order struct {
	id   int64
	what int
}

func (l *load) run() {
	var all sync.WaitGroup
	for i := range 40 {
		rng := rand.New(rand.NewPCG(l.seed, uint64(i)))
		all.Go(func() {
			for range 150 {
				l.step(rng)
			}
		})
	}
	all.Wait()
	if err := l.sys.Shutdown(context.Background()); err != nil {
		l.t.Errorf("Shutdown: %v", err)
	}
	l.check()
}

// step does one thing to one of ten actors, which it spawns when there is none.
func (l *load) step(rng *rand.Rand) {
	name := fmt.Sprint("actor", rng.IntN(10))
	r, ok := l.sys.Lookup(name)
	if !ok {
		var err error
		r, err = l.sys.Spawn(actor.Props{Name: name, New: l.behavior, Stopped: func(error) { l.ended.Add(1) }})
		if err != nil {
			if !errors.Is(err, actor.ErrNameTaken) && !errors.Is(err, errNotToday) {
				l.t.Errorf("Spawn: %v", err)
			}
			time.Sleep(100 * time.Microsecond) // else all steps may be spent while a rival spawns
			return
		}
		l.born.Add(1)
	}
	switch n := rng.IntN(100); {
	case n < 2:
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rng.IntN(3))*time.Millisecond)
		defer cancel()
		if err := r.Stop(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			l.t.Errorf("Stop: %v", err)
		}
	case n < 15:
		l.tell(r, rng.IntN(100))
	case n < 30:
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
	case n < 50:
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rng.IntN(3000))*time.Microsecond)
		defer cancel()
		l.ask(ctx, r, rng.IntN(100))
	default:
		l.ask(context.Background(), r, rng.IntN(100))
	}
}

func (l *load) behavior() (actor.Behavior, error) {
	if rand.IntN(10) == 0 {
		return nil, errNotToday
	}
	var busy atomic.Bool
	return actor.Func(func(ctx context.Context, msg any) (any, error) {
		if busy.Swap(true) {
			l.t.Error("Receive runs twice at once")
		}
		defer busy.Store(false)
		o := msg.(order)
		if _, twice := l.handled.LoadOrStore(o.id, true); twice {
			l.t.Errorf("message %d was handled twice", o.id)
		}
		l.seen.Add(1)
		switch {
		case o.what < 3:
			panic(o)
		case o.what < 30:
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Duration(o.what) * 100 * time.Microsecond):
			}
		}
		return o.id, nil
	}), nil
}

func (l *load) ask(ctx context.Context, r *actor.Ref, what int) {
	id := l.asks.Add(1)
	got, err := r.Ask(ctx, order{id, what})
	switch {
	case err == nil:
		l.answers.Add(1)
		if got != id {
			l.t.Errorf("ask %d got the answer %v", id, got)
		}
	case errors.Is(err, actor.ErrPanicked):
		l.panicked.Add(1)
	case errors.Is(err, actor.ErrBusy):
		l.busy.Add(1)
		l.refused(id, err)
	case errors.Is(err, context.Canceled) && errors.Is(err, actor.ErrStopped): // Receive was canceled
	case errors.Is(err, actor.ErrStopped):
		l.stopped.Add(1)
		l.refused(id, err)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
	default:
		l.t.Errorf("ask %d: unexpected error %v", id, err)
	}
}

func (l *load) tell(r *actor.Ref, what int) {
	id := -l.tells.Add(1)
	err := r.Post(context.Background(), order{id, what}, func(_ any, err error) {
		l.done.Add(1)
		if errors.Is(err, actor.ErrStopped) && !errors.Is(err, context.Canceled) {
			l.refused(id, err)
		}
	})
	if err != nil {
		l.refused(id, err)
		return
	}
	l.accepted.Add(1)
}

func (l *load) refused(id int64, err error) { l.unseen.Store(id, err) }

func (l *load) check() {
	l.unseen.Range(func(id, err any) bool {
		if _, seen := l.handled.Load(id); seen {
			l.t.Errorf("message %v was refused (%v), but Receive has seen it", id, err)
		}
		return true
	})
	if got, want := l.done.Load(), l.accepted.Load(); got != want {
		l.t.Errorf("%d posts came to an end, want all %d that were accepted", got, want)
	}
	if l.born.Load() != l.ended.Load() {
		l.t.Errorf("%d actors were born and %d ended", l.born.Load(), l.ended.Load())
	}
	l.t.Logf("%d asks, %d tells: %d seen, %d answers, %d busy, %d stopped, %d panicked; %d actors",
		l.asks.Load(), l.tells.Load(), l.seen.Load(), l.answers.Load(), l.busy.Load(), l.stopped.Load(),
		l.panicked.Load(), l.born.Load())
}
