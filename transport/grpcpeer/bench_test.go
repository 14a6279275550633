//go:build unix

package grpcpeer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

const (
	// benchEnv makes a child serve the floors, too, and as many calls at a time as a benchmark makes.
	benchEnv = "SYMBIO_TEST_BENCH"
	crowded  = 2048
)

// floor is what plain gRPC does with its defaults: a unary echo, and a bare stream that echoes frames.
type floor struct{ pb.UnimplementedPeerServer }

func (floor) Invoke(_ context.Context, r *pb.InvokeRequest) (*pb.InvokeReply, error) {
	return &pb.InvokeReply{Payload: r.GetPayload()}, nil
}

func (floor) Link(s grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error {
	for {
		f, err := s.Recv()
		if err != nil {
			return err
		}
		if len(f.GetSends()) > 0 { // which are for reading only
			continue
		}
		c := f.GetCalls()[0]
		if err := s.Send(&pb.Frame{Answers: []*pb.Answer{{Id: c.GetId(), Payload: c.GetRequest().GetPayload()}}}); err != nil {
			return err
		}
	}
}

// serveFloors serves them in a child until it ends.
func serveFloors(id *identity.Identity) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(id.ServerTLS())))
	pb.RegisterPeerServer(g, floor{})
	go func() { _ = g.Serve(listener) }()
	fmt.Println(listener.Addr())
}

// worker is an agent that answers at once.
type worker struct{ handled *tally }

func (worker) Perceptions() []string { return []string{"work"} }

func (w worker) Receive(_ context.Context, s community.Signal) (community.Reply, error) {
	w.handled.add()
	return community.Reply{Data: s.Data}, nil
}

// tally lets a caller wait until something has been counted so often.
type tally struct {
	mu    sync.Mutex
	n     int
	until int
	there chan struct{}
}

func newTally() *tally { return &tally{until: -1} }

func (t *tally) add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n++; t.n == t.until {
		close(t.there)
	}
}

// wait is a capability: it answers when so many more were counted as the payload says, and counts anew.
// An empty one only counts anew.
func (t *tally) wait(_ context.Context, s community.Signal) (community.Reply, error) {
	t.mu.Lock()
	n, err := strconv.Atoi(string(s.Data))
	if t.there = make(chan struct{}); t.n >= n {
		close(t.there)
	}
	t.until = n
	there := t.there
	t.mu.Unlock()
	<-there
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n, t.until = 0, -1
	return community.Reply{}, err
}

// spent is what a process has used.
type spent struct {
	CPU  time.Duration
	Peak int // KiB of memory
}

func used() spent {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	all, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(all), "VmHWM:")
	peak := 0
	if f := strings.Fields(rest); len(f) > 0 {
		peak, _ = strconv.Atoi(f[0])
	}
	return spent{time.Duration(r.Utime.Nano() + r.Stime.Nano()), peak}
}

// usage is a capability of the child: what it has used. Any payload makes the peak begin anew.
func usage(_ context.Context, s community.Signal) (community.Reply, error) {
	if len(s.Data) > 0 {
		forget()
	}
	b, err := json.Marshal(used())
	return community.Reply{Data: b}, err
}

// forget makes the peak of this process's memory begin anew.
func forget() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// way is one of the ways to make a call; it returns how long the answer is.
type way struct {
	name string
	call func(ctx context.Context, payload []byte) (int, error)
}

// rig is a node in a process of its own, and the ways to call it from this one.
type rig struct {
	child *child
	home  *home
	ways  []way
}

// Ways in the order of rig.ways.
const (
	overLink = iota
	plainUnary
	plainStream
)

