package community_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"symbio/community"

	"github.com/google/go-cmp/cmp"
)

func TestEverySubscriberIsToldEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{})
		ann := spawn(t, c, "ann", &worker{})
		early := []*community.Subscription{c.Subscribe(), c.Subscribe(), c.SubscribeLocal()}
		spawn(t, c, "ben", &worker{})
		late := c.Subscribe()
		if err := c.Terminate(t.Context(), ann.ID); err != nil {
			t.Fatal(err)
		}
		for i, s := range early {
			first := "snapshot of 1"
			if i == 2 {
				first = "snapshot of 2" // with the node
			}
			if diff := cmp.Diff([]string{first, "joined ben", "left ann"}, told(s)); diff != "" {
				t.Errorf("subscriber %d was told (-want +got):\n%s", i, diff)
			}
		}
		if diff := cmp.Diff([]string{"snapshot of 2", "left ann"}, told(late)); diff != "" {
			t.Errorf("the late one was told (-want +got):\n%s", diff)
		}
	})
}

func TestSlowSubscriberGetsAGapAndTheWholeListAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{})
		slow, fast := c.Subscribe(), c.Subscribe()
		told(fast)
		for i := range 300 {
			spawn(t, c, fmt.Sprint(i), &worker{})
			if n := len(told(fast)); n != 1 {
				t.Fatalf("the fast one was told %d things of one spawn", n)
			}
		}
		if ch, err := slow.Next(t.Context()); err != nil || ch.Kind != community.Snapshot {
			t.Fatalf("first came %+v, %v", ch, err)
		}
		spawn(t, c, "300", &worker{}) // there is room again, but not before the gap is told
		got := told(slow)
		// The queue holds 256: the snapshot and 255 that joined. 46 are missed.
		if len(got) != 256 || got[0] != "joined 0" || got[254] != "joined 254" || got[255] != "gap of 46, 301 members" {
			t.Fatalf("the slow one was told %d things, at last %q", len(got), got[max(0, len(got)-2):])
		}
		spawn(t, c, "one more", &worker{})
		if diff := cmp.Diff([]string{"joined one more"}, told(slow)); diff != "" {
			t.Errorf("after the gap (-want +got):\n%s", diff)
		}
	})
}

func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{})
		s := c.Subscribe()
		told(s)
		got := make(chan string, 10)
		var readers sync.WaitGroup
		ctx, cancel := context.WithCancelCause(t.Context())
		for range 3 {
			readers.Go(func() {
				for {
					ch, err := s.Next(ctx)
					if err != nil {
						got <- err.Error()
						return
					}
					got <- string(ch.Kind) + " " + ch.Member.Name
				}
			})
		}
		synctest.Wait()
		if len(got) != 0 {
			t.Errorf("Next returned %s, though nothing happened", <-got)
		}
		spawn(t, c, "a", &worker{})
		synctest.Wait()
		if len(got) != 1 || <-got != "joined a" {
			t.Error("one change did not reach exactly one reader")
		}
		cancel(errors.New("enough"))
		readers.Wait()
		for range 3 {
			if g := <-got; g != "enough" {
				t.Errorf("Next returned %s, want the context's cause", g)
			}
		}
	})
}

func TestCloseEndsNextForEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{})
		s := c.Subscribe()
		told(s)
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				if _, err := s.Next(context.Background()); !errors.Is(err, community.ErrStopped) {
					t.Errorf("got %v, want ErrStopped", err)
				}
			})
		}
		synctest.Wait()
		s.Close()
		s.Close()
		readers.Wait()
		spawn(t, c, "a", &worker{})
		if _, err := s.Next(t.Context()); !errors.Is(err, community.ErrStopped) {
			t.Errorf("got %v, want ErrStopped", err)
		}
	})
}

// A subscriber that only ever applies what it is told must end up with the members there are,
// however slowly it reads.
func TestSubscriberChangesAddUp(t *testing.T) {
	c, stop := run(t, community.Config{})
	var readers, writers sync.WaitGroup
	quiet := make(chan bool)
	for i := range 4 {
		s := c.Subscribe()
		readers.Go(func() {
			if i == 0 {
				<-quiet // the slowest: it reads nothing before all is over
			}
			view := map[community.MemberID]community.Member{}
			for {
				ch, err := s.Next(context.Background())
				if err != nil {
					break
				}
				apply(view, ch)
			}
			if len(view) != 0 {
				t.Errorf("reader %d thinks that %d members are left", i, len(view))
			}
		})
	}
	for i := range 4 {
		writers.Go(func() {
			for j := range 200 {
				m, err := c.Spawn(context.Background(), fmt.Sprint(i, "-", j), makes(&worker{}))
				if err != nil {
					t.Error(err)
					return
				}
				if j%3 > 0 {
					c.Terminate(context.Background(), m.ID)
				}
			}
		})
	}
	writers.Wait()
	if err := stop(); err != nil {
		t.Error(err)
	}
	close(quiet)
	readers.Wait()
}

// apply is what a subscriber does with a change.
func apply(view map[community.MemberID]community.Member, ch community.Change) {
	switch ch.Kind {
	case community.Snapshot, community.Gap:
		clear(view)
		for _, m := range ch.Members {
			view[m.ID] = m
		}
	case community.Left:
		delete(view, ch.Member.ID)
	default:
		view[ch.Member.ID] = ch.Member
	}
}
