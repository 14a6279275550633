package builtin_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"symbio/security/permission"
)

func content(t testing.TB, dir, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestEditReplacesOneOccurrenceAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.go": "package a\n\nfunc one() {\n\treturn\n}\n"})
	if err := os.Chmod(filepath.Join(dir, "a.go"), 0o750); err != nil {
		t.Fatal(err)
	}
	b := open(t, dir, nil, "")
	b.refused(t, "has not been read yet; Read it first", "Edit", "file_path", "a.go", "old_string", "one", "new_string", "two")
	b.ok(t, "Read", "file_path", "a.go")
	got := b.ok(t, "Edit", "file_path", "a.go", "old_string", "func one() {\n\treturn\n", "new_string", "func two() {\n\tpanic(1)\n")
	if want := "Edited a.go. It reads now:\n     1\tpackage a\n     2\t\n     3\tfunc two() {\n     4\t\tpanic(1)\n     5\t}\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := content(t, dir, "a.go"); got != "package a\n\nfunc two() {\n\tpanic(1)\n}\n" {
		t.Errorf("the file: %q", got)
	}
	if info, err := os.Stat(filepath.Join(dir, "a.go")); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o750 {
		t.Errorf("its mode: %v %v", info.Mode(), err)
	}
	b.ok(t, "Edit", "file_path", "a.go", "old_string", "two", "new_string", "three") // what it edited itself it knows
}

func TestEditSaysWhatToDoWhenTheTextIsNotThere(t *testing.T) {
	dir := t.TempDir()
	before := "one\n\tif x == 1 {\n\t\treturn a\n\t}\ntwo\ntwo\ntwo\n"
	write(t, dir, map[string]string{"f": before, "bin": "\x89PNG\r\n\x1a\n\x00\x00", "sub/x": ""})
	b := open(t, dir, nil, "")
	b.ok(t, "Read", "file_path", "f")
	for _, c := range []struct{ old, new, want string }{
		{"    if x == 1 {\n\t\treturn a", "y", "Only white space differs, first in line 2: the file has \"\\tif x == 1 {\", old_string has \"    if x == 1 {\""},
		{"\tif x == 1 {\n\t\treturn b", "y", "closest to it is at line 2:\n     2\t\tif x == 1 {\n     3\t\t\treturn a\n"},
		{"     1\tone\n     2\t\tif x == 1 {", "y", "line numbers of Read"},
		{"zeppelin", "y", "does not occur in the file. Read the file again"},
		{"two", "y", "occurs 3 times, in lines 5, 6, 7"},
		{"", "y", "old_string is empty"},
		{"one", "one", "are the same"},
	} {
		b.refused(t, c.want, "Edit", "file_path", "f", "old_string", c.old, "new_string", c.new)
	}
	b.refused(t, "does not exist; make it with Write", "Edit", "file_path", "sub/no/g", "old_string", "a", "new_string", "b")
	b.refused(t, ".git directory", "Edit", "file_path", "sub/.git/x", "old_string", "a", "new_string", "b")
	b.refused(t, "outside the workspace", "Edit", "file_path", "../f", "old_string", "a", "new_string", "b")
	b.refused(t, "a binary file (image/png) of 10 bytes", "Read", "file_path", "bin")
	if got := content(t, dir, "f"); got != before {
		t.Errorf("the file: %q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "sub", "no")); err == nil {
		t.Error("an edit made a directory")
	}
	b.ok(t, "Edit", "file_path", "f", "old_string", "two", "new_string", "2", "replace_all", true)
	if got := content(t, dir, "f"); !strings.HasSuffix(got, "2\n2\n2\n") {
		t.Errorf("the file: %q", got)
	}
}

func TestFileThatChangedSinceItWasReadIsNotEdited(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"f": "one\n"})
	a, other := open(t, dir, nil, ""), open(t, dir, nil, "")
	a.ok(t, "Read", "file_path", "f")
	other.ok(t, "Read", "file_path", "f")
	other.ok(t, "Edit", "file_path", "f", "old_string", "one", "new_string", "two")
	a.refused(t, "has changed since you read it; Read it again", "Edit", "file_path", "f", "old_string", "one", "new_string", "1")
	a.refused(t, "has changed since you read it", "Write", "file_path", "f", "content", "all mine\n")
	a.refused(t, "has changed since you read it", "MultiEdit", "file_path", "f", "edits",
		[]any{map[string]any{"old_string": "two", "new_string": "1"}})
	if got := content(t, dir, "f"); got != "two\n" {
		t.Errorf("the file: %q", got)
	}
	a.ok(t, "Read", "file_path", "f")
	a.ok(t, "Edit", "file_path", "f", "old_string", "two", "new_string", "three")
	a.ok(t, "Write", "file_path", "f", "content", "four\n")
	if got := content(t, dir, "f"); got != "four\n" {
		t.Errorf("the file: %q", got)
	}
}

