package grpcpeer_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// floor is a plain gRPC unary echo over mutual TLS: what a call between nodes cannot do without.
type floor struct{ pb.UnimplementedPeerServer }

func (floor) Invoke(_ context.Context, r *pb.InvokeRequest) (*pb.InvokeReply, error) {
	return &pb.InvokeReply{Payload: r.GetPayload()}, nil
}

func plain(b *testing.B, l *lan) func(context.Context) error {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(l.identity("server").ServerTLS())))
	pb.RegisterPeerServer(g, floor{})
	var wg sync.WaitGroup
	wg.Go(func() { _ = g.Serve(listener) })
	b.Cleanup(func() { g.Stop(); wg.Wait() })
	c := client(b, l.identity("client"), func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
	})
	request := &pb.InvokeRequest{Capability: "echo", Payload: make([]byte, 100)}
	return func(ctx context.Context) error {
		_, err := c.Invoke(ctx, request)
		return err
	}
}

// BenchmarkInvoke compares a call from one community to another, each in this process, with the floor,
// and the floor with a deadline, which every call between nodes has. Rounds of each take turns, so that
// what else the machine does falls on all; figures are medians.
func BenchmarkInvoke(b *testing.B) {
	l := newLAN(b)
	a, other := l.onLoopback("a"), l.onLoopback("b")
	other.offers("echo", echo)
	a.network.Sight(hintOf(other))
	a.sees("the capability", func([]community.Member) bool { return len(a.WhoProvides("echo")) == 1 })
	ctx, payload, base := context.Background(), make([]byte, 100), plain(b, l)
	ways := []func() error{
		func() error {
			_, err := a.Invoke(ctx, community.MemberID(other.id), "echo", community.Signal{Data: payload})
			return err
		},
		func() error { return base(ctx) },
		func() error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return base(ctx)
		},
	}
	for range 500 { // warm up
		for _, way := range ways {
			if err := way(); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name           string
		callers, calls int
	}{{"sequential", 1, 10}, {"callers=64", 64, 50}} {
		b.Run(c.name, func(b *testing.B) {
			took := make([][]time.Duration, len(ways))
			for round := 0; b.Loop(); round++ {
				for i := range ways {
					if round%2 == 1 { // not always after the same one
						i = len(ways) - 1 - i
					}
					took[i] = append(took[i], crowd(b, c.callers, c.calls, ways[i]))
				}
			}
			ours, floor, deadline := median(took[0]), median(took[1]), median(took[2])
			b.ReportMetric(float64(ours)/float64(floor), "x-floor")
			b.ReportMetric(float64(deadline)/float64(floor), "x-floor-of-deadline")
			b.ReportMetric(float64(c.callers*c.calls)/ours.Seconds(), "calls/s")
			b.ReportMetric(float64(c.callers*c.calls)/floor.Seconds(), "floor-calls/s")
		})
	}
}

// crowd is how long some callers take for some calls each.
func crowd(b *testing.B, callers, calls int, call func() error) time.Duration {
	var wg sync.WaitGroup
	many := func() {
		for range calls {
			if err := call(); err != nil {
				b.Error(err)
				return
			}
		}
	}
	began := time.Now()
	for range callers - 1 {
		wg.Go(many)
	}
	many()
	wg.Wait()
	return time.Since(began)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
