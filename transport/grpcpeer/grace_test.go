package grpcpeer_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

// A node that was away for longer than its certificate lasts is renewed by the authority alone, and
// is connected to all again.
func TestNodeComesBackAfterItsCertificateEnded(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name  string
		away  time.Duration
		grace time.Duration // 0 = the default
		gone  bool          // removed meanwhile
		why   string        // "" = it comes back
	}{
		{name: "within the grace time", away: 20 * day},
		{name: "past the grace time", away: 40 * day, why: "join again"},
		{name: "past a shorter grace time", away: 20 * day, grace: 3 * day, why: "is renewed for 72h0m0s after that"},
		{name: "removed meanwhile", away: 20 * day, gone: true, why: "symbio cluster leave"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newCluster(t)
				l.tune = func(cfg *grpcpeer.Config) { cfg.Limits.Grace = c.grace }
				bob := l.identity("bob")
				time.Sleep(c.away)
				if !bob.Expired() {
					t.Fatal("bob's certificate has not ended")
				}
				if c.gone {
					if err := l.cluster.Remove(bob.ID()); err != nil {
						t.Fatal(err)
					}
				}
				server, friend, s := l.add(seed), l.add("ann"), l.addAs(bob, "bob")
				holder, ann, h := server.live(seed), friend.live("ann"), s.live("bob")
				s.Network.AddHint(friend.Hint()) // first the one that cannot help
				time.Sleep(time.Second)
				if st, ok := h.status(ann.id, grpcpeer.StateUnavailable); !ok || !strings.Contains(st.Why, "certificate has ended") {
					t.Errorf("ann is %+v, want that bob's own certificate is what is wrong", st)
				}
				s.Network.AddHint(server.Hint())
				if c.why != "" {
					time.Sleep(5 * time.Second)
					if st, ok := h.status(holder.id, grpcpeer.StateRefused); !ok || !strings.Contains(st.Why, c.why) || !bob.Expired() {
						t.Errorf("the authority is %+v, want it refused with %q", st, c.why)
					}
					return
				}
				h.finds(holder.id)
				h.finds(ann.id)
				if bob.Expired() {
					t.Error("bob is connected with a certificate that has ended")
				}
			})
		})
	}
}

// A certificate that has ended opens nothing but the renewal.
func TestEndedCertificateReachesOnlyRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t)
		bob := l.identity("bob")
		time.Sleep(10 * 24 * time.Hour)
		server := l.add(seed)
		server.live(seed).offers("echo", echo)
		for _, at := range []string{"the gate", "the peers' server"} {
			cfg := bob.ProtocolClientTLS(identity.JoinProtocol, "")
			if at != "the gate" {
				cfg = bob.ClientTLS("")
			}
			cc, err := grpc.NewClient("passthrough:///x",
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return server.Listener.Dial(ctx) }),
				grpc.WithTransportCredentials(rawTLS{TransportCredentials: credentials.NewTLS(cfg), cfg: cfg}))
			if err != nil {
				t.Fatal(err)
			}
			p, trust, ctx := pb.NewPeerClient(cc), pb.NewTrustClient(cc), in(t, patience)
			_, describe := p.Describe(ctx, &pb.DescribeRequest{})
			_, invoke := p.Invoke(ctx, &pb.InvokeRequest{Capability: "echo"})
			_, show := trust.Show(ctx, &pb.ShowRequest{})
			_, prepare := trust.Prepare(ctx, &pb.PrepareRequest{})
			for method, err := range map[string]error{"Describe": describe, "Invoke": invoke, "Show": show, "Prepare": prepare} {
				if c := status.Code(err); c != codes.Unimplemented && c != codes.Unavailable {
					t.Errorf("%s at %s: got %v, want it not to be there", method, at, err)
				}
			}
			if _, err := pb.NewJoinClient(cc).Join(ctx, &pb.JoinRequest{}); err == nil {
				t.Errorf("a join without a token at %s was answered", at)
			}
			cc.Close()
		}
	})
}
