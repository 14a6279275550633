package gossip_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// simulated names the variable with the numbers of nodes to simulate, such as 12,50,200,1000 (make simulate).
const simulated = "SYMBIO_SIMULATED"

// figures are what a simulation has measured.
type figures struct {
	nodes             int
	loss              float64
	half, whole, last time.Duration // until half of the nodes know all, and all of them; until all know a new capability
	lost              time.Duration // until five killed nodes are lost everywhere
	suspicions        int64         // of living nodes, from one minute after they started
	early, verdicts   int64         // that living nodes are dead: in the first minute, and later
	packets, bytes    float64       // of each node, a second, in the idle time
	streams           float64       // of each node, until whole
	memory, routines  int           // of each node
}

const header = "nodes loss | half    all     capability killed | suspicions verdicts early | packets/s bytes/s streams | KiB goroutines"

func (f figures) String() string {
	return fmt.Sprintf("%5d %3.0f%% | %-7v %-7v %-10v %-6v | %10d %8d %5d | %9.1f %7.0f %7.1f | %3d %10d", f.nodes, 100*f.loss,
		f.half, f.whole, f.last, f.lost, f.suspicions, f.verdicts, f.early, f.packets, f.bytes, f.streams, f.memory>>10, f.routines)
}

// Clusters of real Groups in virtual time, which start within a second: they are whole within seconds, no living node is
// called dead, also where packets are lost, and killed ones are lost.
func TestSimulatedClusters(t *testing.T) {
	sizes, idle := []int{24}, time.Minute
	if text := os.Getenv(simulated); text != "" {
		sizes, idle = nil, 3*time.Minute
		for s := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, n)
		}
	}
	table := []string{header}
	for _, n := range sizes {
		for _, loss := range []float64{0, 0.05} {
			var f figures
			began := time.Now()
			t.Run(fmt.Sprintf("%d/%v", n, loss), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f = simulate(t, n, loss, idle) }) })
			table = append(table, f.String())
			if f.whole > 15*time.Second || f.last > 8*time.Second || f.lost > 8*time.Second || f.verdicts > 0 {
				t.Errorf("%s\n%v\nwant them whole within 15s, what is new and what is lost known within 8s, and no living node called dead", header, f)
			}
			t.Log(table[len(table)-1], time.Since(began))
		}
	}
	t.Log("\n" + strings.Join(table, "\n"))
}

// simulate runs n nodes, idle for a time.
func simulate(t *testing.T, n int, loss float64, idle time.Duration) (f figures) {
	f.nodes, f.loss = n, loss
	l := newLAN(t, loss)
	var all []*node
	before, routines := heap(), runtime.NumGoroutine()
	for range n {
		all = append(all, l.add(nil))
	}
	defer l.end()
	defer func() { t.Log("last false verdict after", time.Duration(l.lastVerdict.Load())) }()

	began := time.Now()
	for _, one := range all {
		l.running.Go(func() {
			time.Sleep(rand.N(time.Second))
			one.run()
			for _, i := range rand.Perm(n)[:min(3, n)] { // discovery names the others; three are dialed
				if all[i] != one {
					one.meet(all[i])
				}
			}
		})
	}
	f.half = await(t, "half is whole", began, func() bool { return knowing(all, n-1) >= n/2 })
	f.whole = await(t, "whole", began, func() bool { return knowing(all, n-1) == n })
	f.streams = float64(total(all, func(n *node) int64 { return n.streams.Load() })) / float64(n)

	time.Sleep(time.Minute)
	packets, bytes := func(n *node) int64 { return n.sent.Load() }, func(n *node) int64 { return n.bytes.Load() }
	suspicions, verdicts := func(n *node) int64 { return n.suspicions.Load() }, func(n *node) int64 { return n.verdicts.Load() }
	p, b, s := total(all, packets), total(all, bytes), total(all, suspicions)
	f.early = total(all, verdicts)
	time.Sleep(idle)
	f.packets = float64(total(all, packets)-p) / float64(n) / idle.Seconds()
	f.bytes = float64(total(all, bytes)-b) / float64(n) / idle.Seconds()
	f.memory = (heap() - before) / n
	f.routines = (runtime.NumGoroutine() - routines) / n

	changed := time.Now()
	all[0].offers("new")
	f.last = await(t, "the capability is known", changed, func() bool {
		return !slices.ContainsFunc(all[1:], func(o *node) bool {
			m := o.member(all[0].id.ID())
			return m == nil || len(m.Statement.GetCatalog().GetMembers()) == 0
		})
	})
	f.suspicions = total(all, suspicions) - s
	dead, living := all[:5], all[5:]
	killed := time.Now()
	for _, one := range dead {
		one.kill()
	}
	f.lost = await(t, "the killed nodes are lost", killed, func() bool { return knowing(living, n-6) == len(living) })
	f.verdicts = total(all, verdicts) - f.early
	return f
}

// knowing returns how many of the nodes know exactly n others.
func knowing(all []*node, n int) (count int) {
	for _, one := range all {
		if one.known.Load() == int64(n) {
			count++
		}
	}
	return count
}

func total(all []*node, of func(*node) int64) (sum int64) {
	for _, one := range all {
		sum += of(one)
	}
	return sum
}

// await waits until ok, and returns how long that took since began.
func await(t *testing.T, what string, began time.Time, ok func() bool) time.Duration {
	t.Helper()
	for !ok() {
		if time.Since(began) > 10*time.Minute {
			t.Fatalf("%s: not after %v", what, time.Since(began))
		}
		time.Sleep(100 * time.Millisecond)
	}
	return time.Since(began)
}

// heap returns how many bytes of the heap are in use.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
