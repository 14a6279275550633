package sandbox_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"symbio/internal/community/waittest"
	"symbio/security/sandbox"
)

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }

const secret = "SYMBIO_TEST_KEY=do-not-tell"

var levels = []sandbox.Level{sandbox.Native, sandbox.Bwrap, sandbox.Landlock}

// world is a machine with something to harm. Nothing of it lies in /tmp: what a private /tmp hides, shows nothing.
type world struct {
	dir, outside, self string
	tcp                net.Listener
	udp                net.PacketConn
	victim             *exec.Cmd
	contacts           chan contact
	at                 map[string]net.Addr // of the listeners
}

func newWorld(t *testing.T) *world {
	t.Helper()
	top, err := os.MkdirTemp("/var/tmp", "symbio-test-")
	if err != nil {
		t.Skip("no directory outside of /tmp to try it in:", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(top); err != nil {
			t.Error(err)
		}
	})
	if top, err = filepath.EvalSymlinks(top); err != nil {
		t.Fatal(err)
	}
	w := &world{dir: filepath.Join(top, "work"), outside: filepath.Join(top, "outside"), self: filepath.Join(top, "self"),
		contacts: make(chan contact, 100), at: map[string]net.Addr{}}
	for _, dir := range []string{w.dir, w.outside} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	copyFile(t, "/proc/self/exe", w.self)
	w.reset(t)
	w.listen(t)
	w.victim = exec.Command("/bin/sleep", "1000")
	w.victim.Env = []string{secret}
	if err := w.victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.victim.Process.Kill(); w.victim.Wait() })
	return w
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	// A program that another test starts meanwhile would inherit the open file, and to could not be started (ETXTBSY).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// reset makes both directories as they were: a repository, and beside it a file.
func (w *world) reset(t *testing.T) {
	t.Helper()
	for _, dir := range []string{w.dir, w.outside} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Type() == os.ModeSocket {
				continue
			}
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	for file, text := range map[string]string{
		w.outside + "/file": "good", w.dir + "/.git/config": "[core]\n", w.dir + "/.git/hooks/pre-push": "good",
		w.dir + "/.git/HEAD": "ref: refs/heads/main\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for len(w.contacts) > 0 {
		<-w.contacts
	}
}

func (w *world) listen(t *testing.T) {
	t.Helper()
	accept := func(name, network, addr string) net.Listener {
		l, err := net.Listen(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		w.at[name] = l.Addr()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				said, _ := io.ReadAll(c) // a contact that is cut off is one, too
				w.contacts <- contact{name, string(said) == mark}
				c.Close()
			}
		}()
		return l
	}
	packets := func(name, network, addr string) net.PacketConn {
		c, err := net.ListenPacket(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		w.at[name] = c.LocalAddr()
		go func() {
			for said := make([]byte, 10); ; {
				n, _, err := c.ReadFrom(said)
				if err != nil {
					return
				}
				w.contacts <- contact{name, string(said[:n]) == mark}
			}
		}()
		return c
	}
	w.tcp = accept("tcp", "tcp", "127.0.0.1:0")
	w.udp = packets("udp", "udp", "127.0.0.1:0")
	accept("docker.sock", "unix", w.outside+"/docker.sock")
	accept("abstract", "unix", w.abstract())
	packets("log.sock", "unixgram", w.outside+"/log.sock")
}

func (w *world) abstract() string { return "@symbio-test-" + filepath.Base(filepath.Dir(w.dir)) }

func (w *world) port() string { return strconv.Itoa(w.tcp.Addr().(*net.TCPAddr).Port) }

// contact is one that a listener of the world had.
type contact struct {
	name string
	mark bool // it was the test's own
}

// mark is what the test itself says to a listener.
const mark = "mark"

// reached reports whether a process that has ended has reached the listener. A listener takes its contacts in their
// order: what comes before a contact of the test's own is all there was.
func (w *world) reached(t *testing.T, name string) (reached bool) {
	t.Helper()
	c, err := new(net.Dialer).DialContext(waittest.Context(t), w.at[name].Network(), w.at[name].String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, mark); err != nil {
		t.Fatal(err)
	}
	c.Close()
	for {
		got := waittest.Receive(t, "the test's own contact with "+name, w.contacts)
		if got == (contact{name, true}) {
			return reached
		}
		reached = reached || got.name == name
	}
}

