//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lanRole tells a process of this test binary which part of a LAN it plays: "switch" runs the test in
// a namespace of its own, "host" is a namespace that waits for its end, "rogue" lies to its neighbours.
const lanRole = "SYMBIO_TEST_CLUSTER_ROLE"

// playRole plays the part that this process was started for, if it was for one that is not a test.
func playRole() bool {
	switch os.Getenv(lanRole) {
	case "host":
		_, _ = io.Copy(io.Discard, os.Stdin) // it does nothing but exist, until its input ends
	case "rogue":
		beRogue(os.Stdin, os.Stdout)
	default:
		return false
	}
	return true
}

// host is a machine on the test's switch.
type host struct {
	t      *testing.T
	number int
	pid    int
	state  string
}

// onASwitch runs test in a network namespace with a bridge, as root or in a user namespace.
func onASwitch(t *testing.T, test func(t *testing.T)) {
	if os.Getenv(lanRole) == "switch" {
		addBridge(t, "br0")
		test(t)
		return
	}
	if testing.Short() {
		t.Skip("-short leaves it out: it makes network namespaces")
	}
	for _, program := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s to lay out a LAN", program)
		}
	}
	out, err := namespace("switch", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+longest(t).String()).CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this user may not make network namespaces here: %v", err)
	}
	t.Logf("in its namespace:\n%s", out)
	if err != nil {
		t.Errorf("the test in its namespace: %v", err)
	}
}

// addBridge adds a LAN to the switch that has no machines yet.
func addBridge(t *testing.T, name string) {
	t.Helper()
	ip(t, "link", "add", name, "type", "bridge", "stp_state", "0", "mcast_snooping", "0")
	ip(t, "link", "set", name, "up")
}

// namespace is this binary as another process, in a network namespace of its own.
func namespace(role string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), lanRole+"="+role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// plugIn makes a machine with an address on the switch and no default route.
func plugIn(t *testing.T, number int) *host {
	t.Helper()
	h := boot(t, number)
	h.plug("br0", "eth0", fmt.Sprintf("10.77.0.%d/24", number))
	return h
}

// boot makes a machine that has only loopback.
func boot(t *testing.T, number int) *host {
	t.Helper()
	cmd := namespace("host")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); cmd.Wait() })
	h := &host{t: t, number: number, pid: cmd.Process.Pid, state: shortDir(t)}
	h.run("ip", "link", "set", "lo", "up")
	h.run("sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad") // its addresses are good at once
	return h
}

// plug connects the machine to a bridge, over an interface with these addresses.
func (h *host) plug(bridge, dev string, addrs ...string) {
	h.t.Helper()
	ip(h.t, "link", "add", h.port(dev), "type", "veth", "peer", "name", dev, "netns", strconv.Itoa(h.pid))
	ip(h.t, "link", "set", h.port(dev), "master", bridge, "up")
	for _, a := range addrs {
		h.run("ip", "addr", "add", a, "dev", dev)
	}
	h.run("ip", "link", "set", dev, "up")
}

// unplug takes the interface away, as when a USB adapter is pulled.
func (h *host) unplug(dev string) { h.t.Helper(); ip(h.t, "link", "del", h.port(dev)) }

// port is the other end of the machine's interface, on the switch.
func (h *host) port(dev string) string { return fmt.Sprintf("p%d%s", h.number, dev) }

