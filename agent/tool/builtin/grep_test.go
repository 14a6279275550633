package builtin_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/security/permission"
)

const findFiles = `find . -type f -not -path '*/.git/*' -print0`

func TestSumsAreThoseOfFindAndWcAndGrep(t *testing.T) {
	dir := oddTree(t)
	b := open(t, dir, nil, "")
	files := shell(t, dir, findFiles+` | tr -cd '\0' | wc -c`)
	dirs := shell(t, dir, `find . -mindepth 1 -type d -not -name .git -not -path '*/.git/*' -print0 | tr -cd '\0' | wc -c`)
	if got, want := last(b.ok(t, "Glob", "pattern", "**", "limit", 3)),
		fmt.Sprintf("total\t%s files\t%s directories", files, dirs); got != want {
		t.Errorf("Glob: got %q, find says %q", got, want)
	}
	lines := shell(t, dir, findFiles+` | xargs -0 cat | wc -l`)
	sum := strings.Split(last(b.ok(t, "Grep", "pattern", `\n`, "multiline", true, "output_mode", "count", "head_limit", 1)), "\t")
	if sum[1] != files || sum[3] != lines {
		t.Errorf("lines: got %q, find says %s files and wc %s lines", sum, files, lines)
	}
	for _, pattern := range []string{"TODO", "TODO|FIXME", "FIXME|TOD", "^TODO$", "[[:space:]]TODO", "T.DO", "^$", "", "^", "o+",
		"(TODO|foo)bar|FIXME", "D$", `\bTODO\b`, "bar\\(", "x?", "[^T]ODO"} {
		for _, fold := range []bool{false, true} {
			flag := "-E"
			if fold {
				flag = "-Ei"
			}
			counts := shell(t, dir, findFiles+` | xargs -0 grep -c `+flag+` -e "$1" -H -Z -- || true`,
				strings.ReplaceAll(pattern, "$", "\r?$"))
			want, with := int64(0), 0
			for _, row := range strings.Split(counts, "\x00")[1:] {
				n, err := strconv.ParseInt(strings.SplitN(row, "\n", 2)[0], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				want += n
				if n > 0 {
					with++
				}
			}
			got := last(b.ok(t, "Grep", "pattern", pattern, "-i", fold, "output_mode", "count"))
			if want := fmt.Sprintf("total\t%s\t%d\t%d", files, with, want); got != want {
				t.Errorf("grep -c %s %q: got %q, want %q", flag, pattern, got, want)
			}
		}
	}
}

// Every file by itself, so that two mistakes cannot make one right sum.
func TestGrepCountsEqualThoseOfGrepAndWc(t *testing.T) {
	dir := oddTree(t)
	b := open(t, dir, nil, "")
	for _, c := range []struct{ pattern, script string }{
		{"TODO|FIXME", `grep -cE 'TODO|FIXME' "$1" || true`}, {"", `grep -c '' "$1" || true`}, {`\n`, `wc -l < "$1"`}, {"D", `grep -c D "$1" || true`},
	} {
		multi := c.pattern == `\n`
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() ||
				strings.Contains(path, "gen/") && !strings.HasSuffix(path, "0.go") && !strings.HasSuffix(path, "1.md") {
				return err
			}
			want := strings.TrimSpace(shell(t, dir, c.script, path))
			got := strings.Split(last(b.ok(t, "Grep", "pattern", c.pattern, "multiline", multi, "path", path, "output_mode",
				"count")), "\t")
			if got[3] != want {
				t.Errorf("%q in %q: got %s, want %s", c.pattern, path, got[3], want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestCountsComeInAFixedForm(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"a.go": "TODO\nTODO TODO\n", "b/c.GO": "x\n", "b/d.md": "TODO\nTODO\n", "Makefile": "x\n", ".gitignore": "TODO\n", "new\nline.md": "TODO\n", "total": "TODO\n", "e.": "x",
	})
	b := open(t, dir, nil, "")
	for _, c := range []struct {
		args []any
		want string
	}{
		{[]any{"group_by", "file"}, "a.go\t1\t1\t2\nb/d.md\t1\t1\t2\n.gitignore\t1\t1\t1\n\"new\\nline.md\"\t1\t1\t1\n\"total\"\t1\t1\t1\ntotal\t8\t5\t7"},
		{[]any{"group_by", "extension"}, ".md\t2\t2\t3\n(none)\t4\t2\t2\n.go\t2\t1\t2\ntotal\t8\t5\t7"},
		{[]any{"group_by", "none"}, "total\t8\t5\t7"},
		{[]any{"group_by", "file", "head_limit", 1}, "a.go\t1\t1\t2\n# 4 more not shown; narrow the search or raise head_limit\ntotal\t8\t5\t7"},
		{[]any{"group_by", "file", "path", "b"}, "b/d.md\t1\t1\t2\ntotal\t2\t1\t2"},
		{[]any{"group_by", "file", "glob", "*.{go,GO}"}, "a.go\t1\t1\t2\ntotal\t2\t1\t2"},
		{[]any{"group_by", "file", "glob", "b/*"}, "b/d.md\t1\t1\t2\ntotal\t2\t1\t2"},
		{[]any{"group_by", "none", "glob", "!*.md"}, "total\t6\t3\t4"},
		{[]any{"group_by", "none", "glob", "*.c"}, "total\t0\t0\t0"},
		{[]any{"group_by", "none", "multiline", true}, "total\t8\t5\t8"},
	} {
		got := b.ok(t, "Grep", append([]any{"pattern", "TODO", "output_mode", "count"}, c.args...)...)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v: -want +got\n%s", c.args, diff)
		}
	}
}

func TestMatchesAreShownAsGrepShowsThem(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"a.txt": "one\ntwo\nthree TODO\nfour\nfive\nsix\nseven TODO\neight TODO\nnine", "b.txt": "TODO\r\n", "c.bin": "TODO\x00\n", "m.txt": "begin\nmid\nend\nx\nbegin end\n",
		"z.txt": strings.Repeat("x", 2000) + "TODO" + strings.Repeat("y", 2000),
	})
	b := open(t, dir, nil, "")
	for _, c := range []struct {
		args []any
		want string
	}{
		{[]any{"pattern", "TODO"}, "a.txt\nb.txt\nc.bin\nz.txt\ntotal\t5\t4\t6"},
		{[]any{"pattern", "TODO", "output_mode", "content", "glob", "[ab].txt"}, "a.txt:3:three TODO\na.txt:7:seven TODO\na.txt:8:eight TODO\nb.txt:1:TODO\ntotal\t2\t2\t4"},
		{[]any{"pattern", "TODO", "output_mode", "content", "path", "a.txt", "-n", false, "head_limit", 2}, "a.txt:three TODO\na.txt:seven TODO\n# 1 more not shown; narrow the search or raise head_limit\ntotal\t1\t1\t3"},
		{[]any{"pattern", "TODO", "output_mode", "content", "glob", "[abc]*", "-C", 1}, "a.txt-2-two\na.txt:3:three TODO\na.txt-4-four\n--\na.txt-6-six\na.txt:7:seven TODO\na.txt:8:eight TODO\na.txt-9-nine\n--\nb.txt:1:TODO\nc.bin: a binary file matches\ntotal\t3\t3\t5"},
		{[]any{"pattern", "TODO", "output_mode", "content", "path", "a.txt", "-A", 1, "-B", 9}, "a.txt-1-one\na.txt-2-two\na.txt:3:three TODO\na.txt-4-four\na.txt-5-five\na.txt-6-six\na.txt:7:seven TODO\na.txt:8:eight TODO\na.txt-9-nine\ntotal\t1\t1\t3"},
		{[]any{"pattern", "begin.*?end", "multiline", true, "output_mode", "content", "path", "m.txt"}, "m.txt:1:begin\nm.txt:2:mid\nm.txt:3:end\nm.txt:5:begin end\ntotal\t1\t1\t2"},
		{[]any{"pattern", "todo", "-i", true, "path", "b.txt"}, "b.txt\ntotal\t1\t1\t1"},
		{[]any{"pattern", "nothing"}, "total\t5\t0\t0"},
	} {
		if diff := cmp.Diff(c.want, b.ok(t, "Grep", c.args...)); diff != "" {
			t.Errorf("%v: -want +got\n%s", c.args, diff)
		}
	}
	if got := b.ok(t, "Grep", "pattern", "TODO", "output_mode", "content", "path", "z.txt"); !strings.Contains(got, "TODO") ||
		!strings.Contains(got, "of 4004 bytes of this line") || len(got) > 700 {
		t.Errorf("a long line: %q", got)
	}
}

