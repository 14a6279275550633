package community_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/actor"
	"symbio/community"

	"github.com/google/go-cmp/cmp"
)

func TestSpawnedAgentIsAMember(t *testing.T) {
	c, _ := run(t, community.Config{Node: id[community.NodeID]("aa")})
	sub := c.Subscribe()
	meta := map[string]string{"room": "cellar"}
	m := spawn(t, c, "ann", &worker{takes: []string{"work", "ask.me_now-2"}}, community.WithMetadata(meta))
	meta["room"] = "changed later"

	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(string(m.ID)) {
		t.Errorf("its id is %q, want 32 hex digits", m.ID)
	}
	want := community.Member{
		ID: m.ID, Name: "ann", Node: id[community.NodeID]("aa"), Accepts: []string{"ask.me_now-2", "work"},
		Available: true, Metadata: map[string]string{"room": "cellar"},
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("Spawn returned another member (-want +got):\n%s", diff)
	}
	got, ok := c.Member(m.ID)
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("Member returned another (-want +got):\n%s", diff)
	}
	if n := len(c.WhoCanReceive("work")); n != 1 {
		t.Errorf("%d members can receive work, want 1", n)
	}
	if n := len(c.WhoCanReceive("play")); n != 0 {
		t.Errorf("%d members can receive play, want 0", n)
	}
	if diff := cmp.Diff([]string{"snapshot of 0", "joined ann"}, told(sub)); diff != "" {
		t.Errorf("a subscriber was told (-want +got):\n%s", diff)
	}
	if r, err := c.Send(t.Context(), m.ID, work("hello")); err != nil || string(r.Data) != "hello" {
		t.Errorf("it answered %q, %v", r.Data, err)
	}
}

