//go:build system && linux

package lan_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"symbio/cmd/symbio/symbiotest"
)

// silence turns off what the kernel itself sends on a machine: its IPv6 says hello for a while.
func silence(h *symbiotest.Host) {
	h.T.Helper()
	if out, err := h.Inside("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && ip route add default via 10.77.0.254").CombinedOutput(); err != nil {
		h.T.Fatalf("host %d: %v\n%s", h.Number, err, out)
	}
}

// packetsSent is how many packets a machine has sent to the LAN.
func packetsSent(h *symbiotest.Host) int {
	h.T.Helper()
	out, err := h.Inside("ip", "-j", "-s", "link", "show", "eth0").Output()
	if err != nil {
		h.T.Fatal(err)
	}
	var links []struct {
		Stats struct{ TX struct{ Packets int } } `json:"stats64"`
	}
	if err := json.Unmarshal(out, &links); err != nil || len(links) != 1 {
		h.T.Fatalf("ip printed %v:\n%s", err, out)
	}
	return links[0].Stats.TX.Packets
}

// A node that was told nothing sends no packet off its machine: no announcement, no telemetry, no question
// whether there is a newer version, no look-up of a name; not even towards a default route.
func TestUnconfiguredNodeSendsNothing(t *testing.T) {
	t.Parallel()
	symbiotest.OnASwitch(t, func(t *testing.T) {
		h := symbiotest.PlugIn(t, 1)
		silence(h)
		before := packetsSent(h)
		node := h.Up()
		ready := node.Expect(t, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
		h.Symbio("members", "--node", ready.Name)
		h.Symbio("config")
		symbiotest.Pause(t, 2*time.Second)
		if n := packetsSent(h) - before; n != 0 {
			t.Errorf("it sent %d packets to the LAN, want none", n)
		}
		if err := node.Cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		node.Ended(t)

		// A node that was told to look for others is seen to do so: the count counts.
		h.Symbio("cluster", "init", "--name", "lab", "--node", h.Name())
		before = packetsSent(h)
		h.Up().Expect(t, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
		symbiotest.Pause(t, time.Second)
		if n := packetsSent(h) - before; n == 0 {
			t.Error("a node of a cluster sent nothing to the LAN either")
		}
	})
}