func TestGrepReadsWhatReadShows(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"crlf": "one\r\ntwo\r\n\r\n", "bom": "\ufeffone\ntwo\n", "le": "\xff\xfeo\x00n\x00e\x00\r\x00\n\x00", "be": "\xfe\xff\x00o\x00n\x00e\x00\n",
	})
	b := open(t, dir, nil, "")
	for _, c := range []struct {
		args []any
		want string
	}{
		{[]any{"pattern", "two$"}, "bom:2:two\ncrlf:2:two\ntotal\t4\t2\t2"},
		{[]any{"pattern", "^one$"}, "be:1:one\nbom:1:one\ncrlf:1:one\nle:1:one\ntotal\t4\t4\t4"},
		{[]any{"pattern", "(o|O)ne($)"}, "be:1:one\nbom:1:one\ncrlf:1:one\nle:1:one\ntotal\t4\t4\t4"},
		{[]any{"pattern", "^TWO$", "-i", true}, "bom:2:two\ncrlf:2:two\ntotal\t4\t2\t2"},
		{[]any{"pattern", "two$", "multiline", true}, "bom:2:two\ncrlf:2:two\ntotal\t4\t2\t2"},
		{[]any{"pattern", "^$"}, "crlf:3:\ntotal\t4\t1\t1"},
		{[]any{"pattern", "two\\r$"}, "crlf:2:two\ntotal\t4\t1\t1"},
		{[]any{"pattern", `o[$]|two\$`}, "total\t4\t0\t0"},
	} {
		if diff := cmp.Diff(c.want, b.ok(t, "Grep", append(c.args, "output_mode", "content")...)); diff != "" {
			t.Errorf("%v: -want +got\n%s", c.args, diff)
		}
	}
}