func TestSpawnThatFailsLeavesNothing(t *testing.T) {
	long := strings.Repeat("x", 65)
	terminated := 0
	perceives := func(takes ...string) func(community.Member) (community.Agent, error) {
		return makes(&worker{takes: takes, terminate: func(context.Context) error { terminated++; return nil }})
	}
	for name, tt := range map[string]struct {
		name    string
		factory func(community.Member) (community.Agent, error)
		opts    []community.SpawnOption
		want    string
		is      error
	}{
		"no factory":            {"x", nil, nil, "no factory", nil},
		"factory fails":         {"x", func(community.Member) (community.Agent, error) { return nil, errors.New("no paper") }, nil, "no paper", nil},
		"factory panics":        {"x", func(community.Member) (community.Agent, error) { panic("secret") }, nil, "", community.ErrAgentFailed},
		"no agent":              {"x", func(community.Member) (community.Agent, error) { return nil, nil }, nil, "made no agent", nil},
		"no perceptions":        {"x", perceives([]string{}...), nil, "no perceptions", nil},
		"empty perception":      {"x", perceives(""), nil, "no name", nil},
		"duplicate perceptions": {"x", perceives("a", "b", "a"), nil, `"a" is there twice`, nil},
		"long perception":       {"x", perceives(long), nil, "at most 64", nil},
		"odd perception":        {"x", perceives("a/b"), nil, "letters, digits", nil},
		"unicode perception":    {"x", perceives("wörk"), nil, "letters, digits", nil},
		"no name":               {"", perceives("a"), nil, "no name", nil},
		"long name":             {strings.Repeat("n", 129), perceives("a"), nil, "at most 128", nil},
		"name with an escape":   {"a\x1b[2J", perceives("a"), nil, "cannot be shown", nil},
		"name with bidi":        {"a\u202eb", perceives("a"), nil, "cannot be shown", nil},
		"much metadata":         {"x", perceives("a"), []community.SpawnOption{community.WithMetadata(map[string]string{"k": strings.Repeat("v", 1025)})}, "metadata k", nil},
	} {
		t.Run(name, func(t *testing.T) {
			sys := actor.NewSystem(actor.Config{})
			c, stop := run(t, community.Config{System: sys})
			sub := c.Subscribe()
			terminated = 0
			_, err := c.Spawn(t.Context(), tt.name, tt.factory, tt.opts...)
			if err == nil || !strings.Contains(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("got %v, want %q, %v", err, tt.want, tt.is)
			}
			if err != nil && (strings.Contains(err.Error(), "secret") || strings.ContainsAny(err.Error(), "\x1b\u202e")) {
				t.Errorf("the error says %q", err)
			}
			if diff := cmp.Diff([]string{"snapshot of 0"}, told(sub)); diff != "" {
				t.Errorf("a subscriber was told (-want +got):\n%s", diff)
			}
			if n := len(c.Members()); n != 0 {
				t.Errorf("there are %d members", n)
			}
			if made := strings.Contains(name, "perception"); made != (terminated == 1) {
				t.Errorf("its agent was made: %v, and terminated %d times", made, terminated)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			if err := sys.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSpawnRefusesOneAgentTooMany(t *testing.T) {
	c, _ := run(t, community.Config{MaxAgents: 2})
	a := spawn(t, c, "a", &worker{})
	spawn(t, c, "b", &worker{})
	if _, err := c.Spawn(t.Context(), "c", makes(&worker{})); !errors.Is(err, community.ErrBusy) {
		t.Errorf("the third: got %v, want ErrBusy", err)
	}
	if err := c.Terminate(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	spawn(t, c, "c", &worker{})
}

func TestSpawnWithID(t *testing.T) {
	c, _ := run(t, community.Config{})
	a := spawn(t, c, "a", &worker{})
	id := community.MemberID(strings.Repeat("0a", 16))
	b, err := c.Spawn(t.Context(), "b", makes(&worker{}), community.WithID(id))
	if err != nil || b.ID != id {
		t.Fatalf("%+v, %v", b, err)
	}
	for _, bad := range []community.MemberID{a.ID, b.ID, "", "x", id + "0", id[1:] + "g"} {
		if m, err := c.Spawn(t.Context(), "c", makes(&worker{}), community.WithID(bad)); err == nil {
			t.Errorf("spawned %+v", m)
		}
	}
	if r, err := c.Send(t.Context(), b.ID, work("hello")); err != nil || string(r.Data) != "hello" {
		t.Errorf("it answered %q, %v", r.Data, err)
	}
}

func TestSpawnFromWithinAnAgent(t *testing.T) {
	c, _ := run(t, community.Config{})
	parent := &worker{}
	parent.receive = func(ctx context.Context, s community.Signal) (community.Reply, error) {
		m, err := c.Spawn(ctx, "child", makes(&worker{}))
		if err != nil {
			return community.Reply{}, err
		}
		defer c.Terminate(ctx, m.ID)
		return c.Send(ctx, m.ID, s)
	}
	m := spawn(t, c, "parent", parent)
	if r, err := c.Send(t.Context(), m.ID, work("task")); err != nil || string(r.Data) != "task" {
		t.Errorf("got %q, %v", r.Data, err)
	}
	if n := len(c.Members()); n != 1 {
		t.Errorf("%d members are left, want the parent", n)
	}
}

func TestTerminateLetsTheAgentFinishAndTidyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{})
		var steps []string
		release := make(chan bool)
		m := spawn(t, c, "ann", &worker{
			receive: func(context.Context, community.Signal) (community.Reply, error) {
				<-release
				steps = append(steps, "received")
				return community.Reply{Data: []byte("done")}, nil
			},
			terminate: func(ctx context.Context) error {
				if d, ok := ctx.Deadline(); !ok || time.Until(d) != 5*time.Second {
					t.Errorf("terminate was given until %v, %v; want 5s", time.Until(d), ok)
				}
				steps = append(steps, "terminated")
				return nil
			},
		})
		sub := c.Subscribe()
		var calls sync.WaitGroup
		answers := make([]error, 3)
		for i := range answers {
			calls.Go(func() { _, answers[i] = c.Send(context.Background(), m.ID, work("")) })
			synctest.Wait() // the first is being worked on, the others are queued
		}
		ends := make([]error, 2)
		for i := range ends {
			calls.Go(func() { ends[i] = c.Terminate(context.Background(), m.ID) })
		}
		synctest.Wait()
		for _, err := range answers[1:] {
			if !errors.Is(err, community.ErrStopped) {
				t.Errorf("a queued signal got %v, want ErrStopped at once", err)
			}
		}
		if _, err := c.Send(t.Context(), m.ID, work("")); !errors.Is(err, community.ErrStopped) {
			t.Errorf("a new signal got %v, want ErrStopped", err)
		}
		close(release)
		calls.Wait()
		if answers[0] != nil || ends[0] != nil || ends[1] != nil {
			t.Errorf("the one in flight got %v, the terminations %v; want no errors", answers[0], ends)
		}
		if diff := cmp.Diff([]string{"received", "terminated"}, steps); diff != "" {
			t.Errorf("the agent did (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"snapshot of 1", "left ann"}, told(sub)); diff != "" {
			t.Errorf("a subscriber was told (-want +got):\n%s", diff)
		}
		if err := c.Terminate(t.Context(), m.ID); !errors.Is(err, community.ErrNotFound) {
			t.Errorf("terminating it again: got %v, want ErrNotFound", err)
		}
		if _, err := c.Send(t.Context(), m.ID, work("")); !errors.Is(err, community.ErrNotFound) {
			t.Errorf("sending to who left: got %v, want ErrNotFound", err)
		}
	})
}

func TestTerminateCancelsWhatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{Drain: 2 * time.Second})
		var order []string
		m := spawn(t, c, "slow", &worker{
			receive: func(ctx context.Context, _ community.Signal) (community.Reply, error) {
				<-ctx.Done()
				order = append(order, "cancelled")
				return community.Reply{}, ctx.Err()
			},
			terminate: func(context.Context) error { order = append(order, "terminated"); return errors.New("a broken drawer") },
		})
		var call sync.WaitGroup
		var answer error
		call.Go(func() { _, answer = c.Send(context.Background(), m.ID, work("")) })
		synctest.Wait()
		begun := time.Now()
		if err := c.Terminate(t.Context(), m.ID); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("it took %v, want the 2s of Drain", took)
		}
		call.Wait()
		if !errors.Is(answer, community.ErrStopped) {
			t.Errorf("the one in flight got %v, want ErrStopped", answer)
		}
		if diff := cmp.Diff([]string{"cancelled", "terminated"}, order); diff != "" {
			t.Errorf("the agent saw (-want +got):\n%s", diff)
		}
	})
}

func TestAgentThatDoesNotStopLeavesAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := run(t, community.Config{Drain: 2 * time.Second})
		release, terminated := make(chan bool), false
		m := spawn(t, c, "deaf", &worker{
			receive: func(context.Context, community.Signal) (community.Reply, error) {
				<-release
				return community.Reply{}, nil
			},
			terminate: func(context.Context) error { terminated = true; return nil },
		})
		var call sync.WaitGroup
		call.Go(func() { c.Send(context.Background(), m.ID, work("")) })
		synctest.Wait()
		sub := c.Subscribe()
		if err := c.Terminate(t.Context(), m.ID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		if diff := cmp.Diff([]string{"snapshot of 1", "left deaf"}, told(sub)); diff != "" {
			t.Errorf("a subscriber was told (-want +got):\n%s", diff)
		}
		if terminated {
			t.Error("Terminate was called while Receive was running")
		}
		close(release)
		call.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if !terminated {
			t.Error("Terminate was not called after all")
		}
		if diff := cmp.Diff([]string(nil), told(sub)); diff != "" {
			t.Errorf("it left twice (-want +got):\n%s", diff)
		}
	})
}

func TestFailedAgentIsMadeAnewAndLeavesIfItGoesOnFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{})
		var selves []community.Member
		made, terminated := 0, map[int]int{}
		m, err := c.Spawn(t.Context(), "fragile", func(self community.Member) (community.Agent, error) {
			selves = append(selves, self)
			made++
			n := made
			return &worker{
				receive: func(_ context.Context, s community.Signal) (community.Reply, error) {
					if string(s.Data) == "break" {
						panic("secret")
					}
					return community.Reply{Data: fmt.Append(nil, n)}, nil
				},
				terminate: func(context.Context) error { terminated[n]++; return nil },
			}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		sub := c.Subscribe()
		for i := range 6 {
			if r, err := c.Send(t.Context(), m.ID, work("go on")); err != nil || string(r.Data) != fmt.Sprint(i+1) {
				t.Fatalf("after %d failures agent %q answered, %v", i, r.Data, err)
			}
			begun := time.Now()
			_, err := c.Send(t.Context(), m.ID, work("break"))
			if !errors.Is(err, community.ErrAgentFailed) || strings.Contains(err.Error(), "secret") {
				t.Fatalf("got %v, want ErrAgentFailed", err)
			}
			if took := time.Since(begun); took != 0 {
				t.Errorf("the caller waited %v for the failure", took)
			}
		}
		synctest.Wait()
		for _, self := range selves {
			if diff := cmp.Diff(selves[0], self); diff != "" || self.ID != m.ID {
				t.Errorf("the factory was given another member (-first +now):\n%s", diff)
			}
		}
		if made != 6 || len(terminated) != 6 || terminated[1] != 1 || terminated[6] != 1 {
			t.Errorf("%d agents were made, and terminated so often: %v; want 6, each once", made, terminated)
		}
		ch := pending(sub)
		if len(ch) != 2 || ch[1].Kind != community.Left || !strings.Contains(ch[1].Why, "failed too often") ||
			strings.Contains(ch[1].Why, "secret") {
			t.Errorf("a subscriber was told %+v", ch)
		}
	})
}

func TestRestartWhoseFactoryFailsCountsAsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{})
		made := 0
		m, err := c.Spawn(t.Context(), "once", func(community.Member) (community.Agent, error) {
			if made++; made > 1 {
				return nil, errors.New("no more paper")
			}
			return &worker{receive: func(context.Context, community.Signal) (community.Reply, error) { panic("x") }}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Send(t.Context(), m.ID, work(""))
		// This one waits for a restart that never succeeds.
		if _, err := c.Send(t.Context(), m.ID, work("")); !errors.Is(err, community.ErrStopped) {
			t.Errorf("got %v, want ErrStopped", err)
		}
		synctest.Wait()
		if _, ok := c.Member(m.ID); ok {
			t.Error("it is a member still")
		}
	})
}

func TestRunEndsAllAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actor.NewSystem(actor.Config{})
		c, stop := run(t, community.Config{System: sys})
		var mu sync.Mutex
		terminated := 0
		for i := range 100 {
			w := &worker{terminate: func(context.Context) error {
				time.Sleep(time.Second) // side by side, not one after the other
				mu.Lock()
				defer mu.Unlock()
				terminated++
				return nil
			}}
			if i == 50 {
				w.terminate = func(context.Context) error { panic("clumsy") }
			}
			spawn(t, c, fmt.Sprint(i), w)
		}
		sub := c.Subscribe()
		begun := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("it took %v, want 1s", took)
		}
		if terminated != 99 || len(c.Members()) != 0 {
			t.Errorf("%d agents were terminated, %d are left; want 99 and none", terminated, len(c.Members()))
		}
		if n := len(told(sub)); n != 101 {
			t.Errorf("a subscriber was told %d things, want a snapshot and 100 that left", n)
		}
		if _, err := sub.Next(t.Context()); !errors.Is(err, community.ErrStopped) {
			t.Errorf("after the end Next returned %v, want ErrStopped", err)
		}
		if _, err := c.Spawn(t.Context(), "late", makes(&worker{})); !errors.Is(err, community.ErrStopped) {
			t.Errorf("a spawn after the end: got %v, want ErrStopped", err)
		}
		if err := c.Run(t.Context()); err == nil {
			t.Error("it ran a second time")
		}
		if err := sys.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestRunSaysThatItsNetworkFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, failure := range []error{errors.New("no cable"), nil} {
			c := community.New(community.Config{Network: broken{failure}})
			m := spawn(t, c, "ann", &worker{})
			if err := c.Run(t.Context()); err == nil || failure != nil && !errors.Is(err, failure) {
				t.Errorf("got %v, want %v", err, failure)
			}
			if _, ok := c.Member(m.ID); ok {
				t.Error("its agent was not ended")
			}
		}
	})
}

type broken struct{ err error }

func (b broken) Run(context.Context, community.Host) error { return b.err }
func (b broken) Invoke(context.Context, community.NodeID, community.Call) (community.Reply, error) {
	return community.Reply{}, community.ErrUnavailable
}
func (b broken) Tell(community.NodeID, community.Call) error { return community.ErrUnavailable }
