package shell_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"symbio/internal/security/permission/shell"
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
		ignore := []cmp.Option{cmpopts.IgnoreUnexported(shell.Command{}, shell.Program{}), cmpopts.EquateEmpty(),
			cmp.Transformer("source", func(w shell.Word) shell.Word {
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

func TestDirectoryIsASet(t *testing.T) {
	for text, want := range map[string]string{
		"x": " ", "cd a; x": " a", "cd a; cd b; x": " a b a/b", "cd ..; x": " ..", "(cd a); x": " a", "cd a | y; x": " a", "cd /; x": " /", "cd ~; x": " ~",
		"cd -; x": " …", "cd $A; x": " …", "{ cd a; }; x": " a", "if cd a; then :; fi; x": " a", "cd a & x": " a", "cd ./a/../b; x": " b", "source y; x": " …",
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
