package team

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent/budget"
	"symbio/community"
)

// runningHandle is a sub-agent that runs. Its other methods are not called.
type runningHandle struct{ Handle }

func (runningHandle) Gone() error { return nil }

func (runningHandle) Stop(context.Context) {}

func TestReplicateReportsUnassignedTask(t *testing.T) {
	noConstraints := errors.New("no constraints")
	for name, want := range map[string]struct {
		fail    error
		working bool
	}{"assigned": {nil, true}, "not assigned": {noConstraints, false}} {
		team := New(func() Config {
			return Config{
				Definition: "general",
				Spawn: func(context.Context, SpawnRequest) (*Child, error) {
					return &Child{Member: community.Member{ID: "m1", Name: "helper", Accepts: []string{"text"}}, Handle: runningHandle{}, Account: budget.New(budget.Limits{})}, nil
				},
				NextName: func() string { return "helper" },
				Fix:      func(ctx context.Context) context.Context { return ctx },
				OnBehalf: func(context.Context, *Child) ([]byte, error) { return nil, want.fail },
				Send: func(context.Context, community.MemberID, community.Signal) (community.Reply, error) {
					return community.Reply{}, nil
				},
				Deadline: func() (time.Time, error) { return time.Now().Add(time.Hour), nil },
				Done:     func(*Child, string, error) {},
				Repeat:   func(*Child, SpawnRequest, int) bool { return false },
			}
		})
		got := team.replicate(t.Context(), replicateArgs{Reason: "r", Task: "t"})
		if strings.Contains(got.Text, `"working":true`) != want.working || strings.Contains(got.Text, "no constraints") == want.working {
			t.Errorf("%s: got %s", name, got.Text)
		}
		team.Close(t.Context())
	}
}

// A task whose node is lost while the queue is full waits until there is room, and is not refused, since it was begun.
func TestLostTaskWaitsForRoomInQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spawns, sends := 0, 0
		var ended error
		team := New(func() Config {
			return Config{
				Spawn: func(context.Context, SpawnRequest) (*Child, error) {
					if spawns++; spawns > 1 && spawns < 10 {
						return nil, community.ErrBusy
					}
					return &Child{Member: community.Member{ID: "m1", Name: "helper", Accepts: []string{"text"}}, Handle: runningHandle{}, Account: budget.New(budget.Limits{})}, nil
				},
				Fix:      func(ctx context.Context) context.Context { return ctx },
				OnBehalf: func(context.Context, *Child) ([]byte, error) { return nil, nil },
				Send: func(context.Context, community.MemberID, community.Signal) (community.Reply, error) {
					if sends++; sends == 1 {
						return community.Reply{}, community.ErrUnavailable
					}
					return community.Reply{}, nil
				},
				Deadline: func() (time.Time, error) { return time.Now().Add(time.Hour), nil },
				Done:     func(_ *Child, _ string, err error) { ended = err },
				Repeat:   func(*Child, SpawnRequest, int) bool { return true },
			}
		})
		if _, err := team.launch(t.Context(), SpawnRequest{Name: "helper"}, "", "t"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		team.Close(t.Context())
		if ended != nil || spawns != 10 || sends != 2 {
			t.Errorf("it ended with %v after %d spawns and %d sends, want none, 10 and 2", ended, spawns, sends)
		}
	})
}
