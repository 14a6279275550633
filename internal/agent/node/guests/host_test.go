package guests

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A session keeps its directory, and what nothing uses any more goes when the next program starts.
func TestDirectoriesOfSessions(t *testing.T) {
	h := New(Config{State: filepath.Join(t.TempDir(), "guests")})
	use := func(session string) (dir string, end func()) {
		var undo cleanup
		dir, err := h.directory(session, &undo)
		if err != nil {
			t.Fatal(err)
		}
		return dir, undo.run
	}
	exists := func(dir string) bool { _, err := os.Stat(dir); return err == nil }
	age := func(dir string) {
		if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-maxUnused-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	kept, end := use("kept")
	end()
	running, _ := use("running")
	old, end := use("old")
	end()
	left, _ := use("")
	delete(h.used, left) // as after a crash
	single, end := use("")
	end()
	age(running)
	age(old)
	use("next")
	for dir, want := range map[string]bool{kept: true, running: true, old: false, left: false, single: false} {
		if exists(dir) != want {
			t.Errorf("%s exists: %t", filepath.Base(dir), !want)
		}
	}
}

func TestLoginIsCopiedUnlessTheProgramHasANewerOne(t *testing.T) {
	user, home := t.TempDir(), t.TempDir()
	h := New(Config{Home: user})
	write := func(file, text string, at time.Time) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	copied := func(want string) {
		t.Helper()
		if err := h.copyLogin([]string{"~/.x/login", "~/.x/none"}, home); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(home, ".x/login")); err != nil || string(text) != want {
			t.Fatalf("%q, %v, want %q", text, err, want)
		}
	}
	now := time.Now()
	write(filepath.Join(user, ".x/login"), "first", now.Add(-time.Hour))
	copied("first")
	write(filepath.Join(home, ".x/login"), "renewed", now)
	copied("renewed")
	write(filepath.Join(user, ".x/login"), "second", now.Add(time.Hour))
	copied("second")
	for _, file := range []string{"/etc/passwd", "~/../x"} {
		if h.copyLogin([]string{file}, home) == nil {
			t.Errorf("%s was copied", file)
		}
	}
	// A link that the program made leads the copy nowhere else.
	if err := os.Remove(filepath.Join(home, ".x/login")); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.Symlink(outside, filepath.Join(home, ".x/login")); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(user, ".x/login"), "third", now.Add(2*time.Hour))
	copied("third")
	if _, err := os.Lstat(outside); err == nil {
		t.Error("the copy followed a link")
	}
}
