//go:build system && linux

// Package scale_test measures clusters of many real nodes, each in a network namespace of its own.
package scale_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"symbio/cmd/symbio/symbiotest"
	"symbio/internal/community/waittest"
	symbiov1 "symbio/proto/symbio/v1"
)

func TestMain(m *testing.M) { symbiotest.Main(m, nil) }

// isMeasured reports whether figures are wanted, which need a machine of their own (make scale).
func isMeasured() bool { return os.Getenv("SYMBIO_SCALE") != "" }

// sizes are those of SYMBIO_SCALE, such as 12,24,40,80; else the smallest cluster that does without a connection to each node.
func sizes(t *testing.T) (out []int) {
	if !isMeasured() {
		return []int{10}
	}
	for s := range strings.SplitSeq(os.Getenv("SYMBIO_SCALE"), ",") {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// used is what the nodes have used together.
type used struct {
	at             time.Time
	packets, bytes int
	cpu            time.Duration
}

// cluster is many nodes on one switch.
type cluster struct {
	t     *testing.T
	nodes []*symbiotest.LabNode
}

func (c *cluster) used() (u used) {
	u.at = time.Now()
	for _, n := range c.nodes {
		packets, bytes := n.Host.Traffic("eth0")
		u.packets, u.bytes = u.packets+packets, u.bytes+bytes
		u.cpu += n.CPU()
	}
	return u
}

// whole waits until each of the nodes sees all of them, and returns how long that took since a time.
func (c *cluster) whole(since time.Time) time.Duration {
	for _, n := range c.nodes {
		waittest.Until(c.t, n.Name+" sees all", func() (any, bool) {
			seen := len(n.Sees())
			return seen, seen >= len(c.nodes)-1
		})
	}
	return time.Since(since)
}

// ways counts how the nodes reach each other.
func (c *cluster) ways() map[string]int {
	out := map[string]int{}
	for _, n := range c.nodes {
		reply, err := n.Client.Nodes(waittest.Context(c.t), &symbiov1.NodesRequest{})
		if err != nil {
			c.t.Fatal(err)
		}
		for _, p := range reply.GetNodes() {
			out[p.GetState()+" "+p.GetVia()]++
		}
	}
	return out
}

func TestLargeClusters(t *testing.T) {
	for _, n := range sizes(t) {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			symbiotest.OnASwitch(t, func(t *testing.T) { measure(t, n) })
		})
	}
}

func measure(t *testing.T, n int) {
	var hosts []*symbiotest.Host
	for i := range n {
		hosts = append(hosts, symbiotest.PlugIn(t, i+1))
	}
	symbiotest.Acquaint(t, hosts...)
	lab := symbiotest.NewLab(t, hosts...)
	c := &cluster{t: t}
	began := time.Now()
	for i, h := range hosts {
		c.nodes = append(c.nodes, lab.Up(h, fmt.Sprintf("n%d", i)))
	}
	for _, one := range c.nodes {
		one.Ready()
	}
	ready := time.Since(began)
	whole := c.whole(began)
	cpu := c.used().cpu
	t.Logf("%d nodes: all ready after %.1fs, whole after %.1fs, %.1fs of processor time", n, ready.Seconds(), whole.Seconds(), cpu.Seconds())

	if isMeasured() {
		c.idle()
	}
	c.whole(began)
	killed := time.Now()
	for _, one := range c.nodes[:5] {
		if err := one.Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	for _, one := range c.nodes[5:] {
		symbiotest.Await(t, one.Name+" has lost five", func() bool { return len(one.Sees()) <= n-6 })
	}
	t.Logf("%d nodes: five that were killed at once are lost everywhere after %.1fs", n, time.Since(killed).Seconds())
	for _, one := range c.nodes[5:] {
		if seen := len(one.Sees()); seen != n-6 {
			t.Errorf("%s sees %d nodes, want the other %d that live", one.Name, seen, n-6)
		}
	}
}

// settle is how long to wait before a cluster counts as idle: discovery asks less and less often, at last every 5 minutes.
const settle = 5 * time.Minute

// idle logs what a node uses that has nothing to do.
func (c *cluster) idle() {
	n := len(c.nodes)
	symbiotest.Pause(c.t, settle)
	from := c.used()
	symbiotest.Pause(c.t, time.Minute)
	to := c.used()
	seconds := to.at.Sub(from.at).Seconds() * float64(n)
	peak := 0
	for _, one := range c.nodes {
		peak += one.Peak()
	}
	c.t.Logf("%d nodes, idle, each: %.1f packets/s, %.0f bytes/s, %.2f%% of a processor, at most %d MiB", n,
		float64(to.packets-from.packets)/seconds, float64(to.bytes-from.bytes)/seconds, 100*(to.cpu-from.cpu).Seconds()/seconds, peak/n)
	c.t.Logf("%d nodes, idle: connections by way: %v", n, c.ways())
}
