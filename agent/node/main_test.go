package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"symbio/agent/node"
	"symbio/agent/node/config"
)

// TestMain gives nodes a home of their own: examples do not name one.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	home, err := os.MkdirTemp("", "sy")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(home)
	for _, name := range []string{"HOME", "USERPROFILE", "XDG_STATE_HOME", "LOCALAPPDATA"} {
		if err := os.Setenv(name, home); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	return m.Run()
}

func TestRunEndsWithTheNodeAndWithItsFunction(t *testing.T) {
	settings := config.Default()
	settings.Discovery.MDNS = false
	failed := errors.New("failed")
	if err := node.Run(t.Context(), node.Config{Settings: settings}, func(context.Context, *node.Node) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("run = %v, want the error of the function", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	if err := node.Run(ctx, node.Config{Settings: settings}, func(ctx context.Context, _ *node.Node) error {
		stop()
		<-ctx.Done()
		return nil
	}); err != nil {
		t.Errorf("run = %v when its context ends", err)
	}
	settings.Node.Listen = "nonsense"
	if err := node.Run(t.Context(), node.Config{Settings: settings}, func(context.Context, *node.Node) error {
		t.Error("the function was called for a node that cannot be")
		return nil
	}); err == nil {
		t.Error("a node that cannot be ran")
	}
}
