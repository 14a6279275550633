package skills

import (
	"io/fs"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhatBecameAPipeHoldsNobodyUp opens a pipe in the place of a file that a listing has shown, and hangs
// if it waits for a writer.
func TestWhatBecameAPipeHoldsNobodyUp(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, fileName), 0o600); err != nil {
		t.Fatal(err)
	}
	r := readPlace(place{path: dir, canonical: dir, skill: true}, Config{}.Policy, true)
	if got := codeOf(r.diags); got != "not-regular" {
		t.Errorf("got %v", r.diags)
	}
	f, err := openPlain(dir, fileName)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode().Type() != fs.ModeNamedPipe || info.Name() != fileName || info.IsDir() {
		t.Errorf("got %v, %v", info, err)
	}
}

func TestBothWaysToAFileGiveOneMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), fileName)
	if err := unix.Mknod(path, unix.S_IFREG|0o600, 0); err != nil {
		t.Fatal(err)
	}
	want, err := markOf(path)
	if err != nil || want.ino == 0 || want.ctime == 0 {
		t.Fatalf("got %+v, %v", want, err)
	}
	r := readNamed(filepath.Dir(path), filepath.Dir(path), fileName, Config{}.Policy, false)
	if r.mark != want {
		t.Errorf("by package os: got %+v, want %+v", r.mark, want)
	}
}
