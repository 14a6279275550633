package builtin_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/security/permission"
)

// bench is a workspace and its tools behind a guard.
type bench struct {
	dir string
	set *tool.Set
}

func open(t testing.TB, dir string, guard tool.Guard, at string) bench {
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
	if guard == nil {
		guard = permission.Chain{{Policy: permission.Permissive()}}
	}
	return bench{dir, tool.NewSet(tool.SetConfig{Guard: guard, Dir: filepath.Join(dir, at)}, w.Tools()...)}
}

// call runs a tool with arguments given as key, value, …
func (b bench) call(t testing.TB, name string, args ...any) llm.ToolResult {
	t.Helper()
	m := map[string]any{}
	for i := 0; i < len(args); i += 2 {
		m[args[i].(string)] = args[i+1]
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b.set.Run(t.Context(), []llm.ToolCall{{ID: "1", Name: name, Args: raw}})[0]
}

// ok is the text of a call that has to succeed.
func (b bench) ok(t testing.TB, name string, args ...any) string {
	t.Helper()
	r := b.call(t, name, args...)
	if r.IsError {
		t.Fatalf("%s %v: %s", name, args, r.Text)
	}
	return r.Text
}

// refused is the text of a call that has to fail.
func (b bench) refused(t testing.TB, want, name string, args ...any) {
	t.Helper()
	if r := b.call(t, name, args...); !r.IsError || !strings.Contains(r.Text, want) {
		t.Errorf("%s %v: got error %v, %q; want an error with %q", name, args, r.IsError, r.Text, want)
	}
}

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// oddTree is a tree with what may confuse a count: odd names, binary files, missing line ends, links,
// pipes, hidden files, repositories.
func oddTree(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{"TODO", "FIXME", "todo", "foo", "bar(", "x TODO y", "\t", "", "é", "ſtop", "\xfe\xfe", "a\x00b", "TODO\x00TODO",
		"end.\r", "TOD", "func main() {", "\u212a"}
	files := map[string]string{
		"a b.go": "TODO\nTODO", "sub dir/with space.md": "# TODO\n", "new\nline.txt": "TODO\n\n\n", "tab\there": "x\ty\n", "-dash": "TODO\n", "ünï/cödé.Go": "TODO\nx",
		".gitignore": "a\nb\n", ".git/config": "TODO\n", ".git/objects/x": "TODO\n", "sub/.git/HEAD": "TODO\n", "wt/.git": "gitdir: TODO\n", "x.git/y": "TODO\n",
		".hidden/z": "FIXME\n", "empty": "", "nl": "\n", "nonl": "TODO", "crlf.TXT": "TODO\r\nx\r\n", "bin.dat": "TODO\x00TODO\nTODO\x00", "total": "TODO\n", `"q"`: "TODO\n", "#h": "TODO\n",
		"Makefile": "all:\n\tTODO\n", "a.tar.gz": "\x1f\x8b\x00TODO\n", ".eslintrc.json": "{}\n", "dot.": "TODO\n", "long": strings.Repeat("y", 300_000) + "TODO" + strings.Repeat("z", 300_000) + "\nTODO\n",
		"deep/" + strings.Repeat("d/", 30) + "leaf.go": "TODO\n",
	}
	for i := range 300 {
		var b strings.Builder
		for range r.IntN(200) {
			b.WriteString(words[r.IntN(len(words))])
			if r.IntN(3) > 0 {
				b.WriteByte('\n')
			}
		}
		files[fmt.Sprintf("gen/%d/%d.%s", i%7, i, []string{"go", "md", "TXT", "bin"}[i%4])] = b.String()
	}
	write(t, dir, files)
	if runtime.GOOS != "windows" {
		for link, to := range map[string]string{"link.go": "a b.go", "linkdir": "sub dir", "dangling": "nowhere", "out": os.TempDir(),
			"loop": "."} {
			if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
		}
		if err := mkfifo(filepath.Join(dir, "fifo")); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shell runs a program that this test compares with, or skips.
func shell(t *testing.T, dir, script string, args ...string) string {
	t.Helper()
	for _, program := range []string{"sh", "find", "wc", "grep", "xargs"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("compares with find, wc and grep, and there is no ", program)
		}
	}
	cmd := exec.Command("sh", append([]string{"-c", script, "sh"}, args...)...)
	cmd.Dir = dir
	// In the C locale grep takes bytes for what they are.
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(string(out))
}

// last is the last line of an answer.
func last(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }
