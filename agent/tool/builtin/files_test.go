package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/security/permission"
)

func now() int64 { return time.Now().UnixNano() }

func TestReadShowsNumberedLines(t *testing.T) {
	dir := t.TempDir()
	var long strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&long, "line %d\n", i+1)
	}
	write(t, dir, map[string]string{"a": "one\r\ntwo\n\nfour", "long": long.String(), "empty": "",
		"wide": strings.Repeat("x", 5000) + "\nend\n", "bin": "a\x00b", "sub/x": "y\n",
		"fat": strings.Repeat(strings.Repeat("w", 1000)+"\n", 200)})
	b := open(t, dir, nil, "")
	for _, c := range []struct {
		args []any
		want string
	}{
		{[]any{"file_path", "a"}, "     1\tone\n     2\ttwo\n     3\t\n     4\tfour\n"},
		{[]any{"file_path", filepath.Join(dir, "a"), "offset", 2, "limit", 1}, "     2\ttwo\n[Lines 2 to 2 of 4. To go on, read with offset 3.]"},
		{[]any{"file_path", "sub/../a", "offset", 4}, "     4\tfour\n"},
		{[]any{"file_path", "empty"}, "[The file is empty.]"},
		{[]any{"file_path", "wide"}, "     1\t" + strings.Repeat("x", 2000) + " [3000 more bytes in this line]\n     2\tend\n"},
	} {
		if got := b.ok(t, "Read", c.args...); got != c.want {
			t.Errorf("%v: got %q, want %q", c.args, got, c.want)
		}
	}
	got := b.ok(t, "Read", "file_path", "long")
	if !strings.HasSuffix(got, "  2000\tline 2000\n[Lines 1 to 2000 of 2500. To go on, read with offset 2001.]") {
		t.Errorf("a long file ends with %q", got[len(got)-100:])
	}
	if got := b.ok(t, "Read", "file_path", "fat"); len(got) > 64<<10 || !strings.Contains(last(got), "of 200. To go on, read with offset") {
		t.Errorf("wide lines: %d bytes that end with %q", len(got), last(got))
	}
	b.refused(t, "has 4 lines; there is no line 5", "Read", "file_path", "a", "offset", 5)
	b.refused(t, "binary", "Read", "file_path", "bin")
	b.refused(t, "directory", "Read", "file_path", "sub")
	b.refused(t, "does not exist", "Read", "file_path", "nowhere")
	b.refused(t, "negative", "Read", "file_path", "a", "offset", -1)
}

func TestNoToolLeavesTheWorkspace(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside, map[string]string{"secret": "s\n"})
	write(t, dir, map[string]string{"in": "x\n"})
	b := open(t, dir, nil, "")
	b.refused(t, "outside the workspace", "Read", "file_path", filepath.Join(outside, "secret"))
	b.refused(t, "outside the workspace", "Read", "file_path", "../"+filepath.Base(outside)+"/secret")
	b.refused(t, "outside the workspace", "Write", "file_path", filepath.Join(outside, "new"), "content", "x")
	b.refused(t, "outside the workspace", "Read", "file_path", dir+"x")
	b.refused(t, "outside the workspace", "Glob", "pattern", "*", "path", "/")
	b.refused(t, "..", "Glob", "pattern", "../*")
	b.refused(t, "begins with /", "Glob", "pattern", "/etc/*")
	b.refused(t, "~", "Read", "file_path", "~/x")
	b.refused(t, "NUL", "Read", "file_path", "a\x00b")
	b.refused(t, "empty", "Read", "file_path", "")
	if runtime.GOOS == "windows" {
		t.Skip("what follows needs symbolic links and pipes")
	}
	for link, to := range map[string]string{"abs": filepath.Join(outside, "secret"), "rel": "../" + filepath.Base(outside) + "/secret",
		"dir": outside, "dangling": filepath.Join(outside, "new"), "inlink": "in", "up": ".."} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := mkfifo(filepath.Join(dir, "fifo")); err != nil {
		t.Fatal(err)
	}
	b.refused(t, "symbolic link", "Read", "file_path", "abs")
	b.refused(t, "symbolic link", "Read", "file_path", "rel")
	b.refused(t, "symbolic link", "Read", "file_path", "dir/secret")
	b.refused(t, "symbolic link", "Write", "file_path", "dir/new", "content", "x")
	b.refused(t, "symbolic link", "Write", "file_path", "dangling", "content", "x")
	b.refused(t, "symbolic link", "Write", "file_path", "inlink", "content", "x")
	b.refused(t, "symbolic link", "Write", "file_path", "up/new", "content", "x")
	b.refused(t, "symbolic link", "Glob", "pattern", "*", "path", "dir")
	b.refused(t, "symbolic link", "Grep", "pattern", "s", "path", "abs")
	b.refused(t, "pipe", "Read", "file_path", "fifo")
	b.refused(t, "not a regular file", "Write", "file_path", "fifo", "content", "x")
	if got := b.ok(t, "Read", "file_path", "inlink"); got != "     1\tx\n" {
		t.Errorf("a link that stays inside: got %q", got)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside are now %v, %v", entries, err)
	}
}

