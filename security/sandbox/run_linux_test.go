package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/internal/community/waittest"
	"symbio/security/sandbox"
)

// masked is how many names a command cannot create in an empty directory.
const masked = 21

// atEachLevel runs the test at each level of this machine, and without confinement: processes end there too.
func atEachLevel(t *testing.T, levels []sandbox.Level, f func(*testing.T, *sandbox.Box)) {
	t.Helper()
	for _, l := range levels {
		t.Run(l.String(), func(t *testing.T) { f(t, box(t, l)) })
	}
}

var every = append(slices.Clone(levels), sandbox.Off)

// sh runs a line of shell in a directory of its own, with a standard policy.
func sh(t *testing.T, ctx context.Context, b *sandbox.Box, dir, line string,
	change ...func(*sandbox.Policy, *sandbox.Spec)) (sandbox.Result, error) {
	t.Helper()
	p, err := sandbox.Standard(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := sandbox.Spec{Argv: []string{"/bin/sh", "-c", line}, Dir: dir, Accept: true}
	for _, c := range change {
		c(&p, &s)
	}
	return b.Run(ctx, p, s)
}

func TestCommandRuns(t *testing.T) {
	atEachLevel(t, every, func(t *testing.T, b *sandbox.Box) {
		dir := t.TempDir()
		r, err := sh(t, t.Context(), b, dir, `cat; echo out; echo err >&2; echo x > new; echo y > "$TMPDIR/t" && cat "$TMPDIR/t"; pwd; exit 7`,
			func(_ *sandbox.Policy, s *sandbox.Spec) { s.Stdin = strings.NewReader("in\n") })
		if err != nil {
			t.Fatal(err)
		}
		if want := "in\nout\ny\n" + dir + "\n"; r.Code != 7 || r.Signal != "" || r.Stdout.String() != want || r.Stderr.String() != "err\n" {
			t.Errorf("status %d %q, output %q and %q; want 7, %q and err", r.Code, r.Signal, r.Stdout, r.Stderr, want)
		}
		if r.Level != b.Status().Level || r.Took <= 0 {
			t.Errorf("level %v, took %v", r.Level, r.Took)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 || entries[0].Name() != "new" {
			t.Errorf("the directory has %v, %v; want only what the command made", entries, err)
		}
	})
}

func TestSignalIsTold(t *testing.T) {
	atEachLevel(t, every, func(t *testing.T, b *sandbox.Box) {
		r, err := sh(t, t.Context(), b, t.TempDir(), "kill -SEGV $$")
		if err != nil || r.Code != 139 || r.Signal != "segmentation fault" {
			t.Errorf("status %d %q, %v; want 139 and its name", r.Code, r.Signal, err)
		}
	})
}

func TestCommandThatIsNotThereSaysSo(t *testing.T) {
	atEachLevel(t, every, func(t *testing.T, b *sandbox.Box) {
		dir := t.TempDir()
		junk := filepath.Join(dir, "junk") // the kernel takes it for no program
		if err := os.WriteFile(junk, []byte("\x00"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, argv := range [][]string{{"no-such-program"}, {"/no/such/program"}, {dir}, {junk}, {""}, {}, {"a\x00b"}} {
			if _, err := sh(t, t.Context(), b, dir, "", func(_ *sandbox.Policy, s *sandbox.Spec) { s.Argv = argv }); !errors.Is(err,
				sandbox.ErrNotStarted) {
				t.Errorf("%q: %v, want ErrNotStarted", argv, err)
			}
		}
		for _, d := range []string{"", "here", filepath.Join(dir, "absent")} {
			if _, err := sh(t, t.Context(), b, dir, "true", func(_ *sandbox.Policy, s *sandbox.Spec) { s.Dir = d }); !errors.Is(err,
				sandbox.ErrNotStarted) {
				t.Errorf("in %q: %v, want ErrNotStarted", d, err)
			}
		}
	})
}

func TestEnvironmentIsAListOfWhatIsLetIn(t *testing.T) {
	mine := []string{"PATH=/usr/bin:/bin", "HOME=/h", "OPENAI_API_KEY=k", "LD_PRELOAD=/x", "EXTRA=e", "TERM=t", "BASH_ENV=/x"}
	for _, l := range every {
		b := sandbox.Probe(t.Context(), sandbox.Config{Levels: []sandbox.Level{l}, Env: mine})
		if b.Status().Level != l {
			continue // TestCommandRuns says why
		}
		dir := t.TempDir()
		r, err := sh(t, t.Context(), b, dir, "exec env", func(p *sandbox.Policy, s *sandbox.Spec) {
			p.Files.Temp = false
			p.Env, s.Env = []string{"EXTRA", "GIVEN", "ABSENT"}, []string{"GIVEN=g=g", "TERM=dumb"}
		})
		if err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(strings.Fields(r.Stdout.String()), func(s string) bool { return strings.HasPrefix(s, "GIT_") })
		slices.Sort(got)
		want := []string{"EXTRA=e", "GIVEN=g=g", "HOME=/h", "PATH=/usr/bin:/bin", "PWD=" + dir, "TERM=dumb"}
		if diff := cmp.Diff(want, slices.DeleteFunc(got,
			func(s string) bool { return strings.HasPrefix(s, "_=") || strings.HasPrefix(s, "OLDPWD=") })); diff != "" {
			t.Errorf("%v: the environment (-want +got):\n%s", l, diff)
		}
		for _, bad := range [][]string{{"OTHER=x"}, {"LD_PRELOAD=x"}, {"novalue"}, {"=x"}, {"TERM=a\x00b"}} {
			if _, err := sh(t, t.Context(), b, dir, "true", func(_ *sandbox.Policy, s *sandbox.Spec) { s.Env = bad }); err == nil {
				t.Errorf("%v: %q was let in", l, bad)
			}
		}
		if _, err := sh(t, t.Context(), b, dir, "true",
			func(p *sandbox.Policy, _ *sandbox.Spec) { p.Env = []string{"OPENAI_API_KEY"} }); err == nil {
			t.Errorf("%v: a key was inherited", l)
		}
		r, err = sh(t, t.Context(), b, dir, "echo $OPENAI_API_KEY", func(p *sandbox.Policy, s *sandbox.Spec) {
			p.Env, s.Env = []string{"OPENAI_API_KEY"}, []string{"OPENAI_API_KEY=its own"}
		})
		if err != nil || strings.TrimSpace(r.Stdout.String()) != "its own" {
			t.Errorf("%v: a key that is given by its value: got %q, %v", l, r.Stdout, err)
		}
	}
}

func TestNetworkLocalIsACommandsOwn(t *testing.T) {
	w := newWorld(t)
	atEachLevel(t, []sandbox.Level{sandbox.Native, sandbox.Bwrap}, func(t *testing.T, b *sandbox.Box) {
		p := w.policy(t)
		p.Network = sandbox.NetworkLocal
		r, err := b.Run(t.Context(), p, sandbox.Spec{Argv: []string{w.self, "attempt", "listen and connect"}, Dir: w.dir, Together: true})
		if err != nil || r.Code != 0 {
			t.Errorf("status %d, %v: %s", r.Code, err, r.Stdout)
		}
	})
}

func TestNetworkThatIsFullReachesTheMachine(t *testing.T) {
	w := newWorld(t)
	atEachLevel(t, levels, func(t *testing.T, b *sandbox.Box) {
		p := w.policy(t)
		p.Network = sandbox.NetworkFull
		r, err := b.Run(t.Context(), p, sandbox.Spec{Argv: []string{w.self, "attempt", "connect", "tcp", "127.0.0.1:" + w.port()},
			Dir: w.dir, Together: true, Accept: true})
		if err != nil || r.Code != 0 || !w.reached(t, "tcp") {
			t.Errorf("status %d, %v: %s", r.Code, err, r.Stdout)
		}
	})
}

// unique is an argument of sleep that no other process has.
func unique(t *testing.T) string {
	h := 0
	for _, c := range t.Name() {
		h = (h*31 + int(c)) % 100000
	}
	return fmt.Sprintf("%d.%d", 100000+os.Getpid(), h)
}

func TestSandboxEndsSetsidDaemon(t *testing.T) {
	w := newWorld(t)
	atEachLevel(t, every, func(t *testing.T, b *sandbox.Box) {
		mark := unique(t)
		t.Run("the end of its command", func(t *testing.T) {
			r, err := b.Run(t.Context(), w.policy(t),
				sandbox.Spec{Argv: []string{w.self, "attempt", "stays", mark}, Dir: w.dir, Accept: true, Together: true})
			if err != nil || r.Code != 0 {
				t.Fatalf("status %d, %v: %s", r.Code, err, r.Stdout)
			}
			if l := left(mark); len(l) > 0 {
				t.Errorf("there is still %q", l)
			}
		})
		t.Run("the end of its context", func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			r, err := sh(t, ctx, b, w.dir, w.self+" attempt stays "+mark+"; (sleep "+mark+" &); trap '' TERM INT; echo so far; sleep "+mark,
				func(p *sandbox.Policy, _ *sandbox.Spec) { p.Network = sandbox.NetworkNone })
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the deadline", err)
			}
			if got := r.Stdout.String(); got != "" && got != "so far\n" {
				t.Errorf("it printed %q", got)
			}
			if l := left(mark); len(l) > 0 {
				t.Errorf("there is still %q", l)
			}
		})
	})
}

func TestCommandLeavesNoDescriptorOrZombie(t *testing.T) {
	files := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	dir := t.TempDir()
	for _, l := range every {
		b := sandbox.Probe(t.Context(), sandbox.Config{Levels: []sandbox.Level{l}})
		if b.Status().Level != l {
			continue
		}
		before, threads := files(), runtime.NumGoroutine()
		const rounds = 3
		for range rounds {
			if _, err := sh(t, t.Context(), b, dir, "sleep 100 & true"); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := sh(t, ctx, b, dir, "true"); !errors.Is(err, context.Canceled) {
				t.Errorf("%v: %v, want that it was cancelled", l, err)
			}
			if _, err := sh(t, t.Context(), b, dir, "true",
				func(_ *sandbox.Policy, s *sandbox.Spec) { s.Argv = []string{"/absent"} }); err == nil {
				t.Errorf("%v: what is absent ran", l)
			}
			if _, err := sh(t, t.Context(), b, dir, "true",
				func(p *sandbox.Policy, s *sandbox.Spec) { p.Files.Write = []string{"/absent"} }); err == nil && l != sandbox.Off {
				t.Errorf("%v: a directory that is absent can be written", l)
			}
		}
		if after := files(); after > before {
			t.Errorf("%v: %d files are open, %d were before", l, after, before)
		}
		// A leak leaves one in each round. A single one more may be one of os/exec's, on its way to its end.
		if after := runtime.NumGoroutine(); after >= threads+rounds {
			t.Errorf("%v: %d goroutines, %d were before", l, after, threads)
		}
	}
	out, err := exec.Command("/bin/sh", "-c", fmt.Sprintf("cat /proc/%d/task/*/children", os.Getpid())).Output()
	if err != nil {
		t.Skip("this kernel does not tell the children of a process")
	}
	for _, pid := range strings.Fields(string(out)) {
		if stat, _ := os.ReadFile("/proc/" + pid + "/stat"); strings.Contains(string(stat), ") Z ") {
			t.Errorf("a zombie: %s", stat)
		}
	}
}

func TestFloodIsCutAndCounted(t *testing.T) {
	atEachLevel(t, levels, func(t *testing.T, b *sandbox.Box) {
		r, err := sh(t, t.Context(), b, t.TempDir(), "echo first; yes | head -c 20000000; echo last")
		if err != nil {
			t.Fatal(err)
		}
		o := r.Stdout
		if kept := len(o.Head) + len(o.Tail); kept != 1<<20 || o.Cut != 20000000+11-1<<20 ||
			!strings.HasPrefix(string(o.Head), "first\ny\n") || !strings.HasSuffix(string(o.Tail), "y\nlast\n") {
			t.Errorf("%d bytes were kept and %d cut, from %.10q to %.10q", kept, o.Cut, o.Head, o.Tail[max(0, len(o.Tail)-10):])
		}
	})
}

func TestFloodWithoutEndEnds(t *testing.T) {
	atEachLevel(t, every, func(t *testing.T, b *sandbox.Box) {
		mark := unique(t)
		r, err := sh(t, t.Context(), b, t.TempDir(), "(sleep "+mark+" &); yes >&2",
			func(_ *sandbox.Policy, s *sandbox.Spec) { s.Flood, s.Keep = 1<<20, 100 })
		if !errors.Is(err, sandbox.ErrFlood) || len(r.Stderr.Head) != 50 || r.Stderr.Cut < 1<<20-100 {
			t.Errorf("%v, kept %d, cut %d; want ErrFlood", err, len(r.Stderr.Head), r.Stderr.Cut)
		}
		if l := left(mark); len(l) > 0 {
			t.Errorf("there is still %q", l)
		}
	})
}

func TestLimitsAreSet(t *testing.T) {
	atEachLevel(t, levels, func(t *testing.T, b *sandbox.Box) {
		dir := t.TempDir()
		r, err := sh(t, t.Context(), b, dir, "ulimit -c; ulimit -t; ulimit -n; ulimit -d; head -c 5000000 /dev/zero > big; echo $?",
			func(p *sandbox.Policy, _ *sandbox.Spec) { p.Limits = sandbox.Limits{} })
		if err != nil {
			t.Fatal(err)
		}
		// 128 + SIGXFSZ; Go gave a name to it in the shell's message, which differs between shells.
		if got := strings.Join(strings.Fields(r.Stdout.String()), " "); got != "0 10 64 131072 153" {
			t.Errorf("limits and status %q, want 0 10 64 131072 153; it said %s", got, r.Stderr)
		}
		if st, err := os.Stat(filepath.Join(dir, "big")); err != nil || st.Size() != 1<<20 {
			t.Errorf("the file is %v, %v; want 1 MiB", st, err)
		}
	})
}

func TestProcessesAreBounded(t *testing.T) {
	w := newWorld(t)
	atEachLevel(t, levels, func(t *testing.T, b *sandbox.Box) {
		bounded := !slices.ContainsFunc(b.Status().Missing, func(s string) bool { return strings.Contains(s, "number of processes") })
		p := w.policy(t)
		p.Limits.Processes = 100
		r, err := b.Run(waittest.Context(t), p,
			sandbox.Spec{Argv: []string{w.self, "attempt", "many processes", "450"}, Dir: w.dir, Together: true, Accept: true})
		if err != nil {
			t.Fatal(err)
		}
		if (r.Code != 0) != bounded {
			t.Errorf("status %d: %s; bounded according to Status: %v", r.Code, r.Stdout, bounded)
		}
	})
}

func TestServerIsTalkedToAndEnds(t *testing.T) {
	atEachLevel(t, every, func(t *testing.T, b *sandbox.Box) {
		dir, mark := t.TempDir(), unique(t)
		p, err := sandbox.Standard(dir)
		if err != nil {
			t.Fatal(err)
		}
		spec := sandbox.Spec{Argv: []string{"/bin/sh", "-c", "(sleep " + mark + " &) ; echo ready >&2; while read x; do echo got $x; done"}, Dir: dir, Accept: true}
		s, err := b.Start(t.Context(), p, spec)
		if err != nil {
			t.Fatal(err)
		}
		out := bufio.NewReader(s.Stdout)
		for _, word := range []string{"a", "b"} {
			fmt.Fprintln(s.Stdin, word)
			if got, err := out.ReadString('\n'); err != nil || got != "got "+word+"\n" {
				t.Errorf("%q, %v", got, err)
			}
		}
		if err := s.Stdin.Close(); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadAll(out); err != nil {
			t.Error(err)
		}
		if r, err := s.Wait(); err != nil || r.Code != 0 || r.Stderr.String() != "ready\n" {
			t.Errorf("%+v, %v", r, err)
		}
		if s, err = b.Start(t.Context(), p, spec); err != nil {
			t.Fatal(err)
		}
		s.End()
		if _, err := s.Wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("after End: %v", err)
		}
		if l := left(mark); len(l) > 0 {
			t.Errorf("there is still %q", l)
		}
	})
}

func TestSymlinkPlantedBetweenCheckAndUse(t *testing.T) {
	w := newWorld(t)
	sub, away := filepath.Join(w.dir, "sub"), filepath.Join(w.dir, "away")
	atEachLevel(t, levels, func(t *testing.T, b *sandbox.Box) {
		w.reset(t)
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		p, err := sandbox.Standard(sub)
		if err != nil {
			t.Fatal(err)
		}
		p.Network = sandbox.NetworkNone
		run := func() error {
			_, err := b.Run(t.Context(), p,
				sandbox.Spec{Argv: []string{"/bin/sh", "-c", "echo evil > " + sub + "/new"}, Dir: "/", Accept: true})
			return err
		}
		swap := func() error {
			return errors.Join(os.Rename(sub, away), os.Symlink(w.outside, sub), os.Remove(sub), os.Rename(away, sub))
		}
		if err := errors.Join(os.Rename(sub, away), os.Symlink(w.outside, sub)); err != nil {
			t.Fatal(err)
		}
		if err := run(); err == nil {
			t.Error("a link where the directory was did not stop it")
		}
		if err := errors.Join(os.Remove(sub), os.Mkdir(sub, 0o755)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(run(), os.RemoveAll(sub), os.Rename(away, sub)); err != nil {
			t.Fatal(err)
		}
		var racer sync.WaitGroup
		stop := make(chan bool)
		racer.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := swap(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
		for range 10 {
			run() // it may be refused; what counts is below
		}
		close(stop)
		racer.Wait()
		if _, err := os.Stat(w.outside + "/new"); err == nil {
			t.Error("it wrote outside")
		}
	})
}

func TestMasksAreSharedAndLeaveNothing(t *testing.T) {
	atEachLevel(t, []sandbox.Level{sandbox.Native, sandbox.Bwrap}, func(t *testing.T, b *sandbox.Box) {
		t.Run("made each time", func(t *testing.T) { masksAreShared(t, b) })
		for name, temp := range map[string]string{"kept": t.TempDir(), "kept, on another file system": "/dev/shm"} {
			temp, err := os.MkdirTemp(temp, "masks")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(temp) })
			b := sandbox.Probe(t.Context(), sandbox.Config{Levels: []sandbox.Level{b.Status().Level}, Env: os.Environ(), TempDir: temp})
			t.Run(name, func(t *testing.T) { masksAreShared(t, b) })
			if all, err := os.ReadDir(filepath.Join(temp, ".symbio-masks")); err != nil || (len(all) > 0) != (name == "kept") {
				t.Errorf("%s: there wait %v, %v", name, all, err)
			}
		}
	})
}

func masksAreShared(t *testing.T, b *sandbox.Box) {
	dir := t.TempDir()
	p, err := sandbox.Standard(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 5 {
		all.Go(func() {
			for j := range 2 {
				line := fmt.Sprintf("sleep 0.0%d; for f in .envrc .mcp.json .vscode/x .git/config .git/x; do echo evil > $f && echo $f; done; true", (i+j)%5)
				r, err := b.Run(t.Context(), p, sandbox.Spec{Argv: []string{"/bin/sh", "-c", line}, Dir: dir})
				if err != nil || r.Stdout.String() != "" {
					t.Errorf("%v; written: %s", err, r.Stdout)
				}
			}
		})
	}
	all.Wait()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("there is still %v, %v", entries, err)
	}
	line := "echo ready >&2; read go; echo evil > .envrc"
	in, to := io.Pipe()
	said, says := io.Pipe()
	var g sync.WaitGroup
	g.Go(func() {
		r, err := b.Run(t.Context(), p, sandbox.Spec{Argv: []string{"/bin/sh", "-c", line}, Dir: dir, Stdin: in, Stderr: says})
		if err != nil || r.Code == 0 {
			t.Errorf("status %d, %v", r.Code, err)
		}
		says.Close()
	})
	heard := bufio.NewReader(said)
	if text, err := heard.ReadString('\n'); err != nil {
		t.Fatalf("it said %q, %v", text, err)
	}
	g.Go(func() { io.Copy(io.Discard, heard) }) // what the shell says of the file
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != masked {
		t.Errorf("while it runs: %v, %v", entries, err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".git", "theirs"), nil, 0o644); err != nil && os.Geteuid() == 0 {
		t.Fatal(err)
	}
	if _, err := io.WriteString(to, "go\n"); err != nil {
		t.Fatal(err)
	}
	to.Close()
	g.Wait()
	entries, err := os.ReadDir(dir)
	if err != nil || os.Geteuid() == 0 && (len(entries) != 1 || entries[0].Name() != ".git") {
		t.Errorf("%v, %v; want only what somebody put something in", entries, err)
	}
	if len(entries) == 0 {
		return
	}
	// From then on it is a directory of theirs, which commands may write.
	if r, err := sh(t, t.Context(), b, dir, "echo x > .git/index"); err != nil || r.Code != 0 {
		t.Errorf("status %d, %v: %s", r.Code, err, r.Stderr)
	}
}

func TestMasksOfANodeThatWasKilledGoWithTheNextCommand(t *testing.T) {
	atEachLevel(t, []sandbox.Level{sandbox.Native, sandbox.Bwrap}, func(t *testing.T, b *sandbox.Box) {
		dir := t.TempDir()
		if out, err := exec.Command("/proc/self/exe", "attempt", "start and die", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != masked {
			t.Fatalf("it left %v, %v; want the masks", entries, err)
		}
		if r, err := sh(t, t.Context(), b, dir, "echo evil > .envrc; rmdir .vscode; test -e .git/hooks"); err != nil || r.Code == 0 {
			t.Errorf("status %d, %v", r.Code, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
			t.Errorf("there is still %v, %v", entries, err)
		}
	})
}

func TestLinkThatCannotBeProtectedIsRefused(t *testing.T) {
	atEachLevel(t, []sandbox.Level{sandbox.Native, sandbox.Bwrap}, func(t *testing.T, b *sandbox.Box) {
		dir := t.TempDir()
		if err := os.Symlink("elsewhere", filepath.Join(dir, ".git")); err != nil {
			t.Fatal(err)
		}
		if _, err := sh(t, t.Context(), b, dir, "true"); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("%v, want that it is a link", err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Errorf("it left %v, %v", entries, err)
		}
	})
}

func TestSandboxRefusalNamesRemedy(t *testing.T) {
	none := sandbox.Probe(t.Context(), sandbox.Config{Levels: []sandbox.Level{}})
	landlock := sandbox.Probe(t.Context(), sandbox.Config{Levels: []sandbox.Level{sandbox.Landlock}, Home: t.TempDir()})
	if l := landlock.Status().Level; l != sandbox.Landlock {
		t.Skipf("this machine does not have the level landlock+seccomp: %v", l)
	}
	standard, err := sandbox.Standard(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		b     *sandbox.Box
		p     sandbox.Policy
		words string // "" = it runs
	}{
		{"no level, accepted", none, sandbox.Policy{}, "none is run"},
		{"the zero box", &sandbox.Box{}, sandbox.Policy{}, "none is run"},
		{"landlock, restrictive", landlock, sandbox.Restrictive(), ""},
		{"landlock, zero", landlock, sandbox.Policy{}, ""},
		{"landlock, permissive", landlock, sandbox.Permissive(), map[bool]string{true: "/etc/gshadow could be read"}[os.Geteuid() == 0]},
		{"landlock, standard", landlock, standard, "git's hooks"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.b.Run(t.Context(), test.p,
				sandbox.Spec{Argv: []string{"/bin/true"}, Dir: "/", Accept: test.b.Status().Level == sandbox.None})
			if test.words == "" {
				if err != nil || test.b.Check(test.p) != nil {
					t.Errorf("%v, and Check says %v", err, test.b.Check(test.p))
				}
				return
			}
			var r *sandbox.Refusal
			if !errors.Is(err, sandbox.ErrRefused) || !errors.As(err, &r) || !strings.Contains(err.Error(), test.words) {
				t.Fatalf("%v, want that it is refused: %s", err, test.words)
			}
			if test.b.Status().Mend != "" && !strings.Contains(err.Error(), "To mend it: "+test.b.Status().Mend) {
				t.Errorf("%v does not say how to mend it", err)
			}
		})
	}
	if s := none.Status(); s.Level != sandbox.None || len(s.Missing) == 0 || s.Mend == "" {
		t.Errorf("without a level the status is %+v", s)
	}
}

func TestPrivateTmpHidesNothingThatThePolicyNames(t *testing.T) {
	atEachLevel(t, levels, func(t *testing.T, b *sandbox.Box) {
		top, err := os.MkdirTemp("/tmp", "symbio-test-")
		if err != nil {
			t.Skip("no /tmp:", err)
		}
		t.Cleanup(func() { os.RemoveAll(top) })
		for _, name := range []string{"dir", "named", "work"} {
			if err := errors.Join(os.Mkdir(filepath.Join(top, name), 0o755),
				os.WriteFile(filepath.Join(top, name, "file"), []byte(name+"\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		r, err := sh(t, t.Context(), b, filepath.Join(top, "work"), "cat file ../named/file ../work/file; echo evil > file; echo evil > ../named/new; echo fine > ../work/new",
			func(p *sandbox.Policy, s *sandbox.Spec) {
				s.Dir = filepath.Join(top, "dir")
				p.Files.Read = append(p.Files.Read, s.Dir, filepath.Join(top, "named"))
			})
		if err != nil || r.Stdout.String() != "dir\nnamed\nwork\n" {
			t.Errorf("%q, %v; %s", r.Stdout, err, r.Stderr)
		}
		for name, want := range map[string]string{"dir/file": "dir\n", "named/new": "", "work/new": "fine\n"} {
			if got, _ := os.ReadFile(filepath.Join(top, name)); string(got) != want {
				t.Errorf("%s has %q, want %q", name, got, want)
			}
		}
	})
}

func TestGitWorks(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git on this machine")
	}
	atEachLevel(t, levels, func(t *testing.T, b *sandbox.Box) {
		dir := t.TempDir()
		git := exec.Command("git", "init", "-q", dir)
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		line := `set -e; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a
echo x > f; git add -A; git commit -qm one; git checkout -qb other; git mv f g; git commit -qm two; git gc -q; git show --stat --format= --name-only; git status --short; git ls-files`
		r, err := sh(t, t.Context(), b, dir, line, func(_ *sandbox.Policy, s *sandbox.Spec) { s.Together = true })
		if err != nil || r.Code != 0 || r.Stdout.String() != "g\ng\n" {
			t.Errorf("status %d, %v: %s", r.Code, err, r.Stdout)
		}
	})
}
