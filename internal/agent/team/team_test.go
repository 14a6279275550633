package team

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/budget"
	"symbio/agent/conversation"
	"symbio/community"
	"symbio/internal/agent/workspace"
)

// fakeHandle is a sub-agent that runs until gone is set.
type fakeHandle struct {
	gone  error
	steer func(text string) (conversation.Receipt, error)
	doing string
	stops int
}

func (h *fakeHandle) Stop(context.Context) { h.stops++ }

func (h *fakeHandle) Gone() error { return h.gone }

func (h *fakeHandle) Steer(_ context.Context, text string) (conversation.Receipt, error) {
	return h.steer(text)
}

func (h *fakeHandle) Activity() string { return h.doing }

// newTeam returns a team whose tasks are answered by send.
func newTeam(t *testing.T, send func(ctx context.Context, to community.MemberID) (community.Reply, error)) *Team {
	team := New(func() Config {
		return Config{
			Definition:      "general",
			Fix:             func(ctx context.Context) context.Context { return ctx },
			OnBehalf:        func(context.Context, *Child) ([]byte, error) { return nil, nil },
			Deadline:        func() (time.Time, error) { return time.Now().Add(time.Hour), nil },
			Done:            func(*Child, string, error) {},
			PendingSteering: func() int { return 0 },
			Send: func(ctx context.Context, to community.MemberID, _ community.Signal) (community.Reply, error) {
				return send(ctx, to)
			},
		}
	})
	t.Cleanup(func() { team.Close(context.Background()) })
	return team
}

// change changes the Config of a team.
func change(team *Team, how func(*Config)) {
	cfg := team.cfg()
	how(&cfg)
	team.cfg = func() Config { return cfg }
}

