//go:build system && linux

package soak_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"symbio/internal/community/waittest"

	"symbio/cmd/symbio/symbiotest"
	symbiov1 "symbio/proto/symbio/v1"

	"google.golang.org/grpc/codes"
	rpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// nodeGone is the end of a call of which nothing can be asked: faults that follow each other quickly, as in a short run,
// bring many.
const nodeGone = "its own node was killed or frozen"

const (
	// callers is how many calls all nodes have under way, and thinking the longest that a caller waits
	// before its next: enough to meet every fault in the act, and to leave a small machine its breath.
	callers  = 24
	thinking = 30 * time.Millisecond
)

// grace is how much later than its deadline a call may end: on a machine that does other things, too, as late as it likes.
func grace() time.Duration {
	if symbiotest.Promised() {
		return 2 * time.Second * symbiotest.Slow
	}
	return time.Hour // until the test ends
}

// kind is a kind of call, how long its caller waits, and what may come of it when nothing is wrong.
type kind struct {
	capability string
	size       int
	timeout    time.Duration
	usual      codes.Code
	weight     int // of a hundred
}

var kinds = []kind{
	{"node.info", 100, 2 * time.Second, codes.OK, 74},
	{"node.info", 64 << 10, 2 * time.Second, codes.OK, 10},
	{"echo", 1000, 2 * time.Second * symbiotest.Slow, codes.OK, 10},
	{"slow", 10, 200 * time.Millisecond, codes.DeadlineExceeded, 3},
	{"secret", 10, 2 * time.Second, codes.PermissionDenied, 3},
}

// troubles are what else a call may end with while nodes come and go.
var troubles = []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.NotFound, codes.ResourceExhausted}

// load makes calls from every node to every other, and keeps what came of them.
type load struct {
	all []*soaked

	mu     sync.Mutex
	calls  int             // guarded by mu
	ends   map[string]int  // how often calls ended how; guarded by mu
	took   []time.Duration // of those that were answered, but not by a program; guarded by mu
	faults []string        // what should not be, the first of it; guarded by mu
	wrong  int             // how much of that there was; guarded by mu
}

func newLoad(all []*soaked) *load { return &load{all: all, ends: map[string]int{}} }

// run keeps the load up while f runs, and returns when the last call has ended.
func (l *load) run(f func()) {
	over := make(chan struct{})
	var wg sync.WaitGroup
	for i, n := range l.all {
		for j := range max(1, callers/len(l.all)) {
			random := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			wg.Go(func() { l.caller(n, random, over) })
		}
	}
	defer wg.Wait()
	defer close(over)
	f()
}

func (l *load) caller(n *soaked, random *rand.Rand, over <-chan struct{}) {
	for {
		symbiotest.Pause(n.T, time.Duration(random.Int64N(int64(thinking))))
		select {
		case <-over:
			return
		default:
		}
		if to := l.all[random.IntN(len(l.all))]; to != n {
			l.call(n, to, random)
		}
	}
}

func (l *load) call(from, to *soaked, random *rand.Rand) {
	dice, k := random.IntN(100), 0
	for ; dice >= kinds[k].weight; k++ {
		dice -= kinds[k].weight
	}
	kind := kinds[k]
	data := []byte(fmt.Sprintf(`{"call": %d, "text": %q}`, random.Uint64(), strings.Repeat("x", kind.size)))
	shaken := from.shaken.Load()
	ctx, cancel := context.WithTimeout(context.Background(), kind.timeout+grace())
	defer cancel()
	begun := time.Now()
	reply, err := from.client.Call(ctx, &symbiov1.CallRequest{
		Capability: kind.capability, On: to.Name(), Data: data, ContentType: "application/json", Timeout: durationpb.New(kind.timeout),
	})
	took := time.Since(begun)
	disturbed := shaken%2 != 0 || from.shaken.Load() != shaken
	code := rpcstatus.Code(err)

	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	fail := func(format string, args ...any) {
		if l.wrong++; len(l.faults) < 20 {
			l.faults = append(l.faults, fmt.Sprintf("%s of %d bytes, %s to %s: ", kind.capability, len(data), from.Name(), to.Name())+fmt.Sprintf(format, args...))
		}
	}
	switch {
	case disturbed && err != nil:
		l.ends[nodeGone]++
		return
	case ctx.Err() != nil:
		fail("hung: %v over its deadline of %v", took-kind.timeout, kind.timeout)
	case code != kind.usual && !slices.Contains(troubles, code):
		fail("ended with %v", err)
	case err == nil && kind.capability == "echo" && !bytes.Equal(bytes.TrimSpace(reply.GetData()), data):
		fail("the answer is another call's: %.100q", reply.GetData())
	case err == nil && reply.GetNodeName() != to.Name():
		fail("answered by %s", reply.GetNodeName())
	}
	l.ends[code.String()]++
	if err == nil && kind.capability == "node.info" && !disturbed {
		l.took = append(l.took, took)
	}
}

