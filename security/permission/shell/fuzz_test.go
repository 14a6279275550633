package shell_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"symbio/security/permission/shell"
)

// Whatever the text: no panic, what is printed is a program that prints as itself, and the analysis of
// the print is the analysis of the text.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"git status; rm -rf ~", "git status # x \\\nrm -rf .", "a+=$[0x1 2", "cat <<EOF\n$(x)\nEOF\n", "echo {a,b}{c,d}", "f() { x; }; f", "x=$(y) z",
		"\"$(cat <<'EOF'\na\nEOF\n)\"", "find . -exec a {} \\;", "env -S 'a b' c", "trap 'a' EXIT", "cd a && b > ../c", "$'\\x41' `b`", "[[ a -eq b ]]", "((a[b]++))",
		"for i in a; do b; done", "case a in b) c;; esac", "coproc a b", "a <<<b >&c {d}>e", "sh -c 'bash -c \"a\"'", "xargs -I{} a {}", "timeout 5 nice a", "a\x00b", "a\r\nb", "{a..b}", "~/a",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := shell.Parse(text)
		for i, c := range p.Commands {
			if len(c.Words) == 0 || c.Outer >= i {
				t.Fatalf("%q: command %d is %+v", text, i, c)
			}
			shell.Guard(c, 1)
			shell.Uses(c)
		}
		if p.Canonical == "" {
			if !p.Runs() || p.Hard() == "" {
				t.Fatalf("%q cannot be printed, and it is not said why", text)
			}
			return
		}
		again := shell.Parse(p.Canonical)
		if again.Canonical != p.Canonical {
			t.Fatalf("%q is printed as %q and then as %q", text, p.Canonical, again.Canonical)
		}
		if p.Hard() != "" {
			return
		}
		if again.Hard() != "" && len(p.Canonical) > shell.MaxBytes {
			return // the print is longer than the text
		}
		ignore := []cmp.Option{cmpopts.IgnoreUnexported(shell.Command{}, shell.Program{}), cmpopts.EquateEmpty(), cmp.Transformer("source", func(w shell.Word) shell.Word {
			if w.Dynamic {
				w.Text = "" // how it was written: here-documents and blanks in it are printed anew
			}
			return w
		})}
		if diff := cmp.Diff(p, again, ignore...); diff != "" {
			t.Fatalf("%q, printed as %q, reads differently:\n%s", text, p.Canonical, diff)
		}
	})
}

// The analysis is pure: a guard that is asked twice says the same, and knows nothing of case or place.
func TestGuardsMeanPrograms(t *testing.T) {
	for text, want := range map[string]bool{
		"find . -delete": true, "find . -name x": false, "/usr/bin/find . -delete": true, "git -c a=b log": true, "git log": false,
		"sort -o x": true, "sort -k2": false, "sed 's/a/b/w x' y": true, "sed s/a/b/ y": false, "nothing -o x --exec": false, "git-log --output=x": true,
		"go build -o /dev/null": false, "go build -o /tmp/x": false, "go build -o a/x": false, "go build -o /etc/x": true, "go build -o ../x": true, "go build -o /tmp/../x": true, "go build -o ~/x": true, "go build -o": true,
	} {
		c := shell.Parse(text).Commands[0]
		if got := shell.Guard(c, 1); (got != "") != want {
			t.Errorf("%s: got %q, want a reason: %v", text, got, want)
		}
	}
	if got := shell.Guard(shell.Parse("find . -delete").Commands[0], 3); got != "" {
		t.Errorf("a rule that spells -delete: got %q, want it covered", got)
	}
}

func TestDirectoryIsASet(t *testing.T) {
	for text, want := range map[string]string{
		"x": " ", "cd a; x": " a", "cd a; cd b; x": " a b a/b", "cd ..; x": " ..", "(cd a); x": " ", "cd a | y; x": " ", "cd /; x": " /", "cd ~; x": " ~",
		"cd -; x": " …", "cd $A; x": " …", "pushd a; x": " …", "{ cd a; }; x": " a", "if cd a; then :; fi; x": " a", "cd a & x": " ", "cd ./a/../b; x": " b", "source y; x": " …",
	} {
		p := shell.Parse(text)
		d := p.Commands[len(p.Commands)-1].Dirs
		got := strings.Join(d.Paths, " ")
		if !strings.HasPrefix(got, " ") {
			got = " " + got
		}
		if d.Unknown {
			got = " …"
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestSedAndAwkProgramsAreReadWithAPositiveList(t *testing.T) {
	for text, want := range map[string]bool{
		`sed p`: true, `sed 1,5p`: true, `sed '/a/,/b/d'`: true, `sed 's/a/b/g;s|c|d|'`: true, `sed 'y/a/b/'`: true, `sed '$!N'`: true, `sed -n '/x/{p;q}'`: true,
		`sed 'w x'`: false, `sed e`: false, `sed 's/a/b/e'`: false, `sed 's/a/b/w x'`: false, `sed 'r x'`: false, `sed '1!G;h;$!d'`: true, `sed 's/a/b'`: false, `sed 'a x'`: false, `sed '1{e}'`: false,
		`awk '{print $1}'`: true, `awk '$1>2'`: true, `awk '{print>"x"}'`: false, `awk '{print|"x"}'`: false, `awk 'a||b'`: true, `awk '{system(x)}'`: false, `awk '"x"|getline'`: false, `awk '/a"/{system("x")}'`: false,
	} {
		if got := shell.Guard(shell.Parse(text).Commands[0], 1); (got == "") != want {
			t.Errorf("%s: got %q, want it plain: %v", text, got, want)
		}
	}
}

// A comparison of what only the shell knows does nothing by itself, if its number of words and its operator are certain.
func TestComparisonsThatAreCertainAreFree(t *testing.T) {
	for text, want := range map[string]bool{
		"[ x ]": true, "[ -n x ]": true, "[ a = b ]": true, `[ "$a" = b ]`: true, "[ ! -f x ]": true, "test -f x": true, `test "$a" -eq "$b"`: true, `test "$a" -gt 0`: true, "[ ! a = b ]": true,
		`[ "$a" = b`: false, `[ "$a" = b c`: false, "[ $a = b ]": false, `[ "$a" "$b" ]`: false, `[ a "$b" c ]`: false, "[ -v a ]": false, `[ -v "x$a" ]`: false, `[ a -a "x$b" -a c ]`: false,
		`test a -eq "$b"`: false, `[ 1 -lt 'a[0]' ]`: false, "[ -v 'a[0]' ]": false,
	} {
		p := shell.Parse(text)
		if got := p.Commands[0].Free && len(p.Problems) == 0; got != want {
			t.Errorf("%s: free is %t, want %t; %v", text, got, want, p.Problems)
		}
	}
}
