package builtin_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/security/permission"
)

// differ is a workspace whose changes of files are noted, and whose calls a person allows.
type differ struct {
	bench
	changes  []tool.FileDiff
	previews []string
}

func newDiffer(t *testing.T, dir string, rules permission.Config) *differ {
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
	policy, err := rules.Policy()
	if err != nil {
		t.Fatal(err)
	}
	d := &differ{}
	d.bench = bench{dir, tool.NewSet(tool.SetConfig{
		Guard: permission.Chain{{Policy: policy}}, Dir: dir,
		Ask: func(_ context.Context, asked tool.Decision) tool.Answer {
			if asked.Diff == nil {
				return tool.Answer{Allow: true}
			}
			d.previews = append(d.previews, asked.Diff())
			return tool.Answer{Allow: true}
		},
		OnResult: func(r llm.ToolResult, change tool.FileDiff) {
			if r.Name != "Read" || change != (tool.FileDiff{}) {
				d.changes = append(d.changes, change)
			}
		},
	}, w.Tools()...)}
	return d
}

func TestEditShowsItsDiffBeforeAndAfter(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "one\ntwo\nthree\n", "unread": "old\n"})
	d := newDiffer(t, dir, permission.Config{Preset: "standard"})
	d.ok(t, "Read", "file_path", "a")
	d.ok(t, "Edit", "file_path", "a", "old_string", "two", "new_string", "2")
	d.ok(t, "MultiEdit", "file_path", "a", "edits",
		[]any{map[string]any{"old_string": "2", "new_string": "ii"}, map[string]any{"old_string": "three", "new_string": "iii"}})
	d.ok(t, "Write", "file_path", "sub/new", "content", "fresh\n")
	d.ok(t, "Write", "file_path", "unread", "content", "new\n")
	want := []tool.FileDiff{
		{File: "a", Diff: "--- a\n+++ a\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"},
		{File: "a", Diff: "--- a\n+++ a\n@@ -1,3 +1,3 @@\n one\n-2\n-three\n+ii\n+iii\n"},
		{File: "sub/new", Diff: "--- /dev/null\n+++ sub/new\n@@ -0,0 +1 @@\n+fresh\n"},
		{File: "unread", Diff: "--- unread\n+++ unread\n@@ -1 +1 @@\n-old\n+new\n"},
	}
	for i, w := range want {
		if i >= len(d.changes) || d.changes[i] != w || d.previews[i] != w.Diff {
			t.Fatalf("change %d: got %+v and before that %q, want %+v", i+1, d.changes, d.previews, w)
		}
	}
}

func TestPreviewOfWriteMakesNothing(t *testing.T) {
	dir := t.TempDir()
	d := newDiffer(t, dir, permission.Config{Preset: "standard"})
	d.ok(t, "Write", "file_path", "made/x", "content", "1\n")
	set := tool.NewSet(tool.SetConfig{Guard: permission.Chain{{Policy: permission.Standard()}}, Dir: dir,
		Ask: func(_ context.Context, asked tool.Decision) tool.Answer {
			if asked.Diff() == "" {
				t.Error("there is no preview")
			}
			return tool.Answer{}
		}}, func() []tool.Tool {
		w, err := builtin.New(builtin.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Close() })
		return w.Tools()
	}()...)
	bench{dir, set}.refused(t, "The person said no", "Write", "file_path", "none/x", "content", "1\n")
	if _, err := os.Stat(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Errorf("a preview made the directory: %v", err)
	}
}

func TestDiffIsWithheldOfWhatMustNotBeRead(t *testing.T) {
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	t.Setenv("HOME", home)
	big := strings.Repeat("x\n", 600<<10)
	write(t, dir, map[string]string{"denied": "s\n", "asked": "s\n", "bin": "a\x00b", "big": big, "home/.aws/credentials": "key\n",
		"ok": "s\n"})
	for file, rules := range map[string]permission.Config{
		"denied":                {Preset: "permissive", Deny: permission.Rules("Read(./denied)")},
		"asked":                 {Preset: "none", Allow: permission.Rules("Read(./ok)", "Write")},
		"bin":                   {Preset: "permissive"},
		"big":                   {Preset: "permissive"},
		"home/.aws/credentials": {Preset: "standard"},
	} {
		d := newDiffer(t, dir, rules)
		d.ok(t, "Write", "file_path", file, "content", "changed\n")
		d.ok(t, "Write", "file_path", "ok", "content", "changed\n")
		if len(d.changes) != 2 || d.changes[0].Diff != "" || d.changes[0].File != file {
			t.Errorf("%s: got %+v, want no difference", file, d.changes)
		}
		for _, p := range d.previews {
			if strings.Contains(p, file) {
				t.Errorf("%s: the preview shows %q", file, p)
			}
		}
	}
}

func TestDiffIsBounded(t *testing.T) {
	dir := t.TempDir()
	var old, changed strings.Builder
	for range 49_000 {
		old.WriteString("a line\n")
		changed.WriteString("another\n")
	}
	write(t, dir, map[string]string{"a": old.String()})
	d := newDiffer(t, dir, permission.Config{Preset: "permissive"})
	d.ok(t, "Write", "file_path", "a", "content", changed.String())
	got := d.changes[0].Diff
	if len(got) > 64<<10 || !strings.HasSuffix(got, " more bytes of the difference are left out\n") {
		t.Errorf("the difference has %d bytes and ends with %q", len(got), got[max(0, len(got)-80):])
	}
	d.ok(t, "Write", "file_path", "a", "content", strings.Repeat("\n", 50_001))
	if got := d.changes[1].Diff; got != "" {
		t.Errorf("of too many lines there are %d bytes of differences", len(got))
	}
	d.ok(t, "Write", "file_path", "latin", "content", "caf\u00e9\n")
	if err := os.WriteFile(filepath.Join(dir, "latin"), []byte("caf\xe9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d2 := newDiffer(t, dir, permission.Config{Preset: "permissive"})
	d2.ok(t, "Write", "file_path", "latin", "content", "tea\n")
	if want := "-caf\uFFFD\n+tea\n"; !strings.Contains(d2.changes[0].Diff, want) {
		t.Errorf("got %q, want %q in it", d2.changes[0].Diff, want)
	}
}