func TestRelativePathsMeanWhatTheGuardJudged(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "top\n", "sub/a": "below\n", "sub/deep/b": "x\n"})
	policy, err := permission.Config{Preset: "restrictive", Allow: permission.Rules("Write(./*)")}.Policy()
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, dir, permission.Chain{{Policy: policy}}, "sub")
	if got := b.ok(t, "Read", "file_path", "a"); got != "     1\tbelow\n" {
		t.Errorf("Read a in sub: got %q", got)
	}
	if got := b.ok(t, "Glob", "pattern", "**"); got != "a\ndeep/\ndeep/b\ntotal\t2 files\t1 directory" {
		t.Errorf("Glob in sub: got %q", got)
	}
	b.ok(t, "Write", "file_path", "new", "content", "x")
	if _, err := os.Stat(filepath.Join(dir, "sub", "new")); err != nil {
		t.Error(err)
	}
	b.refused(t, "Denied", "Read", "file_path", "../a")
	everywhere := open(t, dir, nil, "sub")
	if got, want := everywhere.ok(t, "Glob", "pattern", "a", "path", ".."),
		filepath.Join(dir, "a")+"\ntotal\t1 file\t0 directories"; got != want {
		t.Errorf("Glob above the working directory: got %q, want %q", got, want)
	}
}

func TestWriteMakesAndReplacesWholeFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"old": "old", ".git/config": "x", "sub/y": "y"})
	if err := os.Chmod(filepath.Join(dir, "old"), 0o700); err != nil {
		t.Fatal(err)
	}
	b := open(t, dir, nil, "")
	if got := b.ok(t, "Write", "file_path", "a/b/new.md", "content", "one\ntwo\n"); got != "Created a/b/new.md: 8 bytes, 2 lines." {
		t.Errorf("got %q", got)
	}
	if got := b.ok(t, "Write", "file_path", "old", "content", ""); got != "Replaced old: 0 bytes, 0 lines." {
		t.Errorf("got %q", got)
	}
	if info, err := os.Stat(filepath.Join(dir, "old")); err != nil || info.Size() != 0 ||
		runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("the replaced file: %v %v", info, err)
	}
	b.refused(t, "no rule names it", "Write", "file_path", ".git/hooks/pre-commit", "content", "x")
	b.refused(t, ".git directory", "Write", "file_path", ".git/x", "content", "x")
	b.refused(t, ".git directory", "Write", "file_path", "sub/.GIT/x", "content", "x")
	b.refused(t, "not a regular file", "Write", "file_path", "sub", "content", "x")
	b.refused(t, "old", "Write", "file_path", "old/below", "content", "x")
	if runtime.GOOS != "windows" {
		if err := os.Symlink(".git", filepath.Join(dir, "g")); err != nil {
			t.Fatal(err)
		}
		b.refused(t, ".git directory", "Write", "file_path", "g/x", "content", "x")
	}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".tmp") {
			t.Errorf("%s was left behind", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A reader beside a writer sees one whole content or the other.
func TestWrittenFileIsNeverSeenHalf(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil, "")
	contents := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 50_000)}
	b.ok(t, "Write", "file_path", "f", "content", contents[0])
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 50 {
			b.ok(t, "Write", "file_path", "f", "content", contents[i%2])
		}
	})
	for range 200 {
		got, err := os.ReadFile(filepath.Join(dir, "f"))
		if err != nil || string(got) != contents[0] && string(got) != contents[1] {
			t.Fatalf("read %d bytes, %v", len(got), err)
		}
	}
	wg.Wait()
}

