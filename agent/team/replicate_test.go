package team

import (
	"context"
	"errors"
	"strings"
	"testing"
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
		team := New(Config{
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
		})
		got := team.replicate(t.Context(), replicateArgs{Reason: "r", Task: "t"})
		if strings.Contains(got.Text, `"working":true`) != want.working || strings.Contains(got.Text, "no constraints") == want.working {
			t.Errorf("%s: got %s", name, got.Text)
		}
		team.Close(t.Context())
	}
}
