package control

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/agent/node/fleet"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/transport/grpcpeer"

	"google.golang.org/grpc/health"
)

// manyAgents are more agents than fit into what gRPC sends ahead.
type manyAgents struct{}

func (manyAgents) Activities() (all []agent.Activity) {
	for i := range 3000 {
		all = append(all, agent.Activity{Member: community.Member{ID: community.MemberID(fmt.Sprintf("%032x", i)), Name: strings.Repeat("x", 100)}, Task: strings.Repeat("y", 200)})
	}
	return all
}
func (manyAgents) Activity(community.MemberID) (agent.Activity, bool) { return agent.Activity{}, false }
func (manyAgents) Used() agent.ModelUsage                             { return agent.ModelUsage{} }

func TestSlowClientReadsWhyItWasDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		events := event.NewStream("a")
		f := fleet.New(fleet.Config{
			Node: "a", Name: "a", Started: time.Now(), Agents: manyAgents{}, Events: events,
			Nodes: func() []grpcpeer.NodeStatus { return []grpcpeer.NodeStatus{{ID: "a", State: grpcpeer.StateSelf}} },
		})
		running.Go(func() { _ = f.Run(ctx) })
		s := NewServer(Config{Fleet: f, Health: health.NewServer()})
		l := bufconn.Listen(64 << 10)
		running.Go(func() { _ = s.Serve(l) })
		conn, err := grpc.NewClient("passthrough:a", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		client := symbiov1.NewControlClient(conn)
		watch, err := client.WatchFleet(ctx, &symbiov1.FleetRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for range 60 { // it reads nothing of what happens
			time.Sleep(time.Second)
			events.Warn("x", "")
		}
		for agents := 0; ; {
			c, err := watch.Recv()
			if err == nil {
				agents += len(c.GetAgents())
				continue
			}
			if s := status.Convert(err); s.Code() != codes.ResourceExhausted || !strings.Contains(s.Message(), "was not read in time") {
				t.Errorf("after %d agents the watcher reads %v", agents, err)
			}
			break
		}
		again, err := client.WatchFleet(ctx, &symbiov1.FleetRequest{Once: true})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := again.Recv(); err != nil || len(c.GetAgents()) != 3000 {
			t.Errorf("a client that reads gets %d agents, %v", len(c.GetAgents()), err)
		}
		stop()
		conn.Close()
		s.Stop()
		running.Wait()
	})
}