func TestGlobFindsNamesAndCountsAll(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"a.go": "", "b.md": "", ".hidden": "", "src/x.go": "", "src/deep/y.go": "", "src/deep/z.MD": "", "other/x.go": "", ".git/x.go": "", "sp ace/q.go": "", "new\nline/a.go": "", "[id].tsx": "",
	})
	b := open(t, dir, nil, "")
	for _, c := range []struct {
		args []any
		want string
	}{
		{[]any{"pattern", "*"}, ".hidden\n[id].tsx\na.go\nb.md\n\"new\\nline/\"\nother/\nsp ace/\nsrc/\ntotal\t4 files\t4 directories"},
		{[]any{"pattern", "*/"}, "\"new\\nline/\"\nother/\nsp ace/\nsrc/\ntotal\t0 files\t4 directories"},
		{[]any{"pattern", "**/*.go"}, "a.go\n\"new\\nline/a.go\"\nother/x.go\nsp ace/q.go\nsrc/deep/y.go\nsrc/x.go\ntotal\t6 files\t0 directories"},
		{[]any{"pattern", "**/*.go", "limit", 2}, "a.go\n\"new\\nline/a.go\"\n# 4 more not shown; narrow the pattern or raise limit\ntotal\t6 files\t0 directories"},
		{[]any{"pattern", "src/**/y.go"}, "src/deep/y.go\ntotal\t1 file\t0 directories"},
		{[]any{"pattern", "*/x.go"}, "other/x.go\nsrc/x.go\ntotal\t2 files\t0 directories"},
		{[]any{"pattern", "{src,other}/*.go"}, "other/x.go\nsrc/x.go\ntotal\t2 files\t0 directories"},
		{[]any{"pattern", "{a.go,src/x.go}"}, "a.go\nsrc/x.go\ntotal\t2 files\t0 directories"},
		{[]any{"pattern", "src/deep"}, "src/deep/\ntotal\t0 files\t1 directory"},
		{[]any{"pattern", "*", "path", "src"}, "src/deep/\nsrc/x.go\ntotal\t1 file\t1 directory"},
		{[]any{"pattern", `\[id\].tsx`}, "[id].tsx\ntotal\t1 file\t0 directories"},
		{[]any{"pattern", "*.c"}, "total\t0 files\t0 directories"},
	} {
		if got := b.ok(t, "Glob", c.args...); got != c.want {
			t.Errorf("%v:\ngot  %q\nwant %q", c.args, got, c.want)
		}
	}
	b.refused(t, "malformed", "Glob", "pattern", "[a")
	b.refused(t, "no directory", "Glob", "pattern", "*", "path", "a.go")
	b.refused(t, "does not exist", "Glob", "pattern", "*", "path", "nowhere")
}

