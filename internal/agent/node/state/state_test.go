package state

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNameBelongsToOneProcessAtATime(t *testing.T) {
	s := Dir(t.TempDir())
	release, err := s.Node("kitchen").Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Node("kitchen").Lock(); !errors.Is(err, ErrRunning) {
		t.Errorf("a second claim: %v, want ErrRunning", err)
	}
	name, other, err := s.ClaimFree("kitchen")
	if err != nil || name != "kitchen-2" {
		t.Errorf("free name = %q, %v; want kitchen-2", name, err)
	}
	if err := errors.Join(release(), other()); err != nil {
		t.Fatal(err)
	}
	if name, again, err := s.ClaimFree("kitchen"); err != nil || name != "kitchen" || again() != nil {
		t.Errorf("after the release: %q, %v; want kitchen", name, err)
	}
}

func TestNameCannotLeaveItsDirectory(t *testing.T) {
	s := Dir(t.TempDir())
	for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, "A", "a b", "-a", "a-", strings.Repeat("a", 64), "a\x00"} {
		if _, err := s.Node(name).Lock(); err == nil || errors.Is(err, ErrRunning) {
			t.Errorf("name %q was taken: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(string(s)); err != nil || len(entries) != 0 {
		t.Errorf("refused names left %v, %v behind", entries, err)
	}
}

func TestControlSocketIsForThisUserOnly(t *testing.T) {
	dir, err := os.MkdirTemp("", "sy")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for name, s := range map[string]Dir{"short": Dir(dir), "long": Dir(filepath.Join(dir, strings.Repeat("x", 120)))} {
		release, err := s.Node("n").Lock()
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.Node("n").ListenControl()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		info, err := os.Stat(s.Node("n").Socket())
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: the socket's mode is %v, %v; want 0600", name, info.Mode(), err)
		}
		if names, err := s.Running(); err != nil || len(names) != 1 {
			t.Errorf("%s: running = %v, %v; want n", name, names, err)
		}
		if err := errors.Join(l.Close(), release()); err != nil {
			t.Error(err)
		}
		if names, err := s.Running(); err != nil || len(names) != 0 {
			t.Errorf("%s: after the end running = %v, %v", name, names, err)
		}
	}
}

func TestSocketInOpenDirectoryIsRefused(t *testing.T) {
	s := Dir(t.TempDir())
	if err := os.MkdirAll(s.Node("n").path(), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.Node("n").path(), 0o777); err != nil {
		t.Fatal(err)
	}
	if l, err := s.Node("n").ListenControl(); err == nil {
		l.Close()
		t.Error("a socket was opened in a directory that all can write")
	}
}

func TestNodeIsNamedAfterItsMachine(t *testing.T) {
	for host, want := range map[string]string{
		"kitchen": "kitchen", "Kitchen.lan": "kitchen", "my_box": "my-box", "--x--y--": "x-y", "": "node", "台所": "node", strings.Repeat("a", 80): strings.Repeat("a", 50),
	} {
		if got := NameOf(host); got != want {
			t.Errorf("name of %q = %q, want %q", host, got, want)
		}
	}
}

func TestStateIsPrivate(t *testing.T) {
	s := Dir(filepath.Join(t.TempDir(), "deep", "state"))
	if problems, err := s.Problems(); len(problems) > 0 || err != nil {
		t.Errorf("before the first node: %v, %v; want nothing", problems, err)
	}
	release, err := s.Node("a").Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if err := errors.Join(os.Mkdir(s.Authority(), 0o700), os.WriteFile(s.Node("a").Key(), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(s.Authority(), "authority.pem")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if problems, err := s.Problems(); len(problems) > 0 || err != nil {
		t.Errorf("as nodes make it: %v, %v; want nothing", problems, err)
	}
	if info, err := os.Stat(secret); err != nil || modeOf(info) == 0 {
		t.Skip("this system has no modes of files")
	}
	for path, mode := range map[string]os.FileMode{string(s): 0o720, s.Authority(): 0o702, secret: 0o604, s.Node("a").Key(): 0o660, filepath.Dir(s.Node("a").Key()): 0o750} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		problems, err := s.Problems()
		if err != nil || len(problems) != 1 || problems[0].Path != path || !strings.HasPrefix(problems[0].Fix, "chmod ") {
			t.Errorf("%s with mode %o: %v, %v; want one problem and its remedy", path, mode, problems, err)
		}
		if err := os.Chmod(path, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
}
