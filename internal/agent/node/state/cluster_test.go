package state

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

func TestClusterIsMadeOnceAndARefusalChangesNothing(t *testing.T) {
	s := Dir(t.TempDir())
	for _, bad := range [][3]string{{"a", "local", ""}, {"a", "lab", "nowhere"}, {"A b", "lab", ""}} {
		if _, err := s.Node(bad[0]).InitCluster(bad[1], bad[2]); err == nil {
			t.Errorf("%q made a cluster", bad)
		}
	}
	first, err := s.Node("a").InitCluster("lab", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Node("a").InitCluster("other", ":1"); !errors.Is(err, identity.ErrClusterExists) {
		t.Errorf("again: got %v, want %v", err, identity.ErrClusterExists)
	}
	if at, err := s.Node("a").ListenAddr(); at != "127.0.0.1:0" || err != nil {
		t.Errorf("it listens on %q, %v; want what was said first", at, err)
	}
	again, err := s.Node("a").Identity()
	if err != nil || again.ID() != first.ID() || again.Authority() != "lab" {
		t.Errorf("the node is %v, %v; want %v", again, err, first)
	}
	// Another node of the same machine is of the cluster too, and keeps to loopback.
	b, err := s.Node("b").Identity()
	if err != nil || b.Authority() != "lab" || b.ID() == first.ID() {
		t.Errorf("the second node is %v, %v; want another one of lab", b, err)
	}
	if at, err := s.Node("b").ListenAddr(); !strings.HasPrefix(at, "127.0.0.1:") || err != nil {
		t.Errorf("the second node listens on %q, %v; want loopback", at, err)
	}
	c, err := s.OpenCluster()
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.NewToken(time.Hour, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Node("a").JoinCluster(t.Context(), "", "127.0.0.1:1", token, nil); err == nil || !strings.Contains(err.Error(), "authority of cluster lab") {
		t.Errorf("joining from where the cluster was made: got %v", err)
	}
}

// statusServer is a running node.
type statusServer struct {
	symbiov1.UnimplementedControlServer
}

func (statusServer) Status(context.Context, *symbiov1.StatusRequest) (*symbiov1.StatusReply, error) {
	return &symbiov1.StatusReply{Pid: 7, Authority: "lab", Started: timestamppb.Now()}, nil
}

func TestOutsiderSaysWhichNodeTheMachineIs(t *testing.T) {
	s := Dir(t.TempDir())
	if _, err := s.Node("a").InitCluster("lab", ":7946"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Node("b").Identity(); err != nil {
		t.Fatal(err)
	}
	got := s.Node("b").Outsider("127.0.0.1:4000")
	if want := "this machine is node a of cluster lab: to be a, run `symbio up --name a`; node b listens on this machine only"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q first", got, want)
	}
	l, err := s.Node("a").ListenControl()
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	symbiov1.RegisterControlServer(server, statusServer{})
	var serving errgroup.Group
	serving.Go(func() error { return server.Serve(l) })
	got = s.Node("b").Outsider("127.0.0.1:4000")
	if want := "this machine is node a of cluster lab: it runs as process 7, in cluster lab, since "; !strings.HasPrefix(got, want) {
		t.Errorf("while it runs: got %q, want %q first", got, want)
	}
	server.Stop()
	if err := serving.Wait(); err != nil {
		t.Error(err)
	}
	if got := s.Node("a").Outsider("127.0.0.1:4000"); got != "" {
		t.Errorf("the node of the cluster is an outsider: %q", got)
	}
}

func TestNodeWithoutAClusterHearsHowToGetOne(t *testing.T) {
	s := Dir(t.TempDir())
	if err := s.Node("a").InCluster(); !errors.Is(err, ErrNoCluster) {
		t.Errorf("before it ran: got %v, want %v", err, ErrNoCluster)
	}
	i, err := s.Node("a").Identity()
	if err != nil || i.Authority() != identity.Local {
		t.Errorf("it is %v, %v; want of the local authority", i, err)
	}
	if err := s.Node("a").InCluster(); !errors.Is(err, ErrNoCluster) {
		t.Errorf("got %v, want %v", err, ErrNoCluster)
	}
	if _, err := s.OpenCluster(); !errors.Is(err, ErrNoAuthority) {
		t.Errorf("got %v, want %v", err, ErrNoAuthority)
	}
}
