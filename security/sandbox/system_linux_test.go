//go:build system

package sandbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"symbio/internal/community/waittest"
)

// Tests of the second tier, which cmd/symbio/systemtest/sandbox runs.

// As an ordinary user the kernel works in other ways: capabilities, limits, and who may look at whom.
func TestEscapesAsAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // TestEscapes was that
	}
	t.Parallel()
	w := newWorld(t)
	top := filepath.Dir(w.dir)
	err := filepath.WalkDir(top, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 65534, 65534))
	})
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(waittest.Context(t), w.self, "-test.run=^TestEscapes$|^TestEscapesToWhatIsHidden$|^TestAPolicyShows|^TestNothingSurvives|^TestProcessesAreBounded|^TestMemoryIsBounded|^TestASymlinkPlanted", "-test.v")
	c.Dir = top
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + top, "TMPDIR=/tmp"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestEscapes (")) ||
		!bytes.Contains(out, []byte("--- PASS: TestEscapesToWhatIsHidden (")) {
		t.Errorf("%v\n%s", err, out)
	}
	for _, l := range levels {
		if bytes.Contains(out, fmt.Appendf(nil, "--- SKIP: TestEscapes/%v ", l)) {
			t.Logf("an ordinary user does not have the level %v here", l)
		}
	}
}

// Without a sandbox the plants work, or they would be no test of anything.
func TestPlantsForGitWork(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := newRepository(t, home)
	said := outside(dir, home, planting(home, allPlants))
	for i := range plants {
		os.Remove(flagOf(home, i)) // making some of them executes it already
	}
	if got := executed(dir, home, "; unset GIT_EDITOR; git commit --amend -q", allPlants); len(got) < len(plants)-4 {
		t.Errorf("git executes only the plants %v: %s", got, said)
	}
}