func TestMultiEditMakesAllEditsOrNone(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"f": "a b c\n"})
	b := open(t, dir, nil, "")
	b.ok(t, "Read", "file_path", "f")
	edits := func(pairs ...string) []any {
		var all []any
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, map[string]any{"old_string": pairs[i], "new_string": pairs[i+1]})
		}
		return all
	}
	b.refused(t, "edit 2 of 2: old_string does not occur", "MultiEdit", "file_path", "f", "edits", edits("a", "x", "a", "y"))
	b.refused(t, "None of the edits was made", "MultiEdit", "file_path", "f", "edits", edits("a", "x", "a", "y"))
	b.refused(t, "give at least one", "MultiEdit", "file_path", "f", "edits", []any{})
	b.refused(t, "edits", "MultiEdit", "file_path", "f", "edits", []any{map[string]any{"old_string": "a", "new_string": "b", "extra": 1}})
	if got := content(t, dir, "f"); got != "a b c\n" {
		t.Fatalf("the file: %q", got)
	}
	b.ok(t, "MultiEdit", "file_path", "f", "edits", edits("a", "x", "x b", "y", "c\n", "z"))
	if got := content(t, dir, "f"); got != "y z" {
		t.Errorf("the file: %q", got)
	}
}

func TestLineEndsAndEncodingsStay(t *testing.T) {
	dir := t.TempDir()
	utf16le := "\xff\xfea\x00\r\x00\n\x00\xe4\x00\n\x00"
	write(t, dir, map[string]string{
		"crlf": "one\r\ntwo\r\nthree\r\n", "mixed": "one\ntwo\r\nthree\n", "bom": "\ufeffone\ntwo\n",
		"le": utf16le, "be": "\xfe\xff\x00a\x00\n", "latin": "caf\xe9\nx\n", "odd": "\xff\xfea\x00b", "lone": "\xff\xfe\x00\xd8a\x00",
	})
	b := open(t, dir, nil, "")
	for _, c := range []struct{ name, read, old, new, want string }{
		{"crlf", "     1\tone\n     2\ttwo\n     3\tthree\n", "one\ntwo", "1\n1.5\n2", "1\r\n1.5\r\n2\r\nthree\r\n"},
		{"mixed", "", "two\nthree", "2\n3", "one\n2\r\n3\n"},
		{"bom", "     1\tone\n     2\ttwo\n", "one\n", "1\n", "\ufeff1\ntwo\n"},
		{"le", "     1\ta\n     2\tä\n[The file is UTF-16, little-endian.]", "a\nä", "b\nö", "\xff\xfeb\x00\r\x00\n\x00\xf6\x00\n\x00"},
		{"be", "", "a", "bc", "\xfe\xff\x00b\x00c\x00\n"},
		{"latin", "     1\tcaf\ufffd\n     2\tx\n[The file is not valid UTF-8, perhaps Latin-1.]", "x", "y", "caf\xe9\ny\n"},
	} {
		if got := b.ok(t, "Read", "file_path", c.name); c.read != "" && got != c.read {
			t.Errorf("%s: read %q, want %q", c.name, got, c.read)
		}
		b.ok(t, "Edit", "file_path", c.name, "old_string", c.old, "new_string", c.new)
		if got := content(t, dir, c.name); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	b.refused(t, "only ASCII", "Edit", "file_path", "latin", "old_string", "y", "new_string", "ü")
	for _, name := range []string{"odd", "lone"} {
		b.call(t, "Read", "file_path", name)
		b.refused(t, "UTF-16", "Edit", "file_path", name, "old_string", "a", "new_string", "b")
	}
}

func TestWriteKeepsTheFormOfTheFile(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"crlf": "one\r\ntwo\r\n", "bom": "\ufeffone\n", "both": "\ufeffone\r\n", "le": "\xff\xfea\x00\r\x00\n\x00",
		"mixed": "a\r\nb\n", "latin": "caf\xe9\n", "none": ""}
	write(t, dir, files)
	b := open(t, dir, nil, "")
	for name, want := range map[string]string{
		"crlf": "x\r\nü\r\n", "bom": "\ufeffx\nü\n", "both": "\ufeffx\r\nü\r\n", "le": "\xff\xfex\x00\r\x00\n\x00\xfc\x00\r\x00\n\x00",
		"mixed": "x\nü\n", "latin": "x\nü\n", "none": "x\nü\n", "new": "x\nü\n",
	} {
		for range 2 { // the second time the agent knows the file
			said := b.ok(t, "Write", "file_path", name, "content", "x\nü\n")
			if got := content(t, dir, name); got != want || strings.Contains(said, "It keeps") != (want != "x\nü\n") {
				t.Errorf("%s: got %q, want %q; the model is told %q", name, got, want, said)
			}
		}
		b.ok(t, "Edit", "file_path", name, "old_string", "ü", "new_string", "u") // it knows what it wrote
	}
	if b.ok(t, "Write", "file_path", "crlf", "content", "a\r\nb\n"); content(t, dir, "crlf") != "a\r\nb\n" {
		t.Error("content with line ends of its own was changed")
	}
}

// Edits of one file by several calls and agents do not undo each other.
func TestEditsBesideEachOtherAreAllMadeOrRefused(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	for i := range 8 {
		text.WriteString("line " + string(rune('a'+i)) + "\n")
	}
	write(t, dir, map[string]string{"f": text.String()})
	b := open(t, dir, permission.Chain{{Policy: permission.Permissive()}}, "")
	b.ok(t, "Read", "file_path", "f")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			c := string(rune('a' + i))
			b.ok(t, "Edit", "file_path", "f", "old_string", "line "+c, "new_string", "LINE "+c)
		})
	}
	wg.Wait()
	if got := content(t, dir, "f"); got != strings.ReplaceAll(text.String(), "line", "LINE") {
		t.Errorf("the file: %q", got)
	}
}