// run runs a command on that machine and wants it to succeed.
func (h *host) run(args ...string) string {
	h.t.Helper()
	out, err := h.inside(args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("host %d: %s: %v\n%s", h.number, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// inside is a command on that machine, with a home of its own there.
func (h *host) inside(args ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(h.pid), "-n", "--preserve-credentials"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+h.state, "XDG_STATE_HOME="+h.state, "XDG_CONFIG_HOME="+h.state)
	return cmd
}

// symbio runs a command of the program on that machine and wants it to succeed.
func (h *host) symbio(args ...string) string {
	h.t.Helper()
	return h.run(append([]string{"symbio"}, args...)...)
}

func (h *host) name() string { return "host" + strconv.Itoa(h.number) }

// up starts the machine's node.
func (h *host) up() *process {
	h.t.Helper()
	return started(h.t, h.inside("symbio", "up", "--json", "--name", h.name()))
}

// cable pulls the machine's cable or plugs it in again.
func (h *host) cable(in bool) {
	h.t.Helper()
	ip(h.t, "link", "set", h.port("eth0"), map[bool]string{true: "up", false: "down"}[in])
}

// Three machines, one `cluster init`, two pasted lines: one community that notices who comes, leaves,
// dies and returns, in the times of the failure table (architecture).
func TestThreeMachinesOnALANBecomeOneCluster(t *testing.T) {
	t.Parallel()
	onASwitch(t, func(t *testing.T) {
		a, b, c := plugIn(t, 1), plugIn(t, 2), plugIn(t, 3)
		listen := func(h *host) string { return fmt.Sprintf("10.77.0.%d:7946", h.number) }
		a.symbio("cluster", "init", "--name", "lab", "--node", a.name(), "--listen", listen(a))
		nodes := map[*host]*process{a: a.up()}
		nodes[a].expect(t, "ready", func(l line) bool { return l.Type == "ready" })
		for _, h := range []*host{b, c} {
			line := a.symbio("cluster", "token", "--node", a.name())
			pasted := regexp.MustCompile(`symbio (join SYM1-\S+ \S+)`).FindStringSubmatch(line)
			if pasted == nil {
				t.Fatalf("no line to paste in %q", line)
			}
			h.symbio(append(strings.Fields(pasted[1]), "--node", h.name(), "--listen", listen(h))...)
			nodes[h] = h.up()
		}
		nodes[c].expect(t, "ready", func(l line) bool { return l.Type == "ready" })
		begun := time.Now()
		var last time.Time
		for on, others := range map[*host][]string{a: {b.name(), c.name()}, b: {a.name(), c.name()}, c: {a.name(), b.name()}} {
			for len(others) > 0 {
				l := nodes[on].expect(t, fmt.Sprintf("%v joined", others), func(l line) bool { return l.Type == "joined" && slices.Contains(others, l.Name) })
				others = slices.DeleteFunc(others, func(name string) bool { return name == l.Name })
				if l.Time.After(last) {
					last = l.Time
				}
			}
		}
		within(t, "all see all after the last is ready", begun, last, 2*time.Second)

		t.Run("a graceful leave", func(t *testing.T) {
			at := time.Now()
			if err := nodes[c].cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			l := nodes[a].expect(t, "host3 left", func(l line) bool { return l.Type == "left" && l.Name == c.name() })
			within(t, "a leave is noticed", at, l.Time, 200*time.Millisecond)
			nodes[c].ended(t)
		})

		t.Run("starts", func(t *testing.T) {
			var times []time.Duration
			starts := 3
			if promised() {
				starts = 20 // a figure needs as many
			}
			for range starts {
				at := time.Now()
				p := c.up()
				l := nodes[a].expect(t, "host3 joined", func(l line) bool { return l.Type == "joined" && l.Name == c.name() })
				times = append(times, l.Time.Sub(at))
				if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
				nodes[a].expect(t, "host3 left", func(l line) bool { return l.Type == "left" && l.Name == c.name() })
				p.ended(t)
			}
			slices.Sort(times)
			p95 := times[len(times)*9/10]
			t.Logf("a start is noticed: p50 %v, p95 %v, max %v", times[len(times)/2], p95, times[len(times)-1])
			if promised() && p95 > slow*time.Second {
				t.Errorf("p95 of discovery after a start is %v, want under %v", p95, slow*time.Second)
			}
		})

		t.Run("a pulled cable", func(t *testing.T) {
			at := time.Now()
			b.cable(false)
			l := nodes[a].expect(t, "host2 unavailable", func(l line) bool { return l.Type == "became unavailable" && l.Name == b.name() })
			within(t, "a pulled cable is noticed", at, l.Time, 4*time.Second)
			b.cable(true)
			at = time.Now()
			l = nodes[a].expect(t, "host2 available", func(l line) bool { return l.Type == "became available" && l.Name == b.name() })
			other := nodes[b].expect(t, "host1 available", func(l line) bool { return l.Type == "became available" && l.Name == a.name() })
			if other.Time.After(l.Time) {
				l = other
			}
			within(t, "both are whole again after the heal", at, l.Time, 5*time.Second)
		})

		t.Run("kill -9", func(t *testing.T) {
			at := time.Now()
			if err := nodes[b].cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			l := nodes[a].expect(t, "host2 unavailable", func(l line) bool { return l.Type == "became unavailable" && l.Name == b.name() })
			within(t, "a death is noticed", at, l.Time, 3*time.Second)
		})
	})
}

// A node of another cluster on the same LAN is seen by nobody and hears nobody.
func TestForeignNodeOnLANIsNotAdmitted(t *testing.T) {
	t.Parallel()
	onASwitch(t, func(t *testing.T) {
		a, b := plugIn(t, 1), plugIn(t, 2)
		for _, h := range []*host{a, b} {
			h.symbio("cluster", "init", "--name", "lab", "--node", h.name(), "--listen", fmt.Sprintf("10.77.0.%d:7946", h.number))
		}
		mine := a.up()
		mine.expect(t, "ready", func(l line) bool { return l.Type == "ready" })
		// The stranger is told our address, so that it does more than mDNS would have it do.
		stranger := started(t, b.inside("symbio", "up", "--json", "--name", b.name(), "--peer", "10.77.0.1:7946"))
		refused := mine.expect(t, "a refusal", func(l line) bool { return l.Type == "refused" })
		t.Logf("refused: %+v", refused)
		for _, p := range []*process{mine, stranger} {
			for len(p.lines) > 0 {
				if l := <-p.lines; l.Type == "joined" {
					t.Errorf("%s joined", l.Name)
				}
			}
		}
		if out := a.symbio("members", "--json"); strings.TrimSpace(out) != "[]" {
			t.Errorf("members = %s, want none", filepath.Clean(out))
		}
	})
}
