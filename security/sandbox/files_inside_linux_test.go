package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

// What git may obey is renamed, never lost, and only replaced where there is something to keep.
func TestSetAsideKeepsTheFile(t *testing.T) {
	dir := t.TempDir()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "-"
		}
		return string(text)
	}
	for _, tt := range []struct{ text, aside, now string }{
		{"", "hook.set-aside-1", "-"}, {"clean", "hook.set-aside-2", "clean"}, {"", "hook.set-aside-3", "-"},
	} {
		if err := os.WriteFile(filepath.Join(dir, "hook"), []byte("evil"), 0o755); err != nil {
			t.Fatal(err)
		}
		aside, err := setAside(d, "hook", tt.text, 0o640)
		if err != nil || aside != tt.aside || read(aside) != "evil" || read("hook") != tt.now {
			t.Errorf("replaced by %q: now %q, aside in %q with %q, %v; want %q and %q", tt.text, read("hook"), aside, read(aside), err, tt.now, tt.aside)
		}
	}
	if aside, err := setAside(d, "hook", "clean", 0o644); aside != "" || err != nil || read("hook") != "-" {
		t.Errorf("a file that is gone: %q, %v", aside, err)
	}
}