// check fails the test for each call that ended as it should not.
func (l *load) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.faults {
		t.Error(f)
	}
	if l.wrong > len(l.faults) {
		t.Errorf("and %d more", l.wrong-len(l.faults))
	}
	for _, c := range []codes.Code{codes.OK, codes.DeadlineExceeded, codes.PermissionDenied} {
		if l.ends[c.String()] == 0 {
			t.Errorf("no call ended with %v: the load is not what it should be", c)
		}
	}
	if asked := l.calls - l.ends[nodeGone]; l.ends["OK"]*2 < asked {
		t.Errorf("only %d of %d calls were answered", l.ends["OK"], asked)
	}
}

// figure is what a node's process takes.
type figure struct{ goroutines, heap, memory, rss uint64 }

// figures measures the nodes at rest. Only then do the numbers of a busy node say something.
func (s *soak) figures(when string) []figure {
	s.t.Helper()
	symbiotest.Pause(s.t, time.Second*symbiotest.Slow)
	all := make([]figure, len(s.all))
	for i, n := range s.all {
		reply, err := n.client.Nodes(waittest.Context(s.t), &symbiov1.NodesRequest{})
		if err != nil {
			s.t.Fatalf("%s does not answer: %v\n%s", n.Name(), err, n.said())
		}
		p := reply.GetNodes()[0].GetProcess()
		all[i] = figure{uint64(p.GetGoroutines()), uint64(p.GetHeap()), uint64(p.GetMemory()), rss(n.cmd.Process.Pid)}
		s.t.Logf("%s: %s has %d goroutines, %.1f MiB heap, %.1f MiB memory, %.1f MiB RSS", when, n.Name(),
			all[i].goroutines, mib(all[i].heap), mib(all[i].memory), mib(all[i].rss))
	}
	return all
}

func mib(n uint64) float64 { return float64(n) / (1 << 20) }

// rss is what a process has in memory, in bytes; 0 when the system does not say.
func rss(pid int) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	if f := strings.Fields(string(text)); len(f) > 1 {
		if pages, err := strconv.ParseUint(f[1], 10, 64); err == nil {
			return pages * uint64(os.Getpagesize())
		}
	}
	return 0
}

// compare wants no node to take more than the hungriest did before, but for what the garbage collector
// and who dialled whom make of it.
func (s *soak) compare(before, after []figure) {
	var most figure
	for _, f := range before {
		most = figure{max(most.goroutines, f.goroutines), max(most.heap, f.heap), max(most.memory, f.memory), max(most.rss, f.rss)}
	}
	for i, n := range s.all {
		grown := func(what string, got, bound uint64) {
			if got > bound {
				s.t.Errorf("%s has grown: %d %s, want at most %d", n.Name(), got, what, bound)
			}
		}
		grown("goroutines", after[i].goroutines, most.goroutines*5/4+20)
		grown("bytes of heap", after[i].heap, most.heap*3/2+8<<20)
		grown("bytes of memory", after[i].memory, most.memory*3/2+16<<20)
	}
}

// report prints what happened.
func (s *soak) report() {
	l := s.load
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.took)
	at := func(all []time.Duration, part float64) time.Duration {
		if len(all) == 0 {
			return 0
		}
		return all[int(float64(len(all)-1)*part)].Round(10 * time.Microsecond)
	}
	slices.Sort(s.heals)
	slices.Sort(s.seen)
	s.t.Logf("calls: %d, that ended: %v; answered node.info: p50 %v, p99 %v, max %v", l.calls, l.ends, at(l.took, 0.5), at(l.took, 0.99), at(l.took, 1))
	s.t.Logf("faults: %v; noticed: %d, p50 %v, max %v; whole again: p50 %v, max %v", s.faults, len(s.seen), at(s.seen, 0.5), at(s.seen, 1), at(s.heals, 0.5), at(s.heals, 1))
}