// add adds a sub-agent with a task; nil = it has none.
func add(t *testing.T, team *Team, name string, h Handle, one *task) *Child {
	t.Helper()
	c := &Child{Member: community.Member{ID: community.MemberID("id of " + name), Name: name, Accepts: []string{"text"}}, Handle: h, Account: budget.New(budget.Limits{}), task: one}
	if one != nil && one.cancel == nil {
		one.cancel = func() {}
	}
	if err := team.Add(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// decoded returns the states in a result of wait_agents, without what was spent.
func decoded(t *testing.T, text string) (agents []status, note string) {
	t.Helper()
	var reply struct {
		Agents []status
		Note   string
	}
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for i := range reply.Agents {
		reply.Agents[i].Spent, reply.Agents[i].AgentID = budget.Spent{}, ""
	}
	return reply.Agents, reply.Note
}

func TestWaitReportsTheStateOfEachSubAgent(t *testing.T) {
	team := newTeam(t, nil)
	lost := errors.New("its node is gone")
	add(t, team, "idle", &fakeHandle{}, nil)
	add(t, team, "ended", &fakeHandle{gone: lost}, nil)
	add(t, team, "busy", &fakeHandle{doing: "reading"}, &task{})
	add(t, team, "queued", &fakeHandle{doing: "second"}, &task{}).Account = nil
	add(t, team, "ready", &fakeHandle{}, &task{done: true, text: "42"})
	add(t, team, "failed", &fakeHandle{}, &task{done: true, err: errors.New("no paper")})
	add(t, team, "lost", &fakeHandle{gone: lost}, &task{done: true, err: community.ErrUnavailable})
	late := add(t, team, "late", &fakeHandle{}, &task{done: true, reported: true, text: "old"})
	late.undelivered = []string{"hurry"}
	add(t, team, "known", &fakeHandle{}, &task{done: true, reported: true, text: "old"})
	named := []string{"idle", "ended"}
	for _, tt := range []struct {
		names []string
		want  []status
	}{
		{named, []status{{Name: "idle", Status: "idle"}, {Name: "ended", Status: "gone", Error: "its node is gone"}}},
		{nil, []status{
			{Name: "busy", Status: "working", Doing: "reading"}, {Name: "queued", Status: "waiting", Doing: "second"}, {Name: "ready", Status: "done", Result: "42"},
			{Name: "failed", Status: "failed", Error: "no paper"}, {Name: "lost", Status: "failed", Error: "its node is gone"},
			{Name: "late", Status: "done", Result: "old", Undelivered: []string{"hurry"}},
		}},
		{nil, []status{{Name: "busy", Status: "working", Doing: "reading"}, {Name: "queued", Status: "waiting", Doing: "second"}}},
	} {
		got, _ := decoded(t, team.wait(t.Context(), waitArgs{Agents: tt.names, Until: "now"}).Text)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("of %v: -want +got\n%s", tt.names, diff)
		}
	}
}

func TestWaitEndsWhenItsSubAgentsAreDone(t *testing.T) {
	for until, want := range map[string]time.Duration{"all": 2 * time.Second, "any": time.Second, "now": 0} {
		synctest.Test(t, func(t *testing.T) {
			team := newTeam(t, func(ctx context.Context, to community.MemberID) (community.Reply, error) {
				if time.Sleep(time.Second); to == "id of b" {
					time.Sleep(time.Second)
				}
				return community.Reply{Data: []byte("done")}, nil
			})
			for _, name := range []string{"a", "b"} {
				add(t, team, name, &fakeHandle{}, nil)
				if got := team.message(t.Context(), messageArgs{Agent: name, Message: "go, " + name}); got.IsError {
					t.Fatal(got.Text)
				}
			}
			add(t, team, "idle", &fakeHandle{}, nil)
			begun := time.Now()
			agents, note := decoded(t, team.wait(t.Context(), waitArgs{Until: until}).Text)
			if took := time.Since(begun); took != want || len(agents) != 2 || note != "" {
				t.Errorf("until %s: %v and %q after %v, want it after %v", until, agents, note, took, want)
			}
			time.Sleep(time.Minute)
		})
	}
}

func TestWaitEndsWhenItIsOfNoUse(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for about, tt := range map[string]struct {
		ctx  context.Context
		args waitArgs
		prep func(*Team, *Child) // changes the team, or the sub-agent that works
		want string
		took time.Duration
	}{
		"late":      {args: waitArgs{Seconds: 3}, want: "1 of them still work.", took: 3 * time.Second},
		"cancelled": {ctx: ended, want: "The waiting ended: context canceled. 1 of them still work."},
		"steered": {prep: func(team *Team, _ *Child) {
			change(team, func(c *Config) { c.PendingSteering = func() int { return 1 } })
		}, want: "A message for you came meanwhile", took: steeringInterval},
		"stuck": {prep: func(team *Team, c *Child) {
			c.queued = true
			add(t, team, "idle", &fakeHandle{}, nil)
			add(t, team, "keeper", &fakeHandle{}, &task{done: true}).Workspace = &Workspace{}
		}, want: "1 tasks wait for a place."},
		"not stuck": {args: waitArgs{Seconds: 3}, prep: func(team *Team, c *Child) {
			c.queued = true
			add(t, team, "keeper", &fakeHandle{}, &task{done: true}).Workspace = &Workspace{}
			add(t, team, "worker", &fakeHandle{}, &task{})
		}, want: "of them still work.", took: 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			team := newTeam(t, nil)
			c := add(t, team, "a", &fakeHandle{}, &task{})
			if tt.prep != nil {
				tt.prep(team, c)
			}
			ctx := tt.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			begun := time.Now()
			_, note := decoded(t, team.wait(ctx, tt.args).Text)
			if took := time.Since(begun); !strings.Contains(note, tt.want) || took != tt.took {
				t.Errorf("%s: %q after %v, want %q after %v", about, note, took, tt.want, tt.took)
			}
		})
	}
}