func newRig(b *testing.B) *rig {
	b.Helper()
	l := newLAN(b)
	c := l.child(benchEnv + "=1")
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", c.floors) }
	r := &rig{child: c, ways: make([]way, 3)}
	h := l.onLoopback("caller", func(cfg *grpcpeer.Config) { cfg.Limits.Calls = crowded })
	h.network.AddHint(c.hint)
	h.sees("the agent", func([]community.Member) bool { return len(h.WhoCanReceive("work")) == 1 })
	agent := h.WhoCanReceive("work")[0].ID
	r.ways[overLink] = way{"link", func(ctx context.Context, payload []byte) (int, error) {
		reply, err := h.Send(ctx, agent, community.Signal{Perception: "work", Data: payload})
		return len(reply.Data), err
	}}
	r.home = h
	unary := client(b, l.identity("plain"), dial)
	r.ways[plainUnary] = way{"unary", func(ctx context.Context, payload []byte) (int, error) {
		reply, err := unary.Invoke(ctx, &pb.InvokeRequest{Capability: "echo", Payload: payload})
		return len(reply.GetPayload()), err
	}}
	r.ways[plainStream] = way{"stream", bareStream(b, client(b, l.identity("streaming"), dial))}
	return r
}

// bareStream makes calls over one stream, a message each, found again by id.
func bareStream(b *testing.B, c pb.PeerClient) func(context.Context, []byte) (int, error) {
	b.Helper()
	s, err := c.Link(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var last atomic.Uint64
	var sending sync.Mutex
	var waiting sync.Map
	go func() {
		for {
			f, err := s.Recv()
			if err != nil {
				return
			}
			w, _ := waiting.LoadAndDelete(f.GetAnswers()[0].GetId())
			w.(chan int) <- len(f.GetAnswers()[0].GetPayload())
		}
	}()
	return func(_ context.Context, payload []byte) (int, error) {
		id, answer := last.Add(1), make(chan int, 1)
		waiting.Store(id, answer)
		sending.Lock()
		err := s.Send(&pb.Frame{Calls: []*pb.Call{{Id: id, Request: &pb.InvokeRequest{Capability: "echo", Payload: payload}}}})
		sending.Unlock()
		if err != nil {
			return 0, err
		}
		return <-answer, nil
	}
}

// cpu is what both processes have used.
func (r *rig) cpu(b *testing.B) time.Duration {
	return used().CPU + r.child.usage(b, r.home, "").CPU
}

func (c *child) usage(b *testing.B, h *home, reset string) (s spent) {
	b.Helper()
	reply, err := h.Invoke(b.Context(), community.MemberID(c.hint.Node), "usage", community.Signal{Data: []byte(reset)})
	if err == nil {
		err = json.Unmarshal(reply.Data, &s)
	}
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// figure is what one round of one way took.
type figure struct{ p50, call, cpu time.Duration }

// BenchmarkCalls compares a call to an agent of a node in another process, over Link, with
// plain gRPC. Rounds of each take turns, so that what else the machine does falls on all; figures are
// medians, and the spread of a ratio is from its lower to its upper quartile.
func BenchmarkCalls(b *testing.B) {
	r := newRig(b)
	for _, size := range []int{100, 64 << 10} {
		for _, callers := range []int{1, 64, 1000} {
			calls := 20000
			switch {
			case callers == 1:
				calls = 500
			case size > 1000:
				calls = 2000
			}
			b.Run(fmt.Sprintf("%dB/callers=%d", size, callers), func(b *testing.B) {
				payload := bytes.Repeat([]byte("x"), size)
				took := make([][]figure, len(r.ways))
				for round := 0; b.Loop(); round++ {
					for i := range r.ways {
						w := (i + round) % len(r.ways) // not always after the same one
						took[w] = append(took[w], r.round(b, r.ways[w], payload, callers, calls))
					}
				}
				b.ReportMetric(0, "ns/op")
				for i, w := range r.ways {
					report(b, w.name, took[i], took[plainUnary])
				}
			})
		}
	}
}

func report(b *testing.B, name string, of, floor []figure) { reportTo(b, name, of, floor, "unary") }

func reportTo(b *testing.B, name string, of, floor []figure, base string) {
	for _, m := range []struct {
		name string
		of   func(figure) float64
	}{
		{"p50", func(f figure) float64 { return float64(f.p50) }},
		{"rate", func(f figure) float64 { return 1 / float64(f.call) }},
		{"cpu", func(f figure) float64 { return float64(f.cpu) }},
	} {
		ratios := make([]float64, len(of))
		for i := range of {
			ratios[i] = m.of(of[i]) / m.of(floor[i])
		}
		slices.Sort(ratios)
		if name != base {
			b.ReportMetric(ratios[len(ratios)/2], name+"-"+m.name+"-x-"+base)
			b.Logf("%s %s: %.2f (%.2f to %.2f) of %s's", name, m.name, ratios[len(ratios)/2], ratios[len(ratios)/4],
				ratios[len(ratios)*3/4], base)
		}
	}
	calls := make([]float64, len(of))
	p50, cpu := make([]float64, len(of)), make([]float64, len(of))
	for i, f := range of {
		calls[i], p50[i], cpu[i] = 1/f.call.Seconds(), f.p50.Seconds()*1e6, f.cpu.Seconds()*1e6
	}
	for _, s := range [][]float64{calls, p50, cpu} {
		slices.Sort(s)
	}
	b.Logf("%s: %.0f calls/s, p50 %.0f us, CPU %.1f us", name, calls[len(of)/2], p50[len(of)/2], cpu[len(of)/2])
}

// round makes calls from some callers at once.
func (r *rig) round(b *testing.B, w way, payload []byte, callers, calls int) figure {
	var wg sync.WaitGroup
	took := make([]time.Duration, callers*(calls/callers))
	cpu, began := r.cpu(b), time.Now()
	for c := range callers {
		wg.Go(func() {
			for i := range calls / callers {
				start := time.Now()
				if n, err := w.call(b.Context(), payload); err != nil || n != len(payload) {
					b.Errorf("%s: %d bytes, %v", w.name, n, err)
					return
				}
				took[c*(calls/callers)+i] = time.Since(start)
			}
		})
	}
	wg.Wait()
	each := time.Since(began) / time.Duration(len(took))
	cpu = r.cpu(b) - cpu
	slices.Sort(took)
	return figure{took[len(took)/2], each, cpu / time.Duration(len(took))}
}

// BenchmarkMemory is what each process needs at the most for 1000 callers of 64 KiB. Link goes first:
// what unary calls leave behind would count for it.
func BenchmarkMemory(b *testing.B) {
	r := newRig(b)
	payload := make([]byte, 64<<10)
	for _, w := range []int{overLink, plainUnary} {
		b.Run(r.ways[w].name, func(b *testing.B) {
			caller, callee := 0, 0
			for b.Loop() {
				forget()
				r.child.usage(b, r.home, "forget")
				r.round(b, r.ways[w], payload, 1000, 4000)
				caller, callee = max(caller, used().Peak), max(callee, r.child.usage(b, r.home, "").Peak)
			}
			b.ReportMetric(float64(caller)/1024, "caller-MiB")
			b.ReportMetric(float64(callee)/1024, "callee-MiB")
		})
	}
}

// BenchmarkFrozen is how much a node grows that goes on calling one that is stopped, for two of the
// three seconds until it is taken for lost: 1000 callers of 64 KiB who wait 50 ms each.
func BenchmarkFrozen(b *testing.B) {
	grown := 0
	for b.Loop() {
		r := newRig(b)
		payload := make([]byte, 64<<10)
		r.round(b, r.ways[overLink], payload, 64, 640)
		_ = r.child.Process.Signal(syscall.SIGSTOP)
		forget()
		before := used().Peak
		over := time.Now().Add(2 * time.Second)
		var wg sync.WaitGroup
		var calls atomic.Int64
		for range 1000 {
			wg.Go(func() {
				for time.Now().Before(over) {
					ctx, cancel := context.WithTimeout(b.Context(), 50*time.Millisecond)
					_, _ = r.ways[overLink].call(ctx, payload)
					cancel()
					calls.Add(1)
				}
			})
		}
		wg.Wait()
		grown = max(grown, used().Peak-before)
		_ = r.child.Process.Signal(syscall.SIGCONT)
		b.ReportMetric(float64(calls.Load()), "calls")
	}
	b.ReportMetric(float64(grown)/1024, "growth-MiB")
}

// tellRig is a node that is told, and a bare stream beside it.
type tellRig struct {
	*rig
	agent  community.MemberID
	stream grpc.BidiStreamingClient[pb.Frame, pb.Frame]
}

// told has a node of its own told so often, from some goroutines, and returns when all was handled. Who
// is refused tries again soon.
func (r *tellRig) told(b *testing.B, payload []byte, tellers, n int) {
	node := community.MemberID(r.child.hint.Node)
	if _, err := r.home.Invoke(b.Context(), node, "handled", community.Signal{Data: []byte("0")}); err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	for range tellers {
		wg.Go(func() {
			for range n / tellers {
				for {
					err := r.home.Tell(b.Context(), r.agent, community.Signal{Perception: "work", Data: payload})
					if err == nil {
						break
					}
					if !errors.Is(err, community.ErrBusy) {
						b.Error(err)
						return
					}
					<-time.After(time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	if _, err := r.home.Invoke(b.Context(), node, "handled",
		community.Signal{Data: strconv.AppendInt(nil, int64(n/tellers*tellers), 10)}); err != nil {
		b.Fatal(err)
	}
	if n := r.home.Undelivered(); n > 0 {
		b.Fatalf("%d were not delivered", n)
	}
}

// streamed sends as many messages over the bare stream, a frame each, and returns when all were read.
func (r *tellRig) streamed(b *testing.B, payload []byte, n int) {
	for range n {
		if err := r.stream.Send(&pb.Frame{Sends: []*pb.InvokeRequest{{Capability: "echo", Payload: payload}}}); err != nil {
			b.Fatal(err)
		}
	}
	if err := r.stream.Send(&pb.Frame{Calls: []*pb.Call{{}}}); err != nil {
		b.Fatal(err)
	}
	if _, err := r.stream.Recv(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkTells compares signals that nobody waits for, from one goroutine and from 64 to one agent of
// a node in another process until the agent has handled them, with a bare gRPC stream that sends them
// one by one to a server that only reads.
func BenchmarkTells(b *testing.B) {
	l := newLAN(b)
	c := l.child(benchEnv + "=1")
	h := l.onLoopback("teller", func(cfg *grpcpeer.Config) { cfg.Limits.Calls = crowded })
	h.network.AddHint(c.hint)
	h.sees("the agent", func([]community.Member) bool { return len(h.WhoCanReceive("work")) == 1 })
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", c.floors) }
	stream, err := client(b, l.identity("streaming"), dial).Link(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	r := &tellRig{&rig{child: c, home: h}, h.WhoCanReceive("work")[0].ID, stream}
	for _, size := range []int{100, 64 << 10} {
		for _, tellers := range []int{1, 64} {
			n := 64_000
			if size > 1000 {
				n = 3200
			}
			b.Run(fmt.Sprintf("%dB/tellers=%d", size, tellers), func(b *testing.B) {
				payload := bytes.Repeat([]byte("x"), size)
				var took [2][]figure
				for round := 0; b.Loop(); round++ {
					for i := range took {
						w := (i + round) % len(took)
						cpu, began := r.cpu(b), time.Now()
						if w == 0 {
							r.told(b, payload, tellers, n)
						} else {
							r.streamed(b, payload, n)
						}
						each := time.Since(began) / time.Duration(n)
						took[w] = append(took[w], figure{each, each, (r.cpu(b) - cpu) / time.Duration(n)})
					}
				}
				b.ReportMetric(0, "ns/op")
				reportTo(b, "tell", took[0], took[1], "stream")
				reportTo(b, "stream", took[1], took[1], "stream")
			})
		}
	}
}
