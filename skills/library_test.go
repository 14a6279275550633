package skills

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A scan that fails is an error, and the catalog stays as it was.
func TestFailedScanKeepsTheCatalog(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "one")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte("---\nname: one\ndescription: the first\n---\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Roots: []Root{{Path: root, Scope: ScopeUser}}}.withDefaults()
	l := library{cfg: cfg, scanner: &scanner{cfg: cfg}, publish: func(*Snapshot) {}, registered: map[string]Skill{},
		removed: map[string]bool{}}
	if err := l.rescan(t.Context(), "scanned"); err != nil || len(l.catalog.Skills) != 1 {
		t.Fatalf("the first scan: %v, %v", l.catalog.Names(), err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.rescan(ended, "scanned"); !errors.Is(err, context.Canceled) || len(l.catalog.Skills) != 1 {
		t.Errorf("a scan that was cancelled: %v, %v", l.catalog.Names(), err)
	}
}
