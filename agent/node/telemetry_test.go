//go:build unix

package node_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/health/grpc_health_v1"

	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/internal/agent/node/state"
)

func TestNodeSaysOnItsSocketThatItServes(t *testing.T) {
	dir, err := os.MkdirTemp("", "sy") // short: a socket lives below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := config.Default()
	c.Node.Name, c.Node.Listen, c.Discovery.MDNS, c.Skills.Enabled, c.Reports.Metrics = "one", "127.0.0.1:0", false, false, "127.0.0.1:0"
	kept := state.Dir(filepath.Join(dir, "state"))
	options := node.Config{Settings: c, State: kept, Dir: dir, Home: dir, Getenv: func(string) string { return "" }}
	if err := node.Run(t.Context(), options, func(ctx context.Context, _ *node.Node) error {
		conn, err := kept.Node("one").Dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		reply, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil && reply.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("a node that runs is %v", reply.GetStatus())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	options.Settings.Reports.Metrics = "192.0.2.1:1" // an address of no machine
	if _, err := node.New(options); err == nil {
		t.Error("a node that cannot serve its metrics starts")
	}
}
