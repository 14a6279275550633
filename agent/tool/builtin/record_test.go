package builtin_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/security/permission"
)

// recorded opens a workspace whose tools tell onEdit of each change.
func recorded(t *testing.T, dir string, onEdit func(tool.FileEdit) error) bench {
	t.Helper()
	w, err := builtin.New(builtin.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return bench{dir, tool.NewSet(tool.SetConfig{
		Guard: permission.Chain{{Policy: permission.Permissive()}}, Dir: dir,
		OnEdit: func(c llm.ToolCall, e tool.FileEdit) error { return onEdit(e) },
	}, w.Tools()...)}
}

func hashOf(content string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(content))) }

func TestEditIsRecordedBeforeTheFileChanges(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"a": "one\n"})
	if err := errors.Join(os.Chmod(filepath.Join(dir, "a"), 0o640), os.Symlink(".", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	var edits []tool.FileEdit
	b := recorded(t, dir, func(e tool.FileEdit) error {
		now, err := os.ReadFile(e.Path)
		if e.Before == "" && !os.IsNotExist(err) ||
			e.Before != "" && (hashOf(string(now)) != e.Before || string(now) != string(e.Content)) {
			t.Errorf("%s was %q, %v when it was recorded with %q", e.Path, now, err, e.Content)
		}
		edits = append(edits, e)
		return nil
	})
	b.ok(t, "Read", "file_path", "a")
	b.ok(t, "Edit", "file_path", "a", "old_string", "one", "new_string", "two")
	b.ok(t, "Write", "file_path", "link/new", "content", "fresh\n")
	b.ok(t, "MultiEdit", "file_path", "a", "edits", []any{map[string]any{"old_string": "two", "new_string": "three"}})
	want := []tool.FileEdit{
		{Path: filepath.Join(dir, "a"), Before: hashOf("one\n"), After: hashOf("two\n"), Mode: 0o640, Content: []byte("one\n")},
		{Path: filepath.Join(dir, "new"), After: hashOf("fresh\n")},
		{Path: filepath.Join(dir, "a"), Before: hashOf("two\n"), After: hashOf("three\n"), Mode: 0o640, Content: []byte("two\n")},
	}
	if fmt.Sprintf("%+v", edits) != fmt.Sprintf("%+v", want) {
		t.Errorf("recorded\n%+v, want\n%+v", edits, want)
	}
}

func TestEditWithoutRecordLeavesTheFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "one\n"})
	b := recorded(t, dir, func(tool.FileEdit) error { return errors.New("the disk is full") })
	b.ok(t, "Read", "file_path", "a")
	b.refused(t, "the disk is full", "Edit", "file_path", "a", "old_string", "one", "new_string", "two")
	b.refused(t, "the disk is full", "MultiEdit", "file_path", "a", "edits",
		[]any{map[string]any{"old_string": "one", "new_string": "two"}})
	b.refused(t, "the disk is full", "Write", "file_path", "a", "content", "two\n")
	b.refused(t, "the disk is full", "Write", "file_path", "new", "content", "two\n")
	if now, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(now) != "one\n" {
		t.Errorf("the file is %q, %v", now, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the directory has %v, %v", left, err)
	}
}

func TestBigFileIsRecordedWithoutContent(t *testing.T) {
	dir := t.TempDir()
	fits, big := strings.Repeat("x", tool.MaxKept), strings.Repeat("x", tool.MaxKept+1)
	write(t, dir, map[string]string{"fits": fits, "big": big})
	var edits []tool.FileEdit
	b := recorded(t, dir, func(e tool.FileEdit) error {
		edits = append(edits, e)
		return nil
	})
	b.ok(t, "Write", "file_path", "fits", "content", "y")
	b.ok(t, "Write", "file_path", "big", "content", "y")
	if len(edits) != 2 || string(edits[0].Content) != fits || edits[1].Content != nil || edits[1].Before != hashOf(big) {
		t.Errorf("%d were recorded, with %d and %v", len(edits), len(edits[0].Content), edits[1].Content)
	}
}