func TestMessageRefusesWhatCannotBeSaid(t *testing.T) {
	team := newTeam(t, func(context.Context, community.MemberID) (community.Reply, error) { return community.Reply{}, nil })
	add(t, team, "ann", &fakeHandle{}, nil)
	add(t, team, "gone", &fakeHandle{gone: errors.New("stopped by a person")}, nil)
	add(t, team, "queued", &fakeHandle{}, nil).Account = nil
	for about, tt := range map[string]struct{ agent, text, want string }{
		"nothing":           {"ann", " \n", "the text is empty"},
		"no text":           {"ann", "\xff", "the text is empty"},
		"too much":          {"ann", strings.Repeat("x", MaxText+1), "256 KiB to say meanwhile"},
		"to one that ended": {"gone", "go", "gone is gone: stopped by a person"},
		"to a task":         {"queued", "go", "queued was not started"},
		"to a stranger":     {"bob", "go", `you have no sub-agent "bob"`},
	} {
		if got := team.message(t.Context(), messageArgs{Agent: tt.agent, Message: tt.text}); !got.IsError || !strings.Contains(got.Text, tt.want) {
			t.Errorf("%s: %.200q, want an error with %q", about, got.Text, tt.want)
		}
	}
	if got := team.message(t.Context(), messageArgs{Agent: "ann", Message: strings.Repeat("x", MaxText)}); got.IsError {
		t.Errorf("as much as may be said: %.200q", got.Text)
	}
}

func TestReplicateCountHasALimit(t *testing.T) {
	team := newTeam(t, nil)
	made := 0
	change(team, func(c *Config) {
		c.Spawn = func(_ context.Context, r SpawnRequest) (*Child, error) {
			made++
			return add(t, team, r.Name, &fakeHandle{}, nil), nil
		}
	})
	for count, want := range map[int]int{-1: 0, maxCount: maxCount, maxCount + 1: 0} {
		made = 0
		if got := team.replicate(t.Context(), replicateArgs{Reason: "r", Name: "n", Count: count}); made != want || got.IsError != (want == 0) {
			t.Errorf("of %d were %d spawned, want %d: %s", count, made, want, got.Text)
		}
	}
}

func TestDifferenceForAPersonIsBounded(t *testing.T) {
	step := func(n int) workspace.Step { return workspace.Step{Action: "changed", Diff: strings.Repeat("x", n)} }
	if got := Diff([]workspace.Step{step(maxDiff / 2), step(maxDiff / 2)}, maxDiff); got != strings.Repeat("x", maxDiff) {
		t.Errorf("%d bytes, want all %d", len(got), maxDiff)
	}
	if got := Diff([]workspace.Step{step(maxDiff), step(1), step(1)}, maxDiff); len(got) > maxDiff+100 || !strings.HasSuffix(got, "x\n\\ the rest of the difference is left out\n") {
		t.Errorf("%d bytes that end with %q", len(got), got[max(0, len(got)-60):])
	}
	if got := Diff([]workspace.Step{{Action: "added", Path: "a.bin", After: workspace.File{Size: 7}}}, maxDiff); got != "\\ added: a.bin, 7 bytes that are no text\n" {
		t.Errorf("a file without a difference: %q", got)
	}
}

// The race detector sees a team that is used without its lock.
func TestTeamMayBeUsedByManyGoroutines(t *testing.T) {
	for range 50 {
		team := newTeam(t, func(context.Context, community.MemberID) (community.Reply, error) { return community.Reply{}, nil })
		steer := func(string) (conversation.Receipt, error) {
			return conversation.Receipt{Outcome: conversation.Returned}, nil
		}
		add(t, team, "a", &fakeHandle{steer: steer}, &task{done: true})
		add(t, team, "b", &fakeHandle{steer: steer}, &task{done: true})
		var all sync.WaitGroup
		for _, use := range []func(){
			func() { team.wait(t.Context(), waitArgs{Until: "now"}) },
			func() { team.wait(t.Context(), waitArgs{Until: "any"}) },
			func() { team.wait(t.Context(), waitArgs{}) },
			func() { team.message(t.Context(), messageArgs{Agent: "a", Message: "go"}) },
			func() { team.message(t.Context(), messageArgs{Agent: "a", Message: "go on"}) },
			func() { team.message(t.Context(), messageArgs{Agent: "b", Message: "go too"}) },
			func() { _ = team.Add(&Child{Member: community.Member{Name: "c"}, Handle: &fakeHandle{}}) },
			func() { team.IsClosed() },
		} {
			all.Go(use)
		}
		all.Wait()
	}
}
