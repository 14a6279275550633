package actor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"symbio/actor"
)

func TestNameIsUniqueAmongLivingActors(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		first := spawn(t, s, actor.Props{Name: "ann", New: always(echo)})
		_, err := s.Spawn(actor.Props{Name: "ann", New: func() (actor.Behavior, error) {
			t.Error("New was called for a name that is taken")
			return actor.Func(echo), nil
		}})
		wantErr(t, err, actor.ErrNameTaken)
		if r, ok := s.Lookup("ann"); !ok || r != first {
			t.Errorf("Lookup returned %v, %v; want the first", r, ok)
		}
		if err := first.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, ok := s.Lookup("ann"); ok {
			t.Error("an actor that has ended is still found")
		}
		spawn(t, s, actor.Props{Name: "ann", New: always(echo)})
	})
}

func TestRefNeverReachesTheNextActorOfItsName(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		old := spawn(t, s, actor.Props{Name: "ann", New: always(echo)})
		if _, err := old.Ask(t.Context(), "are you there"); err != nil {
			t.Fatal(err)
		}
		if err := old.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := spawn(t, s, actor.Props{Name: "ann", New: always(echo)})
		_, err := old.Ask(t.Context(), "still there?")
		wantErr(t, err, actor.ErrNoActor)
		if err := old.Stop(t.Context()); err != nil {
			t.Errorf("stopping an ended actor: %v", err)
		}
		if _, err := next.Ask(t.Context(), "and you?"); err != nil {
			t.Errorf("the next actor of the name: %v", err)
		}
	})
}

func TestSpawnRefusesNamesThatProtoActorKeeps(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		for _, name := range []string{"$1", "$", "ask/7", "future", "future$3", "guardian$1", "deadletter", "eventstream"} {
			_, err := s.Spawn(actor.Props{Name: name, New: always(echo)})
			if err == nil || !strings.Contains(err.Error(), "reserved") {
				t.Errorf("%q: got %v, want a refusal that says it is reserved", name, err)
			}
		}
		for _, name := range []string{"ann", "member/0a1b", "a$b", "a$1", "straße", "ask"} {
			r := spawn(t, s, actor.Props{Name: name, New: always(echo)})
			if got, ok := s.Lookup(name); !ok || got != r || r.Name() != name {
				t.Errorf("%q: Lookup gave %v, %v and Name %q", name, got, ok, r.Name())
			}
			if _, err := r.Ask(t.Context(), "x"); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}

func TestActorWithoutANameGetsOne(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		a := spawn(t, s, actor.Props{New: always(echo)})
		b := spawn(t, s, actor.Props{New: always(echo)})
		if a.Name() == "" || a.Name() == b.Name() {
			t.Errorf("got names %q and %q, want two different ones", a.Name(), b.Name())
		}
		if got, ok := s.Lookup(b.Name()); !ok || got != b {
			t.Errorf("Lookup(%q) = %v, %v", b.Name(), got, ok)
		}
	})
}

func TestFailedSpawnLeavesNothingBehind(t *testing.T) {
	problem := errors.New("no model")
	for _, test := range []struct {
		name string
		new  func() (actor.Behavior, error)
		want func(error) bool
	}{
		{"New fails", func() (actor.Behavior, error) { return nil, problem },
			func(err error) bool { return errors.Is(err, problem) }},
		{"New panics", func() (actor.Behavior, error) { panic("secret") },
			func(err error) bool {
				return errors.Is(err, actor.ErrPanicked) && !strings.Contains(err.Error(), "secret")
			}},
		{"New returns nothing", func() (actor.Behavior, error) { return nil, nil },
			func(err error) bool { return err != nil }},
		{"New is missing", nil, func(err error) bool { return err != nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
				_, err := s.Spawn(actor.Props{Name: "ann", New: test.new, Stopped: func(error) {
					t.Error("Stopped was called for an actor that never was")
				}})
				if !test.want(err) {
					t.Errorf("got error %v", err)
				}
				if _, ok := s.Lookup("ann"); ok {
					t.Error("Lookup finds it")
				}
				spawn(t, s, actor.Props{Name: "ann", New: always(echo)})
			})
		})
	}
}

func TestLookupDoesNotFindAnActorThatIsBeingMade(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		spawn(t, s, actor.Props{Name: "ann", New: func() (actor.Behavior, error) {
			if _, ok := s.Lookup("ann"); ok {
				t.Error("found before New returned")
			}
			_, err := s.Spawn(actor.Props{Name: "ann", New: always(echo)})
			wantErr(t, err, actor.ErrNameTaken)
			_, err = s.Spawn(actor.Props{Name: "bob", New: always(echo)})
			return actor.Func(echo), err
		}})
		for _, name := range []string{"ann", "bob"} {
			if _, ok := s.Lookup(name); !ok {
				t.Errorf("%s was spawned but is not found", name)
			}
		}
	})
}

func TestSpawnDuringShutdownIsRefused(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		proceed := make(chan struct{})
		spawned := make(chan error, 1)
		go func() {
			_, err := s.Spawn(actor.Props{Name: "slow", New: func() (actor.Behavior, error) {
				<-proceed
				return actor.Func(echo), nil
			}})
			spawned <- err
		}()
		synctest.Wait()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		close(proceed)
		wantErr(t, <-spawned, actor.ErrStopped)
		_, err := s.Spawn(actor.Props{New: always(echo)})
		wantErr(t, err, actor.ErrStopped)
	})
}