// A directory is read after the files beside it, so the first names in order may come last.
func TestGlobShowsFirstNamesOfMany(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"a/1": "", "a/2": "", "b/3": ""}
	for i := range 50 {
		files[fmt.Sprintf("z%02d", i)] = ""
	}
	write(t, dir, files)
	want := "a/\na/1\na/2\n# 52 more not shown; narrow the pattern or raise limit\ntotal\t53 files\t2 directories"
	if got := open(t, dir, nil, "").ok(t, "Glob", "pattern", "**", "limit", 3); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestToolsHeedTheirContextAndTheClosedWorkspace(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "x\n"})
	w, err := builtin.New(builtin.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]string{"Read": `{"file_path":"a"}`, "Write": `{"file_path":"b","content":""}`, "Glob": `{"pattern":"*"}`,
		"Grep": `{"pattern":"x"}`}
	run := func(ctx context.Context, name string) tool.Result {
		for _, one := range w.Tools() {
			if one.Spec().Name == name {
				inv, err := one.Decode(json.RawMessage(calls[name]))
				if err != nil {
					t.Fatal(err)
				}
				return inv.Run(ctx)
			}
		}
		t.Fatalf("no tool %s", name)
		return tool.Result{}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name := range calls {
		if r := run(ended, name); !r.IsError || !strings.Contains(r.Text, "canceled") {
			t.Errorf("%s with an ended context: %+v", name, r)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name := range calls {
		if r := run(t.Context(), name); !r.IsError || !strings.Contains(r.Text, "closed") {
			t.Errorf("%s in a closed workspace: %+v", name, r)
		}
	}
	if _, err := builtin.New(builtin.Config{Dir: filepath.Join(dir, "a")}); err == nil {
		t.Error("a file was opened as a workspace")
	}
}

func TestModelIsToldWhatTheToolsDo(t *testing.T) {
	w, err := builtin.New(builtin.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, one := range w.Tools() {
		spec := one.Spec()
		var schema struct {
			Properties map[string]struct{ Description string }
		}
		if err := json.Unmarshal(spec.Schema, &schema); err != nil || len(spec.Description) < 100 {
			t.Errorf("%s: %v, described in %d bytes", spec.Name, err, len(spec.Description))
		}
		for name, p := range schema.Properties {
			if p.Description == "" {
				t.Errorf("%s: %s is not described", spec.Name, name)
			}
		}
	}
}

func TestMoreDirectoriesAreReachedByAbsolutePaths(t *testing.T) {
	dir, other, outside := t.TempDir(), t.TempDir(), t.TempDir()
	w, err := builtin.New(builtin.Config{Dir: dir, Directories: []string{other}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	set := tool.NewSet(tool.SetConfig{Guard: permission.Chain{{Policy: permission.Permissive()}}, Dir: dir}, w.Tools()...)
	run := func(name string, args map[string]any) llm.ToolResult {
		raw, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		return set.Run(t.Context(), []llm.ToolCall{{ID: "1", Name: name, Args: raw}})[0]
	}
	file := filepath.Join(other, "sub", "x.txt")
	if r := run("Write", map[string]any{"file_path": file, "content": "hello\n"}); r.IsError || !strings.Contains(r.Text, file) {
		t.Errorf("Write: %+v; want it done, and the absolute path", r)
	}
	if r := run("Read", map[string]any{"file_path": file}); r.IsError || !strings.Contains(r.Text, "hello") {
		t.Errorf("Read: %+v", r)
	}
	if r := run("Grep", map[string]any{"pattern": "hello", "path": other}); r.IsError || !strings.Contains(r.Text, file) {
		t.Errorf("Grep: %+v", r)
	}
	if r := run("Glob", map[string]any{"pattern": "**/*.txt"}); r.IsError || strings.Contains(r.Text, "x.txt") {
		t.Errorf("Glob of the workspace: %+v; want nothing of the other directory", r)
	}
	if r := run("Write", map[string]any{"file_path": filepath.Join(outside, "x"), "content": ""}); !r.IsError {
		t.Errorf("Write elsewhere: %+v; want an error", r)
	}
	if err := os.Symlink(outside, filepath.Join(other, "link")); err == nil {
		if r := run("Write", map[string]any{"file_path": filepath.Join(other, "link", "x"), "content": ""}); !r.IsError {
			t.Errorf("Write through a link: %+v; want an error", r)
		}
	}
}

func TestGlobWithASlashStartsAtTheTop(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"top.go", "sub/deep.go"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := builtin.New(builtin.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	set := tool.NewSet(tool.SetConfig{Guard: permission.Chain{{Policy: permission.Permissive()}}, Dir: dir}, w.Tools()...)
	for glob, want := range map[string]string{"*.go": "total\t2\t2\t2", "./*.go": "total\t1\t1\t1", "sub/*": "total\t1\t1\t1",
		"!./*": "total\t1\t1\t1"} {
		raw := json.RawMessage(fmt.Sprintf(`{"pattern": "x", "output_mode": "count", "group_by": "none", "glob": %q}`, glob))
		if got := set.Run(t.Context(), []llm.ToolCall{{ID: "1", Name: "Grep", Args: raw}})[0].Text; got != want {
			t.Errorf("glob %s: %q, want %q", glob, got, want)
		}
	}
}
