//go:build system && linux

package mdns_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"symbio/internal/community/waittest"

	"symbio/discovery"
)

// witness is the responder that most Linux machines have, on a host of the test's LAN. It runs in that host's network
// namespace with a bus, a configuration and a /run of its own; nothing of the machine's own is touched.
type witness struct {
	*member
	dir string
}

func withAvahi(m *member) *witness {
	w := &witness{member: m, dir: m.t.TempDir()}
	bus := `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>` + w.bus() + `</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/></policy></busconfig>`
	daemon := "[server]\nhost-name=witness\nallow-interfaces=eth0\nratelimit-interval-usec=0\n[wide-area]\nenable-wide-area=no\n" +
		"[publish]\npublish-hinfo=no\npublish-workstation=no\n"
	for name, text := range map[string]string{"bus.conf": bus, "avahi.conf": daemon} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
	w.start("dbus-daemon", "--nofork", "--config-file="+w.dir+"/bus.conf")
	waittest.Until(m.t, "the bus", func() (any, bool) {
		_, err := os.Stat(w.dir + "/bus")
		return err, err == nil
	})
	w.start("unshare", "--mount", "sh", "-c",
		"mount -t tmpfs none /run && mkdir /run/avahi-daemon && exec avahi-daemon --no-drop-root --no-chroot --no-rlimits --file "+w.dir+"/avahi.conf")
	return w
}

func (w *witness) bus() string { return "unix:path=" + w.dir + "/bus" }

// command is a program on the host, which finds the bus of the responder.
func (w *witness) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(waittest.Context(w.t), "nsenter", append([]string{"-t", fmt.Sprint(w.cmd.Process.Pid), "-n", "--preserve-credentials"}, args...)...)
	cmd.Env = append(os.Environ(), "DBUS_SYSTEM_BUS_ADDRESS="+w.bus(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// start starts a program on the host and returns its lines. It ends with the test, or with stop.
func (w *witness) start(args ...string) (lines <-chan string, stop func()) {
	w.t.Helper()
	cmd := w.command(args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	said := make(chan string, 1000)
	go func() {
		defer close(said)
		for s := bufio.NewScanner(out); s.Scan(); {
			said <- s.Text()
		}
	}()
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		for range said { // until there are no more
		}
		_ = cmd.Wait() // it says that it was ended
	}
	w.t.Cleanup(stop)
	return said, stop
}

// browse starts to look for a service as soon as the responder is ready.
func (w *witness) browse(service string) <-chan string {
	w.t.Helper()
	waittest.Until(w.t, "avahi-daemon to be ready", func() (any, bool) {
		out, err := w.command("avahi-browse", "--all", "--terminate", "--parsable", "--no-db-lookup").CombinedOutput()
		return fmt.Sprintf("%v\n%s", err, out), err == nil
	})
	lines, _ := w.start("avahi-browse", "--parsable", "--resolve", "--no-db-lookup", service)
	return lines
}

// sees waits for a line of avahi-browse: + is a service that came, - one that went, = one with its facts.
func (w *witness) sees(lines <-chan string, what, begins, holds string) {
	w.t.Helper()
	begun := time.Now()
	for {
		line := waittest.Receive(w.t, "avahi to see "+what, lines)
		if strings.HasPrefix(line, begins) && strings.Contains(line, holds) {
			w.t.Logf("avahi saw %s after %v: %s", what, time.Since(begun).Round(time.Millisecond), line)
			return
		}
	}
}

func TestAvahiAndSourceSeeEachOther(t *testing.T) {
	for _, program := range []string{"avahi-daemon", "avahi-browse", "avahi-publish", "dbus-daemon", "nsenter", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: avahi-daemon did not start in a user namespace")
	}
	onASwitch(t, func(t *testing.T) {
		a := plugIn(t, 1)
		w := withAvahi(plugIn(t, 2))
		lines := w.browse("_syt._tcp")

		a.up(1)
		w.sees(lines, "a node", "=;eth0;IPv4;0000000000000001;_syt._tcp;local;0000000000000001.local;10.77.0.1;7001;", `"id=`+nodeID(1)+`"`)
		w.up(2) // on avahi's own host, and begun after it
		w.sees(lines, "a node of its own host", "=;eth0;IPv4;0000000000000002;", ";10.77.0.2;7002;")
		a.do(order{Stop: nodeID(1)})
		w.sees(lines, "a goodbye", "-;eth0;IPv4;0000000000000001;", "_syt._tcp")

		a.up(4)
		var stops []func()
		for n := 11; n <= 13; n++ { // its host then has three services in one packet
			_, stop := w.start("avahi-publish", "--service", nodeID(n)[:16], "_syt._tcp", fmt.Sprint(7000+n), "txtvers=1", "id="+nodeID(n))
			stops = append(stops, stop)
		}
		known := map[string]bool{}
		a.sees(4, "what avahi publishes", func(s discovery.Sighting) bool {
			if len(s.Addrs) > 0 && strings.HasPrefix(s.Addrs[0].String(), "10.77.0.2:701") {
				known[s.Node] = true
			}
			return known[nodeID(11)] && known[nodeID(12)] && known[nodeID(13)]
		})
		begun := time.Now()
		stops[1]()
		a.sees(4, "avahi's goodbye", gone(12))
		t.Logf("avahi's goodbye was noticed after %v", time.Since(begun))
	})
}
