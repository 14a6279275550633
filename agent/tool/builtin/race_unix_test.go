//go:build unix

package builtin_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"symbio/internal/community/waittest"
	"symbio/security/permission"
)

// racedCalls is how often each tool is called, which an idle machine does in half a second.
const racedCalls = 100

// A symlink planted between check and use: while the tools use d, it is by turns a directory and a link that
// leads out of the workspace, or to what other programs run. Nothing may come there, and nothing from there.
func TestSymlinkPlantedBetweenCheckAndUseOfAFile(t *testing.T) {
	for _, to := range []string{"../outside", ".git/hooks"} {
		t.Run(to, func(t *testing.T) {
			top, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(top, "work")
			target := filepath.Join(dir, to)
			d, aside := filepath.Join(dir, "d"), filepath.Join(dir, "aside")
			err = errors.Join(os.MkdirAll(d, 0o755), os.MkdirAll(target, 0o755),
				os.WriteFile(filepath.Join(d, "f"), []byte("plain"), 0o600),
				os.WriteFile(filepath.Join(target, "f"), []byte("secret"), 0o600), os.Symlink(to, aside))
			if err != nil {
				t.Fatal(err)
			}
			p := permission.Policy{Deny: []permission.Rule{ruleOf(t, "Read(.git/*)")},
				Allow: []permission.Rule{ruleOf(t, "Read"), ruleOf(t, "Write"), ruleOf(t, "Edit"), ruleOf(t, "Grep"), ruleOf(t, "Glob")}}
			b := open(t, dir, permission.Chain{{Policy: p}}, "")
			stop := make(chan bool)
			var racer sync.WaitGroup
			racer.Go(func() {
				third := filepath.Join(dir, "third")
				for {
					select {
					case <-stop:
						return
					default:
						_ = errors.Join(os.Rename(d, third), os.Rename(aside, d), os.Rename(d, aside), os.Rename(third, d))
					}
				}
			})
			ctx, written, read := waittest.Context(t), 0, 0
			for i := 0; (i < racedCalls || written == 0 || read == 0) && ctx.Err() == nil; i++ {
				if r := b.call(t, "Write", "file_path", fmt.Sprintf("d/n%d", i%50), "content", "evil"); !r.IsError {
					written++
				}
				for _, tool := range []string{"Read", "Grep"} {
					args := []any{"file_path", "d/f"}
					if tool == "Grep" {
						args = []any{"pattern", "e", "path", "d"}
					}
					r := b.call(t, tool, args...)
					if !r.IsError {
						read++
					}
					if strings.Contains(r.Text, "secret") {
						t.Errorf("%s: got %q, which is not in the directory", tool, r.Text)
					}
				}
			}
			close(stop)
			racer.Wait()
			left, err := os.ReadDir(target)
			if err != nil || len(left) != 1 {
				t.Errorf("it wrote %v, %v to where the link leads", left, err)
			}
			if written == 0 || read == 0 {
				t.Errorf("%d files were written and %d read: nothing was raced", written, read)
			}
		})
	}
}

func ruleOf(t testing.TB, text string) permission.Rule {
	t.Helper()
	r, err := permission.ParseRule(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSymlinkPlantedBetweenCheckAndUseOfAFileAsAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // the test above was that
	}
	top, err := os.MkdirTemp("", "symbio-race-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.RemoveAll(top); err != nil {
			t.Error(err)
		}
	}()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(own)
	self := filepath.Join(top, "self.test")
	if err := errors.Join(err, os.WriteFile(self, text, 0o755), os.Chmod(top, 0o755), os.Chown(top, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "-test.run=^TestSymlinkPlantedBetweenCheckAndUseOfAFile$", "-test.v")
	c.Dir, c.Env = top, []string{"HOME=" + top, "TMPDIR=" + top, "PATH=" + os.Getenv("PATH")}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestSymlink") {
		t.Errorf("%v\n%s", err, out)
	}
}

// swap is a guard that puts a link in place of a directory when it has judged a call.
type swap struct {
	permission.Chain
	then func()
}

func (s *swap) Judge(c permission.Call) permission.Verdict {
	v := s.Chain.Judge(c)
	if s.then != nil {
		s.then()
		s.then = nil
	}
	return v
}

func TestGrepShowsNoDeniedFileBehindALink(t *testing.T) {
	for _, mode := range []string{"files_with_matches", "content", "count"} {
		dir := t.TempDir()
		d, private := filepath.Join(dir, "d"), filepath.Join(dir, "private")
		err := errors.Join(os.Mkdir(d, 0o755), os.Mkdir(private, 0o755), os.WriteFile(filepath.Join(d, "f"), []byte("plain"), 0o600),
			os.WriteFile(filepath.Join(private, "f"), []byte("secret"), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		p := permission.Policy{Deny: []permission.Rule{ruleOf(t, "Read(private/*)")}, Allow: []permission.Rule{ruleOf(t, "Grep")}}
		guard := &swap{Chain: permission.Chain{{Policy: p}}}
		b := open(t, dir, guard, "")
		if text := b.ok(t, "Grep", "pattern", "a", "path", "d", "output_mode", mode); !strings.Contains(text, "d/f") {
			t.Errorf("%s: before, %q does not show the file", mode, text)
		}
		guard.then = func() {
			if err := errors.Join(os.Rename(d, d+"2"), os.Symlink("private", d)); err != nil {
				t.Error(err)
			}
		}
		text := b.call(t, "Grep", "pattern", "e", "path", "d", "output_mode", mode).Text
		if before, _, _ := strings.Cut(text, "#"); strings.Contains(text, "secret") || strings.Contains(before, "d/f") {
			t.Errorf("%s: it shows %q", mode, text)
		}
	}
}
