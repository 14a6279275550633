//go:build unix

package workcontext_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/conversation"
	"symbio/internal/agent/workcontext"
)

// A look at a path below an automounter calls the machine that it names. So what is there and what is not are the same.
func TestImportsLookAtNothingOutside(t *testing.T) {
	outside, repo := t.TempDir(), t.TempDir()
	write(t, outside, map[string]string{"there.md": "MARK"})
	write(t, repo, map[string]string{".git/HEAD": "", "link.md": "->" + outside + "/there.md", "gone.md": "->" + outside + "/gone.md", "d": "->" + outside})
	texts := map[string]string{}
	for _, name := range []string{"there.md", "gone.md"} {
		write(t, repo, map[string]string{"CLAUDE.md": "@" + outside + "/" + name + " @../" + filepath.Base(outside) + "/" + name + " @d/" + name + " @" + strings.Replace(name, "there", "link", 1)})
		parts, leftOut := workcontext.Files(repo, "", 0, func(string, bool) string { return "" })
		texts[name] = fmt.Sprint(len(parts), len(leftOut))
	}
	if texts["there.md"] != "1 1" || texts["gone.md"] != "1 1" {
		t.Errorf("a text finds out whether a file is there: %q", texts)
	}
}

func TestFilesImportWhatIsTheirs(t *testing.T) {
	many := map[string]string{"CLAUDE.md": "@1.md"}
	for i := 1; i < 9; i++ {
		many[fmt.Sprintf("%d.md", i)] = fmt.Sprintf("x @%d.md", i+1)
	}
	lots := ""
	for i := range 110 {
		lots += fmt.Sprintf("@files/%d.md ", i)
	}
	for name, c := range map[string]struct {
		user string // the person's file
		repo map[string]string
		want string // the texts that are there, of those with MARK
		said int    // how many imports are named as left out
	}{
		"path of the file":        {"", map[string]string{"CLAUDE.md": "See @docs/g.md, and @docs/g.md.", "docs/g.md": "MARK1 @h.md", "docs/h.md": "MARK2"}, "MARK1 MARK2", 0},
		"cycle":                   {"", map[string]string{"CLAUDE.md": "MARK1 @a.md", "a.md": "MARK2 @CLAUDE.md @a.md"}, "MARK1 MARK2", 0},
		"code":                    {"", map[string]string{"AGENTS.md": "`@a.md` ``x ` @a.md``\n```sh\n@a.md\n~~~\n@a.md\n```\n~~~~\n@a.md\n~~~\n@a.md\n~~~~\nme@a.md `@a.md @b.md\n", "a.md": "MARK1", "b.md": "MARK2"}, "MARK2", 0},
		"local, and in .claude":   {"", map[string]string{".claude/CLAUDE.md": "MARK1", "CLAUDE.local.md": "MARK2"}, "MARK1 MARK2", 0},
		"home, by a project":      {"", map[string]string{"CLAUDE.md": "@~/notes.md @../../notes.md @HOME/notes.md @HOME/.ssh/id @up.md @abs.md", "up.md": "->../../notes.md", "abs.md": "->/etc/passwd"}, "", 4},
		"denied, or asked":        {"", map[string]string{"CLAUDE.md": "@denied.md @link.md @asked.md @asked.md @~/denied.md", "denied.md": "MARK1", "link.md": "->denied.md", "asked.md": "MARK2"}, "", 4},
		"asked in a directory":    {"", map[string]string{"CLAUDE.md": "MARK1 @sub/asked.md", "sub/asked.md": "MARK2"}, "MARK1", 1},
		"words that are no files": {"", map[string]string{"CLAUDE.md": strings.Repeat("@word @scope/word @/ @~ ", 200) + "@a.md", "a.md": "MARK1"}, "MARK1", 0},
		"too many":                {"", map[string]string{"CLAUDE.md": lots, "dir/x": ""}, "", 1},
		"no file":                 {"", map[string]string{"CLAUDE.md": "MARK1 @ @pipe @dir @none @. @/", "dir/x": ""}, "MARK1", 0},
		"home, by the person":     {"MARK1 @~/notes.md @own.md @~/.ssh/id @~/key.md @/etc/passwd", nil, "MARK1 MARK5 MARK6", 2},
		"left out many times":     {"", map[string]string{"CLAUDE.md": strings.Repeat("@denied.md ", 200) + "@a.md", "denied.md": "", "a.md": "MARK1"}, "MARK1", 1},
		"home, by a clone's file": {"@~/src/repo/a.md", map[string]string{"a.md": "MARK1 @~/notes.md @b.md", "b.md": "MARK2"}, "MARK1 MARK2", 1},
		"five levels":             {"", many, "5 levels", 1},
	} {
		t.Run(name, func(t *testing.T) {
			real, home := t.TempDir(), filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(real, home); err != nil {
				t.Fatal(err)
			}
			t.Setenv("HOME", home)
			repo, user := filepath.Join(home, "src/repo"), filepath.Join(home, ".config/symbio")
			write(t, home, map[string]string{"notes.md": "MARK5", ".ssh/id": "MARK7", "denied.md": "MARK8", "key.md": "->.ssh/id"})
			write(t, user, map[string]string{"AGENTS.md": c.user, "own.md": "MARK6"})
			write(t, repo, map[string]string{".git/HEAD": ""})
			for file, text := range c.repo {
				write(t, repo, map[string]string{file: strings.ReplaceAll(text, "HOME", home)})
			}
			if err := syscall.Mkfifo(filepath.Join(repo, "pipe"), 0o600); err != nil {
				t.Fatal(err)
			}
			if name == "too many" {
				for i := range 110 {
					write(t, repo, map[string]string{fmt.Sprintf("files/%d.md", i): "x"})
				}
			}
			parts, leftOut := workcontext.Files(repo, user, 0, func(file string, imported bool) string {
				if base := filepath.Base(file); base == "denied.md" || imported && base == "asked.md" {
					return "a rule denies it"
				}
				return ""
			})
			if len(leftOut) != c.said {
				t.Errorf("%d are said to be left out: %q", len(leftOut), leftOut)
			}
			for _, why := range leftOut {
				if !slices.ContainsFunc(parts, func(p conversation.Part) bool { return strings.Contains(p.Text, "["+why+"]") }) {
					t.Errorf("the model is not told: %s", why)
				}
			}
			var got []string
			for _, p := range parts {
				for word := range strings.FieldsSeq(p.Text) {
					if strings.HasPrefix(word, "MARK") {
						got = append(got, word)
					}
				}
				if strings.Contains(p.Text, "root:") {
					t.Error("a file of the system")
				}
			}
			if name == "five levels" {
				got = []string{fmt.Sprintf("%d levels", len(parts)-1)}
			}
			if d := cmp.Diff(c.want, strings.Join(got, " ")); d != "" {
				t.Errorf("%v: %s", names(parts), d)
			}
		})
	}
}
