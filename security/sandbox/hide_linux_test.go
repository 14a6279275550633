package sandbox_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"symbio/security/sandbox"
)

// key is what nobody is to see.
const key = "KEY-OF-ANN"

// house is a home with keys in it, a workspace, and a directory that only Config.Hide names.
type house struct{ home, work, own string }

func newHouse(t testing.TB) house {
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
	h := house{filepath.Join(top, "ann"), filepath.Join(top, "ann", "work"), filepath.Join(top, "own")}
	for _, file := range []string{"ann/.ssh/id_ed25519", "ann/.netrc", "ann/dotfiles/aws/credentials", "ann/.config/gh/hosts.yml",
		"ann/.mozilla/p/cookies.sqlite", "own/key.pem"} {
		at := filepath.Join(top, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(key), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"ann/work/f", "ann/.config/plain", "ann/notes", "ann/.docker", "outside"} {
		at := filepath.Join(top, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte("plain"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("dotfiles/aws", filepath.Join(h.home, ".aws")); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h house) box(t *testing.T, l sandbox.Level) *sandbox.Box {
	t.Helper()
	b := sandbox.Probe(t.Context(), sandbox.Config{Levels: []sandbox.Level{l}, Env: os.Environ(), Home: h.home,
		Hide: []string{h.own, filepath.Join(h.home, "absent"), "relative"}})
	if s := b.Status(); s.Level != l {
		t.Skipf("this machine does not have the level %v: %s", l, s.Mend)
	}
	return b
}

// expand puts the house's directories into a text.
func (h house) expand(text string) string {
	return strings.NewReplacer("HOME", h.home, "OWN", h.own, "TOP", filepath.Dir(h.home)).Replace(text)
}

func TestEscapesToWhatIsHidden(t *testing.T) {
	t.Parallel()
	calm := newHouse(t) // for those who change nothing
	boxes := map[sandbox.Level]*sandbox.Box{}
	for _, l := range levels {
		t.Run(l.String(), func(t *testing.T) { boxes[l] = calm.box(t, l) })
	}
	for _, a := range []struct {
		name, line string
		atHome     bool // the whole home can be written
		only       bool // not everybody can do that without a sandbox in the first place
	}{
		{name: "a key", line: "cat HOME/.ssh/id_ed25519"},
		{name: "a file of passwords", line: "cat HOME/.netrc"},
		{name: "a token two levels down", line: "cat HOME/.config/gh/hosts.yml"},
		{name: "cookies", line: "cat HOME/.mozilla/*/cookies.sqlite"},
		{name: "behind a link", line: "cat HOME/.aws/credentials"},
		{name: "where a link leads", line: "cat HOME/dotfiles/aws/credentials"},
		{name: "what the configuration names", line: "cat OWN/key.pem"},
		{name: "everything", line: "grep -rsh " + key[:3] + " HOME OWN"},
		{name: "through its own root", line: "cat /proc/self/root/HOME/.netrc /proc/self/root/OWN/key.pem"},
		{name: "through the root of its parent", line: "cat /proc/$PPID/root/HOME/.netrc"},
		{name: "through the root of the first process", line: "cat /proc/1/root/HOME/.netrc", only: true},
		{name: "through what others have open", line: "exec 3<TOP; cat /proc/*/cwd/.netrc /proc/*/fd/*/ann/.netrc /proc/*/cwd/../.netrc"},
		{name: "by taking the mount away", line: "umount HOME/.ssh; umount -l HOME/.netrc; cat HOME/.ssh/* HOME/.netrc", only: true},
		{name: "by a link of one's own", line: "ln -s HOME/.netrc work-link; cat work-link"},
		{name: "by a hard link", line: "ln HOME/.netrc n; cat n", atHome: true},
		{name: "by another name", line: "mv HOME/.ssh HOME/s; mv HOME/.netrc HOME/n; cat HOME/s/* HOME/n", atHome: true},
		{name: "by another name of what is around", line: "mv HOME/.config HOME/c; cat HOME/c/gh/hosts.yml", atHome: true},
		{name: "by something in its place", line: "rm -rf HOME/.ssh; cat HOME/.ssh/id_ed25519 HOME/.netrc", atHome: true},
		{name: "by writing a key", line: "echo evil >> HOME/.ssh/authorized_keys; echo evil > HOME/.netrc; cat HOME/.ssh/authorized_keys HOME/.netrc && echo " + key, atHome: true},
	} {
		t.Run(a.name, func(t *testing.T) {
			plain := newHouse(t)
			c := exec.Command("/bin/sh", "-c", plain.expand(a.line))
			c.Dir = plain.work
			if out, _ := c.Output(); !strings.Contains(string(out), key) && !a.only {
				t.Fatalf("it does not even work without a sandbox, and shows nothing: %q", out)
			}
			for _, l := range levels {
				t.Run(l.String(), func(t *testing.T) {
					h, b, dir := calm, boxes[l], calm.work
					if b == nil {
						return // which was said
					}
					if a.atHome {
						h = newHouse(t)
						b, dir = h.box(t, l), h.home
					}
					p, err := sandbox.Standard(dir)
					if err != nil {
						t.Fatal(err)
					}
					bare := l == sandbox.Landlock && a.atHome
					if err := b.Check(p); bare && (err == nil || !strings.Contains(err.Error(), "could be read")) {
						t.Errorf("it cannot be hidden at this level, and Check says %v", err)
					}
					r, err := b.Run(t.Context(), p,
						sandbox.Spec{Argv: []string{"/bin/sh", "-c", h.expand(a.line)}, Dir: dir, Together: true, Accept: true})
					if err != nil {
						t.Fatal(err)
					}
					if saw := strings.Contains(r.Stdout.String(), key); saw != bare {
						t.Errorf("it saw the key: %v, want %v: %s", saw, bare, r.Stdout)
					}
					if text, err := os.ReadFile(filepath.Join(h.own, "key.pem")); err != nil || string(text) != key {
						t.Errorf("the key itself is now %q, %v", text, err)
					}
				})
			}
		})
	}
}

func TestVisibleFilesAreThere(t *testing.T) {
	atEachLevel(t, levels, func(t *testing.T, _ *sandbox.Box) {
		h := newHouse(t)
		b := h.box(t, levels[slices.IndexFunc(levels, func(l sandbox.Level) bool { return strings.HasSuffix(t.Name(), "/"+l.String()) })])
		p, err := sandbox.Standard(h.work)
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Run(t.Context(), p, sandbox.Spec{
			Argv: []string{"/bin/sh", "-c", h.expand("cat f HOME/notes HOME/.config/plain TOP/outside; echo x > new; cat new; ls -A HOME / >/dev/null; ls -A HOME/.ssh 2>&1 >/dev/null; ls /dev/.[a-z]* 2>/dev/null")},
			Dir:  h.work, Together: true, Accept: true,
		})
		if want := "plainplainplainplainx\n"; err != nil || r.Stdout.String() != want {
			t.Errorf("it saw %q, %v; want %q", r.Stdout, err, want)
		}
	})
}

func TestPolicyShowsWhatItNames(t *testing.T) {
	atEachLevel(t, []sandbox.Level{sandbox.Native, sandbox.Bwrap, sandbox.Landlock}, func(t *testing.T, b *sandbox.Box) {
		h := newHouse(t)
		b = h.box(t, b.Status().Level)
		for show, want := range map[string]string{
			"":         "",
			"OWN":      "own/key.pem\n",
			"HOME":     "ann/.netrc\nann/.ssh/id_ed25519\nann/dotfiles/aws/credentials\n",
			"HOME/.ss": "", "HOME/.aws": "ann/dotfiles/aws/credentials\n",
			"HOME/.ssh": "ann/.ssh/id_ed25519\n", "HOME/.ssh/id_ed25519": "", "/": "ann/.netrc\nann/.ssh/id_ed25519\nann/dotfiles/aws/credentials\nown/key.pem\n",
		} {
			p, err := sandbox.Standard(h.work)
			if err != nil {
				t.Fatal(err)
			}
			p.Files.Show = []string{h.expand(show)}
			r, err := b.Run(t.Context(), p, sandbox.Spec{
				Argv: []string{"/bin/sh", "-c", h.expand("cd TOP; grep -ls KEY ann/.netrc ann/.ssh/id_ed25519 ann/dotfiles/aws/credentials own/key.pem; true")}, Dir: h.work, Accept: true,
			})
			if err != nil || r.Stdout.String() != want {
				t.Errorf("shown %q it sees %q, %v; want %q", show, r.Stdout, err, want)
			}
		}
	})
}

func TestNoCommandWorksWhereItSeesNothing(t *testing.T) {
	h := newHouse(t)
	atEachLevel(t, levels, func(t *testing.T, b *sandbox.Box) {
		b = h.box(t, b.Status().Level)
		ssh := filepath.Join(h.home, ".ssh")
		for name, dirs := range map[string][2]string{"its directory": {h.work, ssh}, "what it writes": {ssh, h.work},
			"below": {filepath.Join(h.own), "/"}} {
			p, err := sandbox.Standard(dirs[0])
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.Run(t.Context(), p, sandbox.Spec{Argv: []string{"/bin/true"}, Dir: dirs[1], Accept: true})
			if !errors.Is(err, sandbox.ErrNotStarted) || !strings.Contains(err.Error(), "hidden") {
				t.Errorf("%s is hidden: %v, want that it is said", name, err)
			}
			p.Files.Show = []string{ssh, h.own}
			if _, err = b.Run(t.Context(), p, sandbox.Spec{Argv: []string{"/bin/true"}, Dir: dirs[1], Accept: true}); err != nil {
				t.Errorf("%s is shown: %v", name, err)
			}
		}
	})
}

// BenchmarkHiding is what it costs to hide a home with six secrets in it, over the same command with all of them
// shown, in turns: the budget is half a millisecond.
func BenchmarkHiding(b *testing.B) {
	h := newHouse(b)
	for _, l := range levels {
		x := sandbox.Probe(b.Context(), sandbox.Config{Levels: []sandbox.Level{l}, Home: h.home, Hide: []string{h.own}})
		if x.Status().Level != l {
			continue
		}
		hides := sandbox.Policy{Files: sandbox.ReadOnly()}
		shows := hides
		shows.Files.Show = []string{"/"}
		run := func(p sandbox.Policy) func() error {
			return func() error {
				_, err := x.Run(b.Context(), p, sandbox.Spec{Argv: []string{"/bin/true"}, Dir: h.work, Accept: true})
				return err
			}
		}
		b.Run(l.String(), func(b *testing.B) {
			var took, floor []time.Duration
			for b.Loop() {
				floor = append(floor, timed(b, run(shows)))
				took = append(took, timed(b, run(hides)))
			}
			with, without := median(took), median(floor)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64((with-without).Microseconds())/1000, "ms-more")
			b.ReportMetric(float64(with)/float64(without), "x-floor")
		})
	}
}
