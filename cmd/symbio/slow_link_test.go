//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	symbiov1 "symbio/proto/symbio/v1"
)

// A large answer and a large request over a slow link succeed, and meanwhile the nodes do not lose each other and go on
// with small calls in both directions.
func TestLargeMessagesOnASlowLink(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("tc"); err != nil {
		t.Skip("needs tc of iproute2 to make a link slow")
	}
	onASwitch(t, func(t *testing.T) {
		for i, x := range []struct {
			rate, queue string // of the link, and what waits in front of it
			size        int
		}{
			// Each is on its way for longer than a node may be silent, 3 s.
			{"1mbit", "64kb", 600_000},
			{"128kbit", "16kb", 100_000},
		} {
			t.Run(x.rate+" "+x.queue, func(t *testing.T) {
				t.Parallel()
				testSlowLink(t, []*host{plugIn(t, 2*i+1), plugIn(t, 2*i+2)}, x.rate, x.queue, x.size)
			})
		}
	})
}

func testSlowLink(t *testing.T, hosts []*host, rate, queue string, size int) {
	l := newLab(t, hosts...)
	config := "capabilities:\n" +
		"  - {name: big, description: Prints what it is given, exec: [cat]}\n" +
		"authorize:\n  - {from: \"*\", invoke: [\"*\"]}\n"
	if err := os.WriteFile(filepath.Join(l.hosts[0].state, "lab.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	a, b := l.up(l.hosts[0], "a"), l.up(l.hosts[1], "b")
	a.ready()
	becomesWhole(t, "both see each other", b.ready().Time, limit, a, b)
	for _, h := range l.hosts {
		h.run("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "4kb", "limit", queue)
	}
	slowed := time.Now()

	end := make(chan struct{})
	small := []func() []call{a.calls(2, "node.info", "b", end), b.calls(2, "node.info", "a", end)}
	payload := bytes.Repeat([]byte("x"), size)
	payload[0], payload[size-1] = '"', '"'
	at := time.Now()
	reply, err := a.client.Call(t.Context(), &symbiov1.CallRequest{Capability: "big", On: "b", Data: payload, Timeout: durationpb.New(2 * time.Minute)})
	if err != nil || !bytes.Equal(reply.GetData(), payload) {
		t.Errorf("the large call ended after %v with %d bytes, %v", time.Since(at), len(reply.GetData()), err)
	}
	t.Logf("the large call took %v", time.Since(at))
	close(end)
	for i, done := range small {
		calls, longest := done(), time.Duration(0)
		for _, c := range calls {
			if longest = max(longest, c.ended.Sub(c.begun)); c.err != nil {
				t.Errorf("a small call from %s ended with %v", []string{"a", "b"}[i], c.err)
			}
		}
		t.Logf("%d small calls from %s, the longest took %v", len(calls), []string{"a", "b"}[i], longest)
		if len(calls) < 4 {
			t.Errorf("%d small calls, want some beside the large one", len(calls))
		}
	}
	for _, n := range []*labNode{a, b} {
		if lost := n.heard(slowed, func(l line) bool {
			return l.Type == "became unavailable" || l.Type == "unavailable" || l.Type == "lost"
		}); len(lost) > 0 {
			t.Errorf("%s lost the other node: %+v", n.name, lost)
		}
	}
}
