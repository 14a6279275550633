package gitignore_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"symbio/internal/agent/tool/gitignore"
)

func TestPatternsMatch(t *testing.T) {
	for _, c := range []struct {
		text    string
		ignored string // with / at the end: a directory
		kept    string
	}{
		{"*.log\n!keep.log\n", "a.log x/a.log", "keep.log x/keep.log a.logs"},
		{"/top\n", "top", "x/top"},
		{"a/b\n", "a/b a/b/", "x/a/b"},
		{"build/\n", "build/ x/build/", "build x/build"},
		{"**/foo\n", "foo x/foo x/y/foo", "xfoo"},
		{"a/**\n", "a/x a/x/y", "a a/"},
		{"a/**/b\n", "a/b a/x/b a/x/y/b", "ab a/xb"},
		{"a**b\n", "ab axxb", "a/b"},
		{"# no\n\\#yes\n\\!no\n", "#yes !no", "no"},
		{"sp  \nspace\\ \n", "sp", "space"},
		{"[a-c]?[!x]\n", "abc c1y", "abx d11 ab"},
		{"[[:digit:]]\n[]]\n[a\n", "1 ]", "a [a"},
		{"x[a/b]y\n", "", "x/y xay/z"},
		{"*.txt\r\n", "a.txt", "a.md"},
		{"caf??\n", "café", "cafe"},
		{"bad\\\n", "", "bad"},
		{"\ufefffirst\n", "first", ""},
		{"/\n//\n\n!\n", "", "a"},
	} {
		s := gitignore.Stack{gitignore.Parse("", []byte(c.text))}
		for want, names := range map[bool]string{true: c.ignored, false: c.kept} {
			for _, name := range strings.Fields(names) {
				bare, dir := strings.CutSuffix(name, "/")
				if got := s.Ignored(bare, dir); got != want {
					t.Errorf("%q: %s: got %v, want %v", c.text, name, got, want)
				}
			}
		}
	}
}

