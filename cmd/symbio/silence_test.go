//go:build linux

package main

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

// silence turns off what the kernel itself sends on a machine: its IPv6 says hello for a while.
func (h *host) silence() {
	h.t.Helper()
	if out, err := h.inside("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && ip route add default via 10.77.0.254").CombinedOutput(); err != nil {
		h.t.Fatalf("host %d: %v\n%s", h.number, err, out)
	}
}

// sent is how many packets a machine has sent to the LAN.
func (h *host) sent() int {
	h.t.Helper()
	out, err := h.inside("ip", "-j", "-s", "link", "show", "eth0").Output()
	if err != nil {
		h.t.Fatal(err)
	}
	var links []struct {
		Stats struct{ TX struct{ Packets int } } `json:"stats64"`
	}
	if err := json.Unmarshal(out, &links); err != nil || len(links) != 1 {
		h.t.Fatalf("ip printed %v:\n%s", err, out)
	}
	return links[0].Stats.TX.Packets
}

// A node that was told nothing sends no packet off its machine: no announcement, no telemetry, no question
// whether there is a newer version, no look-up of a name; not even towards a default route.
func TestUnconfiguredNodeSendsNothing(t *testing.T) {
	t.Parallel()
	onASwitch(t, func(t *testing.T) {
		h := plugIn(t, 1)
		h.silence()
		before := h.sent()
		node := h.up()
		ready := node.expect(t, "ready", func(l line) bool { return l.Type == "ready" })
		h.symbio("members", "--node", ready.Name)
		h.symbio("config")
		pause(t, 2*time.Second)
		if n := h.sent() - before; n != 0 {
			t.Errorf("it sent %d packets to the LAN, want none", n)
		}
		if err := node.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		node.ended(t)

		// A node that was told to look for others is seen to do so: the count counts.
		h.symbio("cluster", "init", "--name", "lab", "--node", h.name())
		before = h.sent()
		h.up().expect(t, "ready", func(l line) bool { return l.Type == "ready" })
		pause(t, time.Second)
		if n := h.sent() - before; n == 0 {
			t.Error("a node of a cluster sent nothing to the LAN either")
		}
	})
}
