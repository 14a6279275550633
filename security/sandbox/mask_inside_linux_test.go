//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A mask waits for the next command, unless a program of the user has put something into it.
func TestMaskInUseIsLeftToItsUser(t *testing.T) {
	dir, pool := t.TempDir(), filepath.Join(t.TempDir(), "pool")
	for round, want := range []struct{ waiting, left int }{{1, 0}, {1, 0}, {0, 1}} {
		p := newMaskPool(pool)
		m, err := p.mask(filepath.Join(dir, ".vscode"))
		if err != nil || m == nil {
			t.Fatalf("%v, %v", m, err)
		}
		if round == 2 {
			if err := os.WriteFile(filepath.Join(m.path, "settings.json"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err = p.release(m)
		waiting, poolErr := os.ReadDir(pool)
		left, leftErr := os.ReadDir(dir)
		if err := errors.Join(err, poolErr, leftErr); err != nil || len(waiting) != want.waiting || len(left) != want.left {
			t.Errorf("round %d: %v wait and %v are left, %v; want %+v", round, waiting, left, err, want)
		}
	}
	st, err := os.Lstat(filepath.Join(dir, ".vscode"))
	if err != nil || isMask(st) {
		t.Errorf("what its user filled is still a mask: %v, %v", st.Mode(), err)
	}
	p := newMaskPool(pool)
	if m, err := p.mask(filepath.Join(dir, ".vscode")); m != nil || err != nil {
		t.Errorf("a directory of the user's is masked: %v, %v", m, err)
	}
}

// A directory that others can write is no pool: what they put there would get into a workspace.
func TestDirectoryOpenToOthersIsNoMaskPool(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o777), os.Mkdir(filepath.Join(dir, "1"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if p := newMaskPool(dir); p.dir != "" || p.names != nil {
		t.Errorf("it is one: %+v", p)
	}
}
