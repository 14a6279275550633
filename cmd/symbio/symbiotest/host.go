//go:build linux

package symbiotest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// LanRole tells a process of this test binary which part of a LAN it plays: "switch" runs the test in
// a namespace of its own, "host" is a namespace that waits for its end; a package may have more.
const LanRole = "SYMBIO_TEST_CLUSTER_ROLE"

// playRole plays the part that this process was started for, if it was for one that is not a test.
func playRole(roles map[string]func()) bool {
	role := os.Getenv(LanRole)
	if role == "host" {
		_, _ = io.Copy(io.Discard, os.Stdin) // it does nothing but exist, until its input ends
		return true
	}
	if play := roles[role]; play != nil {
		play()
		return true
	}
	return false
}

// Host is a machine on the test's switch.
type Host struct {
	T      *testing.T
	Number int
	pid    int
	State  string
}

// OnASwitch runs test in a network namespace with a bridge, as root or in a user namespace.
func OnASwitch(t *testing.T, test func(t *testing.T)) {
	if os.Getenv(LanRole) == "switch" {
		AddBridge(t, "br0")
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
	out, err := Namespace("switch", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+longest(t).String()).CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this user may not make network namespaces here: %v", err)
	}
	if err == nil && bytes.Contains(out, []byte("--- SKIP: "+t.Name()+" ")) {
		t.Skipf("in its namespace:\n%s", out)
	}
	t.Logf("in its namespace:\n%s", out)
	if err != nil {
		t.Errorf("the test in its namespace: %v", err)
	}
}

// AddBridge adds a LAN to the switch that has no machines yet.
func AddBridge(t *testing.T, name string) {
	t.Helper()
	IP(t, "link", "add", name, "type", "bridge", "stp_state", "0", "mcast_snooping", "0")
	IP(t, "link", "set", name, "up")
}

// Namespace is this binary as another process, in a network namespace of its own.
func Namespace(role string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), LanRole+"="+role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

func IP(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// PlugIn makes a machine with an address on the switch and no default route.
func PlugIn(t *testing.T, number int) *Host {
	t.Helper()
	h := Boot(t, number)
	h.Plug("br0", "eth0", fmt.Sprintf("10.77.0.%d/24", number))
	return h
}

// Acquaint tells each of the hosts the hardware addresses of all others. All namespaces of a kernel share one table for what they
// would learn by themselves, and its 1,024 entries are too few for 33 hosts that all talk with each other.
func Acquaint(t *testing.T, hosts ...*Host) {
	t.Helper()
	var all strings.Builder
	of := make([]string, len(hosts))
	for i, h := range hosts {
		_, hardware, _ := strings.Cut(h.Run("ip", "-o", "link", "show", "dev", "eth0"), "link/ether ")
		hardware, _, _ = strings.Cut(hardware, " ")
		for addr := range strings.FieldsSeq(h.Run("ip", "-o", "addr", "show", "dev", "eth0")) {
			if ip, err := netip.ParsePrefix(addr); err == nil {
				of[i] += fmt.Sprintf("neigh replace %s lladdr %s nud permanent dev eth0\n", ip.Addr(), hardware)
			}
		}
		all.WriteString(of[i])
	}
	for i, h := range hosts {
		cmd := h.Inside("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(strings.Replace(all.String(), of[i], "", 1))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("host %d: %v\n%s", h.Number, err, out)
		}
	}
}

// Boot makes a machine that has only loopback.
func Boot(t *testing.T, number int) *Host {
	t.Helper()
	cmd := Namespace("host")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); cmd.Wait() })
	h := &Host{T: t, Number: number, pid: cmd.Process.Pid, State: ShortDir(t)}
	h.Run("ip", "link", "set", "lo", "up")
	h.Run("sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad") // its addresses are good at once
	return h
}

// Plug connects the machine to a bridge, over an interface with these addresses.
func (h *Host) Plug(bridge, dev string, addrs ...string) {
	h.T.Helper()
	IP(h.T, "link", "add", h.Port(dev), "type", "veth", "peer", "name", dev, "netns", strconv.Itoa(h.pid))
	IP(h.T, "link", "set", h.Port(dev), "master", bridge, "up")
	for _, a := range addrs {
		h.Run("ip", "addr", "add", a, "dev", dev)
	}
	h.Run("ip", "link", "set", dev, "up")
}

// Unplug takes the interface away, as when a USB adapter is pulled.
func (h *Host) Unplug(dev string) { h.T.Helper(); IP(h.T, "link", "del", h.Port(dev)) }

// Port is the other end of the machine's interface, on the switch.
func (h *Host) Port(dev string) string { return fmt.Sprintf("p%d%s", h.Number, dev) }

// Run runs a command on that machine and wants it to succeed.
func (h *Host) Run(args ...string) string {
	h.T.Helper()
	out, err := h.Inside(args...).CombinedOutput()
	if err != nil {
		h.T.Fatalf("host %d: %s: %v\n%s", h.Number, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Inside is a command on that machine, with a home of its own there.
func (h *Host) Inside(args ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(h.pid), "-n", "--preserve-credentials"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+h.State, "XDG_STATE_HOME="+h.State, "XDG_CONFIG_HOME="+h.State)
	return cmd
}

// Symbio runs a command of the program on that machine and wants it to succeed.
func (h *Host) Symbio(args ...string) string {
	h.T.Helper()
	return h.Run(append([]string{"symbio"}, args...)...)
}

func (h *Host) Name() string { return "host" + strconv.Itoa(h.Number) }

// Up starts the machine's node.
func (h *Host) Up() *Process {
	h.T.Helper()
	return Started(h.T, h.Inside("symbio", "up", "--json", "--name", h.Name()))
}

// Cable pulls the machine's cable or plugs it in again.
func (h *Host) Cable(in bool) {
	h.T.Helper()
	IP(h.T, "link", "set", h.Port("eth0"), map[bool]string{true: "up", false: "down"}[in])
}

// What decides how long the soak is, which faults it has, and how many nodes: a duration as 10m, and numbers. `make
// soak` sets the first and the last.
const (
	SoakSpan  = "SYMBIO_SOAK"
	SoakSeed  = "SYMBIO_SOAK_SEED"
	SoakNodes = "SYMBIO_SOAK_NODES"
)

// longest is how long the test in its namespace may take.
func longest(t *testing.T) time.Duration {
	if at, ok := t.Deadline(); ok {
		return time.Until(at) - 5*time.Second
	}
	return 24 * time.Hour
}

// Traffic returns how many packets and bytes the machine has received and sent over a device.
func (h *Host) Traffic(dev string) (packets, bytes int) {
	h.T.Helper()
	for line := range strings.Lines(h.Run("cat", "/proc/net/dev")) {
		name, counters, _ := strings.Cut(strings.TrimSpace(line), ":")
		f := strings.Fields(counters)
		if name != dev || len(f) < 10 {
			continue
		}
		for i, of := range map[int]*int{0: &bytes, 1: &packets, 8: &bytes, 9: &packets} { // received, then sent: proc(5)
			n, err := strconv.Atoi(f[i])
			if err != nil {
				h.T.Fatal(err)
			}
			*of += n
		}
		return packets, bytes
	}
	h.T.Fatalf("host %d has no device %s", h.Number, dev)
	return 0, 0
}
