package skills

import (
	"io/fs"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"symbio/internal/skills/walk"
)

// TestFileReplacedByPipeDoesNotBlock opens a pipe in the place of a file that a listing has shown, and hangs
// if it waits for a writer.
func TestFileReplacedByPipeDoesNotBlock(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, walk.FileName), 0o600); err != nil {
		t.Fatal(err)
	}
	r := readPlace(walk.Place{Path: dir, Canonical: dir, Skill: true}, Config{}.Policy, true)
	if got := codeOf(r.diags); got != "not-regular" {
		t.Errorf("got %v", r.diags)
	}
	f, err := walk.OpenPlain(dir, walk.FileName)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode().Type() != fs.ModeNamedPipe || info.Name() != walk.FileName || info.IsDir() {
		t.Errorf("got %v, %v", info, err)
	}
}

func TestBothWaysToAFileGiveOneMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), walk.FileName)
	if err := unix.Mknod(path, unix.S_IFREG|0o600, 0); err != nil {
		t.Fatal(err)
	}
	want, err := walk.MarkOf(path)
	if err != nil || want == (walk.Mark{}) {
		t.Fatalf("got %+v, %v", want, err)
	}
	r := readNamed(filepath.Dir(path), filepath.Dir(path), walk.FileName, Config{}.Policy, false)
	if r.mark != want {
		t.Errorf("by package os: got %+v, want %+v", r.mark, want)
	}
}