// attempt is one way out.
type attempt struct {
	name string
	// argv is the command; "@" stands for this binary as an attempt.
	argv func(*world) []string
	// harm says that it worked, as seen from outside; nil = its exit status says so.
	harm func(*testing.T, *world) bool
	// policy changes the standard one without a network.
	policy func(*world, *sandbox.Policy)
	// admitted are the levels that do not prevent it, and say so before.
	admitted []sandbox.Level
	// root says that only root can do it in the first place.
	root bool
}

func line(text string) func(*world) []string {
	return func(*world) []string { return []string{"/bin/sh", "-c", text} }
}

func try(args ...string) func(*world) []string {
	return func(w *world) []string {
		argv := []string{"@"}
		for _, a := range args {
			argv = append(argv, strings.NewReplacer("OUTSIDE", w.outside, "DIR", w.dir, "PORT", w.port(), "UDP", w.udp.LocalAddr().String(),
				"ABSTRACT", w.abstract(), "VICTIM", strconv.Itoa(w.victim.Process.Pid)).Replace(a))
		}
		return argv
	}
}

func local(_ *world, p *sandbox.Policy) { p.Network = sandbox.NetworkLocal }

func full(_ *world, p *sandbox.Policy) { p.Network = sandbox.NetworkFull }

// looks makes it the policy of a command that only looks.
func looks(w *world, p *sandbox.Policy) {
	p.Files = sandbox.Files{Read: []string{w.dir, w.self}, Home: true}
}

func nothing(_ *world, p *sandbox.Policy) { p.Files = sandbox.ReadOnly() }

func heard(name string) func(*testing.T, *world) bool {
	return func(t *testing.T, w *world) bool { return w.reached(t, name) }
}

// holds says that a file has a text in it, or any if text is empty.
func holds(file, text string) func(*testing.T, *world) bool {
	return func(_ *testing.T, w *world) bool {
		got, err := os.ReadFile(strings.NewReplacer("OUTSIDE", w.outside, "DIR", w.dir).Replace(file))
		return err == nil && bytes.Contains(got, []byte(text))
	}
}