func TestFileNearestToAnEntrySays(t *testing.T) {
	s := gitignore.Stack{gitignore.Parse("", []byte("*.a\n!b.a\n")), gitignore.Parse("sub", []byte("!*.a\n/x\nb.a\n"))}
	for name, want := range map[string]bool{"a.a": true, "b.a": false, "sub/a.a": false, "sub/b.a": true, "sub/x": true, "sub/y/x": false, "x": false, "subx/a.a": true} {
		if got := s.Ignored(name, false); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// A matcher that goes back over what it has read would not come to an end here.
func TestNoPatternIsSlow(t *testing.T) {
	for _, p := range []string{strings.Repeat("*a", 1000) + "b", strings.Repeat("**/a/", 400) + "b", strings.Repeat("[a-z]*", 300) + "\\"} {
		for _, name := range []string{strings.Repeat("a", 3000), strings.Repeat("a/", 1500) + "c"} {
			if (gitignore.Stack{gitignore.Parse("", []byte(p))}).Ignored(name, false) {
				t.Errorf("%.20s fits %.20s", p, name)
			}
		}
	}
}

// repository is a tree with .gitignore files, and the same as stacks.
type repository struct {
	dir   string
	files map[string]string // .gitignore files by directory
	names []string          // files and directories (with / at the end)
}

// ignored walks as git does: nothing below an ignored directory is looked at.
func (r repository) ignored() map[string]bool {
	all := map[string]bool{}
	for _, name := range r.names {
		bare, dir := strings.CutSuffix(name, "/")
		var stack gitignore.Stack
		if text, ok := r.files["exclude"]; ok {
			stack = append(stack, gitignore.Parse("", []byte(text)))
		}
		at, hit := "", false
		parts := strings.Split(bare, "/")
		for i, p := range parts {
			if text, ok := r.files[at]; ok {
				stack = append(stack, gitignore.Parse(at, []byte(text)))
			}
			at = path.Join(at, p)
			if hit = stack.Ignored(at, dir || i < len(parts)-1); hit {
				break
			}
		}
		all[name] = hit
	}
	return all
}

func git(t testing.TB, dir, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C")
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	return out.String(), err
}

// compare asks git about the same.
func (r repository) compare(t testing.TB) {
	t.Helper()
	for dir, text := range r.files {
		file := filepath.Join(r.dir, filepath.FromSlash(dir), ".gitignore")
		if dir == "exclude" {
			file = filepath.Join(r.dir, ".git", "info", "exclude")
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	asked := strings.ReplaceAll(strings.Join(r.names, "\x00")+"\x00", "/\x00", "\x00") // git looks what is a directory
	said, err := git(t, r.dir, asked, "check-ignore", "--no-index", "-z", "--stdin")
	var exit *exec.ExitError
	if err != nil && (!asExit(err, &exit) || exit.ExitCode() != 1) { // 1 = none is ignored
		t.Fatalf("git check-ignore: %v", err)
	}
	want := map[string]bool{}
	for name := range strings.SplitSeq(said, "\x00") {
		want[name] = true
	}
	for name, got := range r.ignored() {
		if got != want[strings.TrimSuffix(name, "/")] {
			t.Errorf("%s: got %v, git says %v; the files: %q", name, got, !got, r.files)
		}
	}
	for dir := range r.files {
		if dir != "exclude" {
			_ = os.Remove(filepath.Join(r.dir, filepath.FromSlash(dir), ".gitignore"))
		}
	}
}

func asExit(err error, to **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*to = e
	return ok
}

func newRepository(t testing.TB) repository {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("compares with git check-ignore, and there is no git")
	}
	r := repository{dir: t.TempDir()}
	if _, err := git(t, r.dir, "", "init", "-q"); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"", "a/", "b/", "a/b/", "a/b/c/", "ab/", "a/bb/"} {
		if d != "" {
			r.names = append(r.names, d)
		}
		if err := os.MkdirAll(filepath.Join(r.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, f := range []string{"x", "a.c", "b.log", "[x", "]", "-", "é", "#", "!", "a b", "ab", "aXb", "\\", "1"} {
			if f == "ab" && d == "" {
				continue // a directory
			}
			r.names = append(r.names, d+f)
			if err := os.WriteFile(filepath.Join(r.dir, d, f), nil, 0o600); err != nil {
				t.Skip("the file system has no such names: ", err)
			}
		}
	}
	return r
}

func TestItIgnoresWhatGitDoes(t *testing.T) {
	r := newRepository(t)
	rng := rand.New(rand.NewPCG(1, 2))
	bits := []string{"a", "b", "c", "x", "*", "*", "**", "?", "/", "/", "!", "[ab]", "[!a]", "[a-", "]", "[", "\\", " ", "#", ".c", ".log", "**/", "/**", "[[:alpha:]]", "[]-]", "é", "-", "[a/b]", "[\\]]", "[^a-b]", "[[:x:]]", "[b-a]"}
	text := func() string {
		var b strings.Builder
		for range 1 + rng.IntN(3) {
			for range 1 + rng.IntN(5) {
				b.WriteString(bits[rng.IntN(len(bits))])
			}
			b.WriteByte('\n')
		}
		return b.String()
	}
	for range 120 {
		r.files = map[string]string{"": text(), "exclude": text()}
		for _, d := range []string{"a", "a/b"} {
			if rng.IntN(2) == 0 {
				r.files[d] = text()
			}
		}
		if r.compare(t); t.Failed() {
			return
		}
	}
}

func FuzzItIgnoresWhatGitDoes(f *testing.F) {
	for _, s := range []string{"*.c\n!a.c\n", "a/**/x\n", "/a b\n", "[[:alnum:]]\\", "**\n!a/\n", "a/*/\n"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, top, below string) {
		if strings.ContainsRune(top+below, 0) {
			t.Skip("git's lines end at a NUL")
		}
		r := newRepository(t)
		r.files = map[string]string{"": top, "a": below}
		r.compare(t)
	})
}
