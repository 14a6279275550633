package sandbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"symbio/internal/community/waittest"
	"symbio/security/sandbox"
)

// lookers are the levels that can hold a command that only looks.
var lookers = []sandbox.Level{sandbox.Native, sandbox.Bwrap}

// view is a house, a workspace somewhere, and a command that looks at it.
type view struct {
	house
	dir string
	env []string
}

// look runs a line of shell that only looks.
func (v view) look(t *testing.T, l sandbox.Level, line string, change ...func(*sandbox.Policy)) sandbox.Result {
	t.Helper()
	b := sandbox.Probe(t.Context(), sandbox.Config{Levels: []sandbox.Level{l}, Env: append(os.Environ(), v.env...), Home: v.home})
	if err := b.Looks(); err != nil {
		t.Skip(err)
	}
	p, err := sandbox.Look([]string{v.dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(&p)
	}
	r, err := b.Run(t.Context(), p, sandbox.Spec{Argv: []string{"/bin/sh", "-c", v.expand(line)}, Dir: v.dir, Together: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// views are a workspace in the home, one in /tmp, and one beside both.
func views(t *testing.T) map[string]view {
	t.Helper()
	h := newHouse(t)
	all := map[string]view{"in the home": {house: h, dir: h.work}, "in /tmp": {house: h, dir: t.TempDir()},
		"elsewhere": {house: h, dir: filepath.Join(filepath.Dir(h.home), "ws")}}
	for _, v := range all {
		if err := errors.Join(os.MkdirAll(v.dir, 0o755), os.WriteFile(filepath.Join(v.dir, "f"), []byte("plain"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func atEachLooker(t *testing.T, f func(*testing.T, sandbox.Level)) {
	t.Helper()
	for _, l := range lookers {
		t.Run(l.String(), func(t *testing.T) { f(t, l) })
	}
}

func TestLookSeesWhatItReadsAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, v := range views(t) {
		t.Run(name, func(t *testing.T) {
			denied := filepath.Join(v.dir, "denied")
			if err := os.WriteFile(denied, []byte("secret"), 0o644); err != nil {
				t.Fatal(err)
			}
			deny := func(p *sandbox.Policy) { p.Files.Denied.Hidden = []string{denied} }
			atEachLooker(t, func(t *testing.T, l sandbox.Level) {
				for line, want := range map[string]string{
					"cat f; cat denied; pwd": "plain" + v.dir + "\n",
					"echo ~ $TMPDIR":         v.home + " /tmp\n",
					"head -c4 /etc/passwd; sort </dev/null && echo sorts":           "rootsorts\n",
					"ls HOME | grep -v work; ls HOME/.ssh 2>/dev/null || echo none": "none\n",
					"cat HOME/notes OWN/key.pem TOP/outside 2>/dev/null; true":      "",
					"ls -A /mnt /boot /run":                              "/boot:\n\n/mnt:\n\n/run:\n",
					"grep -rls " + key + " HOME OWN TOP /tmp /srv; true": "",
				} {
					if r := v.look(t, l, line, deny); r.Stdout.String() != want {
						t.Errorf("%s: %q, want %q", line, r.Stdout, want)
					}
				}
			})
		})
	}
}

func TestLookWritesNothingThatStays(t *testing.T) {
	t.Parallel()
	for name, v := range views(t) {
		t.Run(name, func(t *testing.T) {
			atEachLooker(t, func(t *testing.T, l sandbox.Level) {
				before := snapshot(t, filepath.Dir(v.home), v.dir)
				for _, line := range []string{"echo x > f", "echo x > new", "rm f", "mv f g", "ln f g", "chmod 777 f", "touch f", "mkdir d",
					"echo x > HOME/../x", "echo x > /usr/x", "echo x > /x", "echo x > /srv/x", "echo x > /etc/passwd"} {
					r := v.look(t, l, "LC_ALL=C; export LC_ALL; "+line)
					said := r.Stdout.String()
					if r.Code == 0 || !strings.Contains(said, "Read-only file system") && !strings.Contains(said, "Permission denied") &&
						!strings.Contains(said, "cross-device") {
						t.Errorf("%s: status %d: %s", line, r.Code, said)
					}
				}
				r := v.look(t, l, "echo kept > HOME/x && mkdir -p HOME/.config/d && echo kept > /tmp/x && cat HOME/x /tmp/x")
				if got := r.Stdout.String(); got != "kept\nkept\n" {
					t.Errorf("in its own places: %q", got)
				}
				if r := v.look(t, l, "cat HOME/x /tmp/x"); r.Code == 0 {
					t.Errorf("the next one sees %q", r.Stdout)
				}
				if after := snapshot(t, filepath.Dir(v.home), v.dir); after != before {
					t.Errorf("it changed\n%s\nto\n%s", before, after)
				}
			})
		})
	}
}

// snapshot lists all files below the directories with what would change.
func snapshot(t *testing.T, dirs ...string) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			st, err := d.Info()
			if err == nil {
				fmt.Fprintln(&b, path, st.Mode(), st.ModTime().UnixNano(), st.Size())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestLookIsBounded(t *testing.T) {
	t.Parallel()
	v := views(t)["in the home"]
	v.env = []string{"GOCACHE=" + v.home + "/.cache/go-build"}
	if err := os.MkdirAll(v.home+"/.cache/go-build", 0o755); err != nil {
		t.Fatal(err)
	}
	atEachLooker(t, func(t *testing.T, l sandbox.Level) {
		r := v.look(t, l, "fallocate -l 700M HOME/a && fallocate -l 700M /tmp/b")
		if r.Code == 0 || !strings.Contains(r.Stdout.String(), "No space left") {
			t.Errorf("it wrote 1.4 GB: %d %s", r.Code, r.Stdout)
		}
		r = v.look(t, l, "mkdir -p $GOCACHE && fallocate -l 700M $GOCACHE/a")
		if r.Code == 0 || !strings.Contains(r.Stdout.String(), "No space left") {
			t.Errorf("it wrote 700 MB into a cache: %d %s", r.Code, r.Stdout)
		}
	})
}

func TestLookRunsTools(t *testing.T) {
	t.Parallel()
	for name, v := range views(t) {
		t.Run(name, func(t *testing.T) {
			for _, argv := range [][]string{{"init", "-q", "-b", "main"}, {"add", "f"},
				{"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"}} {
				c := exec.Command("git", argv...)
				c.Dir = v.dir
				if out, err := c.CombinedOutput(); err != nil {
					t.Skipf("git: %v %s", err, out)
				}
			}
			// git would like to write into the index that the file is as it was.
			if err := errors.Join(os.WriteFile(filepath.Join(v.dir, "f"), []byte("plain"), 0o644),
				os.WriteFile(filepath.Join(v.dir, "g"), nil, 0o644)); err != nil {
				t.Fatal(err)
			}
			atEachLooker(t, func(t *testing.T, l sandbox.Level) {
				for line, want := range map[string]string{
					"git status --short": "?? g\n", "git log --format=%s": "first\n", "git diff --stat": "", "git show HEAD:f": "plain", "git add g 2>&1 | grep -c 'Read-only'": "1\n",
					"python3 -c 'import tempfile, subprocess; open(tempfile.mkstemp()[1], \"w\"); print(subprocess.run([\"echo\", \"x\"], capture_output=True).stdout)'": "b'x\\n'\n",
					"node -e 'require(\"fs\").mkdtempSync(\"/tmp/x\"); console.log(require(\"child_process\").execSync(\"echo x\").toString())'":                         "x\n\n",
					"printf 'a:\\n\\t@echo made\\n' | make -f -":                                                   "made\n",
					"printf 'b\\na\\n' | sort | tee /dev/stderr >/dev/null 2>&1; find . -name f; cat <<E\nhere\nE": "./f\nhere\n",
				} {
					program, _, _ := strings.Cut(line, " ")
					if _, err := exec.LookPath(program); err != nil {
						continue
					}
					if r := v.look(t, l, line); r.Stdout.String() != want {
						t.Errorf("%s: %d %q, want %q", line, r.Code, r.Stdout, want)
					}
				}
			})
		})
	}
}

func TestLookBuildsWithTheUsersCache(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	for name, v := range views(t) {
		t.Run(name, func(t *testing.T) {
			outside := append(os.Environ(), "HOME="+v.home, "GOCACHE="+v.home+"/.cache/go-build", "GOFLAGS=-mod=mod -buildvcs=false")
			v.env = outside[len(outside)-2:]
			for file, text := range map[string]string{"go.mod": "module m\n\ngo 1.20\n", "a.go": "package m\n\nfunc A() int { return 1 }\n"} {
				if err := os.WriteFile(filepath.Join(v.dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			c := exec.CommandContext(waittest.Context(t), program, "build", ".")
			c.Dir, c.Env = v.dir, outside
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			const build = "go build -x . 2>&1 | grep -c '/compile ' ; go build . && echo built"
			atEachLooker(t, func(t *testing.T, l sandbox.Level) {
				layered := v.look(t, l, "grep -q ' overlay ' /proc/self/mountinfo").Code == 0
				want := "1\nbuilt\n"
				if layered {
					want = "0\nbuilt\n"
				} else if l == sandbox.Native {
					t.Log("this kernel has no layers for it: the caches are empty")
				}
				before := snapshot(t, v.home)
				if r := v.look(t, l, build); r.Stdout.String() != want {
					t.Errorf("%q, want %q", r.Stdout, want)
				}
				r := v.look(t, l, "mkdir /tmp/m && cp go.mod a.go /tmp/m && cd /tmp/m && echo 'var B = 2' >> a.go && "+build+"; rm -rf $GOCACHE/* && ls -A $GOCACHE | wc -l")
				if got, want := strings.ReplaceAll(r.Stdout.String(), " ", ""), "1\nbuilt\n0\n"; got != want {
					t.Errorf("another package: %q, want %q", r.Stdout, want)
				}
				if after := snapshot(t, v.home); after != before {
					t.Errorf("the user's cache changed:\n%s\nto\n%s", before, after)
				}
			})
		})
	}
}

// A command that works finds and fills the caches of builds as one that only looks does, and the user's stay as they are.
func TestWorkBuildsWithTheUsersCache(t *testing.T) {
	t.Parallel()
	v := views(t)["in the home"]
	// go takes a read-only cache for an error where it indexes a package, once its files have been as they are for a while.
	long := time.Now().Add(-time.Hour)
	for file, text := range map[string]string{"go.mod": "module m\n\ngo 1.20\n", "a/a.go": "package a\n\nfunc A() int { return 1 }\n", "a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { A() }\n"} {
		path := filepath.Join(v.dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644),
			os.Chtimes(path, long, long)); err != nil {
			t.Fatal(err)
		}
	}
	cache, err := exec.CommandContext(waittest.Context(t), "go", "env", "GOCACHE").Output()
	if _, statErr := os.ReadDir(strings.TrimSpace(string(cache))); err != nil || statErr != nil {
		t.Skip("there is no cache of builds: ", err, statErr)
	}
	v.env = []string{"GOCACHE=" + strings.TrimSpace(string(cache)), "GOFLAGS=-buildvcs=false"}
	r := v.look(t, sandbox.Native, "go test -coverprofile=out ./a && go tool cover -func=out && ls; touch $GOCACHE/written-by-a-command && ls $GOCACHE/written*; cat HOME/.ssh/*; true", func(p *sandbox.Policy) {
		if *p, err = sandbox.Standard(v.dir); err != nil {
			t.Fatal(err)
		}
		p.Env = sandbox.BuildEnv()
	})
	if got := r.Stdout.String(); !strings.Contains(got, "total:") || !strings.Contains(got, "\nout\n") ||
		!strings.Contains(got, "/written-by-a-command\n") || strings.Contains(got, key) {
		t.Errorf("%d %s", r.Code, got)
	}
	if _, err := os.Stat(strings.TrimSpace(string(cache)) + "/written-by-a-command"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the user's cache has what a command wrote: %v", err)
	}
}

// A package that is tested in the user's own cache of builds, if this user has one that is warm.
func TestLookTests(t *testing.T) {
	t.Parallel()
	cache, err := exec.CommandContext(waittest.Context(t), "go", "env", "GOCACHE").Output()
	if _, statErr := os.ReadDir(strings.TrimSpace(string(cache))); err != nil || statErr != nil {
		t.Skip("there is no cache of builds: ", err, statErr)
	}
	v := views(t)["in the home"]
	v.env = []string{"GOCACHE=" + strings.TrimSpace(string(cache)), "GOFLAGS=-buildvcs=false"}
	for file, text := range map[string]string{"go.mod": "module m\n\ngo 1.20\n", "a_test.go": "package m\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestA(t *testing.T) { t.Log(os.WriteFile(t.TempDir()+\"/x\", nil, 0o600)) }\n"} {
		if err := os.WriteFile(filepath.Join(v.dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if r := v.look(t, sandbox.Native, "go test -v ."); r.Code != 0 || !strings.Contains(r.Stdout.String(), "<nil>") {
		t.Errorf("%d %s", r.Code, r.Stdout)
	}
}

// A cache with a key in it, and one that a command could have made a link to something else, are not there.
func TestLookShowsNoSecretAsACache(t *testing.T) {
	t.Parallel()
	v := views(t)["in the home"]
	v.env = []string{"GOCACHE=" + v.home + "/.ssh/cache", "PIP_CACHE_DIR=" + v.home, "npm_config_cache=" + v.dir + "/link",
		"CARGO_HOME=" + v.home + "/.config", "GOMODCACHE=/tmp", "GOPATH=relative"}
	for _, dir := range []string{"/.ssh/cache", "/.config/registry", "/.config/git"} {
		if err := os.MkdirAll(v.home+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(v.home+"/.config/git/credentials", []byte(key), 0o644),
		os.Symlink(v.home, v.dir+"/link")); err != nil {
		t.Fatal(err)
	}
	atEachLooker(t, func(t *testing.T, l sandbox.Level) {
		r := v.look(t, l, "cd HOME; find . -path ./work -prune -o -path ./.pyenv -prune -o -type f -print; ls link/ /tmp; grep -rs "+key[:3]+" . /tmp")
		if strings.Contains(r.Stdout.String(), key) || strings.Contains(r.Stdout.String(), "notes") {
			t.Errorf("it sees %s", r.Stdout)
		}
	})
}

func TestLookSeesToolchainsOfThePath(t *testing.T) {
	t.Parallel()
	v := views(t)["elsewhere"]
	for _, file := range []string{".nvm/bin/mine", ".cargo/bin/cargo-mine", ".rustup/toolchain", "bin/own", ".cargo/credentials.toml",
		".other/bin/not", ".local/bin/tool", ".local/share/uv/python", ".local/share/uv/credentials/x"} {
		at := filepath.Join(v.home, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755),
			os.WriteFile(at, []byte("#!/bin/sh\necho "+filepath.Base(file)), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	v.env = []string{fmt.Sprintf("PATH=%[1]s/.nvm/bin:%[1]s/.local/bin:%[1]s/.cargo/bin:%[1]s/bin:%[1]s:/usr/bin:/bin", v.home)}
	atEachLooker(t, func(t *testing.T, l sandbox.Level) {
		r := v.look(t, l, "mine; cargo-mine; own; cd HOME; find . -type f | sort; echo x > bin/own")
		want := "mine\ncargo-mine\nown\n./.cargo/bin/cargo-mine\n./.local/bin/tool\n./.local/share/uv/python\n./.nvm/bin/mine\n./.rustup/toolchain\n./bin/own\n"
		if got, found := strings.CutPrefix(r.Stdout.String(), want); !found || !strings.Contains(got, "Read-only") {
			t.Errorf("%q, want %q and that it cannot write there", r.Stdout, want)
		}
	})
}

// A home that is the workspace itself is seen, without its secrets, and HOME is elsewhere.
func TestLookAtTheHome(t *testing.T) {
	t.Parallel()
	v := views(t)["in the home"]
	v.dir = v.home
	atEachLooker(t, func(t *testing.T, l sandbox.Level) {
		r := v.look(t, l, "cat notes; echo ~; echo x > ~/x && cat ~/x; ls -A .ssh; cat .netrc; echo x > y")
		if got, found := strings.CutPrefix(r.Stdout.String(), "plain/tmp\nx\n"); !found || strings.Contains(got, "KEY") ||
			!strings.Contains(got, "Read-only") || strings.Contains(got, "id_") {
			t.Errorf("%q", r.Stdout)
		}
	})
}

// A home of its own goes with directories to write, and what is protected in them, and with sockets.
func TestLookWithAPlaceToWrite(t *testing.T) {
	t.Parallel()
	for name, v := range views(t) {
		t.Run(name, func(t *testing.T) {
			listen(t, filepath.Join(v.home, "s"))
			atEachLooker(t, func(t *testing.T, l sandbox.Level) {
				r := v.look(t, l, "echo x > new && cat new; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; echo x > .envrc; cat HOME/notes; echo x > HOME/x && cat ~/x; ls HOME | grep -c '^s$'", func(p *sandbox.Policy) {
					p.Files.Write, p.Files.Sockets, p.Network = []string{v.dir}, []string{filepath.Join(v.home, "s")}, sandbox.NetworkFull
				})
				if got := r.Stdout.String(); !strings.HasPrefix(got, "x\n") || strings.Contains(got, "plain") ||
					!strings.HasSuffix(got, "x\n1\n") {
					t.Errorf("%d %q", r.Code, got)
				}
				for _, name := range []string{".git/hooks/pre-commit", ".envrc"} {
					if _, err := os.Stat(filepath.Join(v.dir, name)); err == nil {
						t.Errorf("it wrote %s", name)
					}
				}
			})
		})
	}
}

func TestLooksSaysWhatWouldHelp(t *testing.T) {
	t.Parallel()
	for _, l := range every {
		b := box(t, l)
		err := b.Looks()
		if (err == nil) != (l == sandbox.Native || l == sandbox.Bwrap) ||
			err != nil && (strings.Contains(err.Error(), "\n") || strings.HasSuffix(err.Error(), ": ")) {
			t.Errorf("%v: %v", l, err)
		}
		p, lookErr := sandbox.Look(nil)
		if got := b.Check(p); lookErr != nil || (got == nil) != (err == nil) {
			t.Errorf("%v: the policy is checked with %v, and Looks says %v", l, got, err)
		}
	}
}

func TestWorksIsForPoliciesOfAWorkspace(t *testing.T) {
	t.Parallel()
	standard, err := sandbox.Standard(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	network, open := standard, standard
	network.Network, open.Unprotected = sandbox.NetworkFull, true
	for _, l := range every {
		b := box(t, l)
		for name, c := range map[string]struct {
			p    sandbox.Policy
			want bool
		}{"standard": {standard, l >= sandbox.Bwrap}, "network": {network, false}, "unprotected": {open, false},
			"permissive": {sandbox.Permissive(), false}} {
			if got := b.Works(c.p); got != c.want {
				t.Errorf("%v, %s: %v, want %v", l, name, got, c.want)
			}
		}
	}
}

// As an ordinary user the kernel works in other ways.
func TestLookAsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // the others were that
	}
	top := filepath.Dir(newHouse(t).home)
	self := filepath.Join(top, "self")
	copyFile(t, "/proc/self/exe", self)
	err := filepath.WalkDir(top, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 65534, 65534))
	})
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(waittest.Context(t), self, "-test.run=^TestLook", "-test.v")
	c.Dir, c.Env = top, []string{"PATH=/usr/local/go/bin:/usr/bin:/bin", "HOME=" + top, "TMPDIR=/tmp"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestLookSees")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// BenchmarkLook is /bin/true in the box that only looks, beside a plain exec, in turns in one run: the budget is 8 ms more.
func BenchmarkLook(b *testing.B) {
	dir := b.TempDir()
	p, err := sandbox.Look([]string{dir})
	if err != nil {
		b.Fatal(err)
	}
	for _, l := range lookers {
		x := sandbox.Probe(b.Context(), sandbox.Config{Levels: []sandbox.Level{l}, Env: os.Environ()})
		if x.Looks() != nil {
			continue
		}
		b.Run(l.String(), func(b *testing.B) {
			versusPlain(b, func() error {
				_, err := x.Run(b.Context(), p, sandbox.Spec{Argv: []string{"/bin/true"}, Dir: dir})
				return err
			})
		})
	}
}