// attempts is the table. What each is about is in the design of the sandbox, and in the reports that it learnt from.
func attempts() []attempt {
	weak := []sandbox.Level{sandbox.Landlock}
	return []attempt{
		{name: "write outside", argv: try("write", "OUTSIDE/new"), harm: holds("OUTSIDE/new", "")},
		{name: "write outside through a symlink", argv: try("write through a symlink", "OUTSIDE/file"), harm: holds("OUTSIDE/file", "evil")},
		{name: "write outside through a hardlink", argv: try("write through a hardlink", "OUTSIDE/file"), harm: holds("OUTSIDE/file", "evil")},
		{name: "rename out", argv: try("rename", "OUTSIDE/new"), harm: holds("OUTSIDE/new", "")},
		{name: "truncate outside", argv: try("truncate", "OUTSIDE/file")},
		{name: "write in a read-only sandbox", argv: try("write", "DIR/new"), harm: holds("DIR/new", ""), policy: nothing},
		{name: "chmod outside", argv: try("chmod", "OUTSIDE/file"), admitted: weak},
		{name: "chmod in a read-only sandbox", argv: try("chmod", "OUTSIDE/file"), policy: nothing},
		{name: "read what the policy does not name", argv: try("read", "OUTSIDE/file"), policy: func(w *world, p *sandbox.Policy) {
			p.Files.Read = []string{w.dir, w.self}
		}},

		{name: "TCP to the machine", argv: try("connect", "tcp", "127.0.0.1:PORT"), harm: heard("tcp")},
		{name: "TCP to the machine, network local", argv: try("connect", "tcp", "127.0.0.1:PORT"), harm: heard("tcp"), policy: local},
		{name: "MPTCP", argv: try("mptcp", "PORT"), harm: heard("tcp")},
		{name: "MPTCP, network local", argv: try("mptcp", "PORT"), harm: heard("tcp"), policy: local},
		{name: "UDP", argv: try("connect", "udp", "UDP"), harm: heard("udp")},
		{name: "UDP, network local", argv: try("connect", "udp", "UDP"), harm: heard("udp"), policy: local},
		{name: "raw socket", argv: try("socket", "2", "3", "1"), root: true},
		{name: "raw socket, network full", argv: try("socket", "2", "3", "1"), policy: full, root: true},
		{name: "netlink", argv: try("socket", "16", "3", "0")},
		{name: "netlink of another kind, network full", argv: try("socket", "16", "3", "15"), policy: full},
		{name: "a listener of its own, network none", argv: try("listen and connect")},
		{name: "docker.sock", argv: try("connect", "unix", "OUTSIDE/docker.sock"), harm: heard("docker.sock")},
		{name: "docker.sock, network local", argv: try("connect", "unix", "OUTSIDE/docker.sock"), harm: heard("docker.sock"), policy: local},
		{name: "docker.sock, network full", argv: try("connect", "unix", "OUTSIDE/docker.sock"), harm: heard("docker.sock"), policy: full},
		{name: "abstract socket, network full", argv: try("connect", "unix", "ABSTRACT"), harm: heard("abstract"), policy: full},
		{name: "datagram through a pair", argv: try("datagram through a pair", "OUTSIDE/log.sock"), harm: heard("log.sock")},
		{name: "datagram through a pair, network full", argv: try("datagram through a pair", "OUTSIDE/log.sock"), harm: heard("log.sock"), policy: full},
		{name: "io_uring", argv: try("io_uring")},

		{name: "signal a process of the machine", argv: try("signal", "VICTIM")},
		{name: "signal who looks after it", argv: try("signal the parent")},
		{name: "/proc/PPID/environ", argv: try("find in an environ", secret)},
		{name: "write to the parent's memory", argv: try("write to the parent's memory")},
		{name: "unshare -Ur", argv: line("unshare -Ur true")},
		{name: "unshare -U", argv: line("unshare -U true")},
		{name: "a new namespace by clone", argv: try("new namespace")},
		{name: "see a process of the machine", argv: try("see", "/proc/VICTIM"), admitted: weak},
		{name: "subprocess", argv: try("subprocess", "/bin/true"), policy: func(_ *world, p *sandbox.Policy) { p.Subprocess = false }},
		{name: "change the kernel's settings", argv: try("open for writing", "/proc/sys/kernel/core_pattern"), root: true},
		{name: "change the kernel's settings, permissive", argv: try("open for writing", "/proc/sys/kernel/core_pattern"), root: true,
			policy: func(_ *world, p *sandbox.Policy) { *p = sandbox.Permissive() }},
		{name: "write to a device", argv: try("open for writing", "/dev/kmsg"), root: true},
		{name: "write to a device, permissive", argv: try("open for writing", "/dev/kmsg"), root: true,
			policy: func(_ *world, p *sandbox.Policy) { *p = sandbox.Permissive() }},

		{name: "see the machine's devices", argv: try("see", "/dev/kmsg"), root: true, admitted: weak},

		{name: "write a hook", argv: try("write", "DIR/.git/hooks/pre-push"), harm: holds("DIR/.git/hooks/pre-push", "evil")},
		{name: "replace git's configuration", argv: line("echo evil > c && mv -f c .git/config"), harm: holds("DIR/.git/config", "evil")},
		{name: "mv .git g2", argv: line("mv .git g2 && mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit"), harm: holds("DIR/.git/hooks/pre-commit", "evil"), admitted: weak},
		{name: "mv .git/hooks", argv: line("mv .git/hooks h; mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit"), harm: holds("DIR/.git/hooks/pre-commit", "evil")},
		{name: "rm -rf .git", argv: line("rm -rf .git; mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit"), harm: holds("DIR/.git/hooks/pre-commit", "evil"), admitted: weak},
		{name: "another directory for git's configuration", argv: line("mkdir evil && echo evil > evil/config && echo ../evil > .git/commondir"), harm: holds("DIR/.git/commondir", "evil"), admitted: weak},
		{name: "CVE-2026-25725: a protected file that is not there", argv: line("echo evil > .mcp.json"), harm: holds("DIR/.mcp.json", "evil"), admitted: weak},
		{name: "a protected directory that is not there", argv: line("rmdir .vscode; mv .vscode v; mkdir .vscode; echo evil > .vscode/tasks.json"), harm: holds("DIR/.vscode/tasks.json", "evil"), admitted: weak},
		{name: "a protected file moved into its place", argv: line("echo evil > e && mv -fT e .envrc"), harm: holds("DIR/.envrc", "evil"), admitted: weak},
	}
}

