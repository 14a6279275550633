//go:build system && linux

package lan_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"symbio/cmd/symbio/symbiotest"
	symbiov1 "symbio/proto/symbio/v1"

	"google.golang.org/protobuf/types/known/durationpb"
)

// A large answer and a large request over a slow link succeed, and meanwhile the nodes do not lose each other and go on
// with small calls in both directions.
func TestLargeMessagesOnASlowLink(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("tc"); err != nil {
		t.Skip("needs tc of iproute2 to make a link slow")
	}
	symbiotest.OnASwitch(t, func(t *testing.T) {
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
				testSlowLink(t, []*symbiotest.Host{symbiotest.PlugIn(t, 2*i+1), symbiotest.PlugIn(t, 2*i+2)}, x.rate, x.queue, x.size)
			})
		}
	})
}

func testSlowLink(t *testing.T, hosts []*symbiotest.Host, rate, queue string, size int) {
	l := symbiotest.NewLab(t, hosts...)
	config := "capabilities:\n" +
		"  - {name: big, description: Prints what it is given, exec: [cat]}\n" +
		"authorize:\n  - {from: \"*\", invoke: [\"*\"]}\n"
	if err := os.WriteFile(filepath.Join(l.Hosts[0].State, "lab.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	a, b := l.Up(l.Hosts[0], "a"), l.Up(l.Hosts[1], "b")
	a.Ready()
	becomesWhole(t, "both see each other", b.Ready().Time, time.Minute, a, b)
	for _, h := range l.Hosts {
		h.Run("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "4kb", "limit", queue)
	}
	slowed := time.Now()

	end := make(chan struct{})
	small := []func() []symbiotest.Call{a.Calls(2, "node.info", "b", end), b.Calls(2, "node.info", "a", end)}
	payload := bytes.Repeat([]byte("x"), size)
	payload[0], payload[size-1] = '"', '"'
	at := time.Now()
	reply, err := a.Client.Call(t.Context(), &symbiov1.CallRequest{Capability: "big", On: "b", Data: payload, Timeout: durationpb.New(2 * time.Minute)})
	if err != nil || !bytes.Equal(reply.GetData(), payload) {
		t.Errorf("the large call ended after %v with %d bytes, %v", time.Since(at), len(reply.GetData()), err)
	}
	t.Logf("the large call took %v", time.Since(at))
	close(end)
	for i, done := range small {
		calls, longest := done(), time.Duration(0)
		for _, c := range calls {
			if longest = max(longest, c.Ended.Sub(c.Begun)); c.Err != nil {
				t.Errorf("a small call from %s ended with %v", []string{"a", "b"}[i], c.Err)
			}
		}
		t.Logf("%d small calls from %s, the longest took %v", len(calls), []string{"a", "b"}[i], longest)
		if len(calls) < 4 {
			t.Errorf("%d small calls, want some beside the large one", len(calls))
		}
	}
	for _, n := range []*symbiotest.LabNode{a, b} {
		if lost := n.LinesSince(slowed, func(l symbiotest.Line) bool {
			return l.Type == "became unavailable" || l.Type == "unavailable" || l.Type == "lost"
		}); len(lost) > 0 {
			t.Errorf("%s lost the other node: %+v", n.Name, lost)
		}
	}
}