func TestGrepSaysWhatItCannotDo(t *testing.T) {
	dir := oddTree(t)
	b := open(t, dir, nil, "")
	b.refused(t, "malformed", "Grep", "pattern", "(")
	b.refused(t, "RE2", "Grep", "pattern", "(?=x)")
	b.refused(t, "multiline", "Grep", "pattern", `a\nb`)
	b.refused(t, "does not exist", "Grep", "pattern", "x", "path", "nowhere")
	b.refused(t, "outside the workspace", "Grep", "pattern", "x", "path", "../..")
	b.refused(t, "one of files_with_matches, content, count", "Grep", "pattern", "x", "output_mode", "Count")
	b.refused(t, "negative", "Grep", "pattern", "x", "head_limit", -1)
	b.refused(t, "malformed", "Grep", "pattern", "x", "glob", "[a")
	if _, err := os.Lstat(filepath.Join(dir, "fifo")); err == nil {
		b.refused(t, "pipe", "Grep", "pattern", "x", "path", "fifo")
		b.refused(t, "link", "Grep", "pattern", "x", "path", "out")
	}
}

func TestWalkObeysWhatTheVerdictLeavesOut(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "TODO\n", "secret/b": "TODO\n", "sub/.env": "TODO\n", "sub/c": "TODO\n"})
	policy, err := permission.Config{Preset: "permissive", Deny: permission.Rules("Read(secret/*)", "Read(.env)")}.Policy()
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, dir, permission.Chain{{Policy: policy}}, "")
	if got, want := b.ok(t, "Grep", "pattern", "TODO"), "a\nsub/c\n# 2 files or directories left out by a permission rule\ntotal\t2\t2\t2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := b.ok(t, "Glob", "pattern", "**"), "a\nsub/\nsub/c\n# 2 files or directories left out by a permission rule\ntotal\t2 files\t1 directory"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.refused(t, "Denied", "Grep", "pattern", "TODO", "path", "secret")
	b.refused(t, "Denied", "Read", "file_path", "sub/.env")
}

func TestDirectoryThatCannotBeReadIsNamed(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can read every directory")
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "TODO\n", "closed/b": "TODO\n"})
	if err := os.Chmod(filepath.Join(dir, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "closed"), 0o755) })
	got := open(t, dir, nil, "").ok(t, "Grep", "pattern", "TODO")
	if !strings.Contains(got, "# 1 directory could not be read, such as closed: permission denied\ntotal\t1\t1\t1") {
		t.Errorf("got %q", got)
	}
}

// manyFiles makes n small files in directories of 100.
func manyFiles(b testing.TB, n int) string {
	b.Helper()
	dir := b.TempDir()
	text := []byte(strings.Repeat("a line of text that says nothing\n", 20) + "a TODO at its end\n")
	for i := range n {
		d := filepath.Join(dir, strconv.Itoa(i/1000), strconv.Itoa(i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(d, 0o755); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(d, strconv.Itoa(i)+".go"), text, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}

// The floor is grep -rc over the same tree in the same run.
func BenchmarkGrep(b *testing.B) {
	if _, err := exec.LookPath("grep"); err != nil {
		b.Skip("compares with grep, which is not here")
	}
	dir := manyFiles(b, 20_000)
	w := open(b, dir, nil, "")
	for name, pattern := range map[string]string{"literal": "TODO|FIXME", "expression": `\b(TODO|FIXME)\b`, "hard": `[a-z]+ [A-Z]+ at`,
		"lines": `\n`} {
		b.Run(name, func(b *testing.B) {
			var floor int64
			for b.Loop() {
				b.StopTimer()
				began := now()
				cmd := exec.Command("grep", "-rcE", strings.ReplaceAll(pattern, `\n`, "^"), ".")
				cmd.Dir = dir
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
				floor += now() - began
				b.StartTimer()
				got := last(w.ok(b, "Grep", "pattern", pattern, "output_mode", "count", "multiline", name == "lines", "group_by",
					"extension"))
				if !strings.HasPrefix(got, "total\t20000\t20000\t") {
					b.Fatal(got)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(floor), "x-grep")
		})
	}
}