// run runs the attempt, in the box or, without one, as anybody would. It says whether it worked.
func (a attempt) run(t *testing.T, w *world, b *sandbox.Box) (worked bool, said string) {
	t.Helper()
	w.reset(t)
	argv := a.argv(w)
	if argv[0] == "@" {
		argv = append([]string{w.self, "attempt"}, argv[1:]...)
	}
	if b == nil {
		c := exec.Command(argv[0], argv[1:]...)
		c.Dir = w.dir
		out, err := c.CombinedOutput()
		return err == nil && (a.harm == nil || a.harm(t, w)), string(out)
	}
	p := w.policy(t)
	if a.policy != nil {
		a.policy(w, &p)
	}
	lacks := b.Check(p)
	level := b.Status().Level
	r, err := b.Run(t.Context(), p, sandbox.Spec{Argv: argv, Dir: w.dir, Together: true, Accept: lacks != nil})
	if err != nil {
		t.Fatalf("%v: %v", level, err)
	}
	worked = r.Code == 0 && (a.harm == nil || a.harm(t, w))
	if worked && slices.Contains(a.admitted, level) && level == sandbox.Landlock && lacks == nil {
		t.Errorf("%v does not prevent it, and did not say so", level)
	}
	return worked, r.Stdout.String()
}

func (w *world) policy(t *testing.T) sandbox.Policy {
	t.Helper()
	p, err := sandbox.Standard(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	p.Network = sandbox.NetworkNone
	return p
}

// box returns a Box of exactly that level.
func box(t *testing.T, l sandbox.Level) *sandbox.Box {
	t.Helper()
	b := sandbox.Probe(t.Context(), sandbox.Config{Levels: []sandbox.Level{l}, Env: os.Environ()})
	if s := b.Status(); s.Level != l {
		t.Skipf("this machine does not have the level %v: %s", l, s.Mend)
	}
	return b
}

func TestEscapes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	boxes := map[sandbox.Level]*sandbox.Box{}
	for _, l := range levels {
		t.Run(l.String(), func(t *testing.T) { boxes[l] = box(t, l) })
	}
	for _, a := range attempts() {
		t.Run(a.name, func(t *testing.T) {
			if a.root && os.Geteuid() != 0 {
				return // nothing to prevent
			}
			if worked, said := a.run(t, w, nil); !worked {
				if a.root {
					t.Skip("this root may not do that anyway, as in a container: ", said)
				}
				t.Fatalf("it does not even work without a sandbox, and shows nothing: %s", said)
			}
			for _, l := range levels {
				b := boxes[l]
				if b == nil {
					continue
				}
				worked, said := a.run(t, w, b)
				if want := slices.Contains(a.admitted, l); worked != want {
					t.Errorf("%v: worked: %v, want %v; it said: %s", l, worked, want, said)
				}
			}
			if a.policy != nil {
				return
			}
			a.policy = looks
			for _, l := range levels[:2] {
				if b := boxes[l]; b != nil {
					if worked, said := a.run(t, w, b); worked {
						t.Errorf("%v: a command that only looks can do it; it said: %s", l, said)
					}
				}
			}
		})
	}
	w.reset(t)
	w.tidy(t)
}

// tidy fails if a command left something.
func (w *world) tidy(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".git" {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

// left returns the processes of this machine whose arguments have a word.
func left(word string) (out []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err == nil && slices.Contains(strings.Split(string(text), "\x00"), word) {
			out = append(out, file+": "+strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return out
}
