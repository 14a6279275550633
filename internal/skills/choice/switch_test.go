package choice_test

import (
	"testing"

	"symbio/internal/skills/choice"
)

type named struct{ name, path string }

func (n named) GetName() string { return n.name }
func (n named) GetPath() string { return n.path }

func TestSwitchWritesChoicesByNameAndPath(t *testing.T) {
	book := choice.NewBook(t.TempDir())
	s := choice.Switch[named]{Book: book, All: []named{{"one", "/a/one/SKILL.md"}, {"two", "/a/two/SKILL.md"}, {"two", "/b/two/SKILL.md"}}}
	set := func(arg string, on bool) {
		t.Helper()
		if err := s.Set(arg, on); err != nil {
			t.Fatal(err)
		}
		var err error
		if s.Off, err = book.All(); err != nil {
			t.Fatal(err)
		}
	}
	set("/a/one", false) // the directory stands for its SKILL.md
	if got := keys(t, book); got != "/a/one/SKILL.md" {
		t.Errorf("off are %q", got)
	}
	set("one", true)
	set("one", false)
	set("/a/one/SKILL.md", true) // no other skill has the name
	set("two", false)
	set("/b/two/SKILL.md", true)
	if got := keys(t, book); got != "two" || !s.IsOff("two") {
		t.Errorf("off are %q, want two, because another skill has the name", got)
	}
}
