package choice_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"symbio/internal/skills/choice"
	"symbio/skills"
	"symbio/skills/format"
)

func keys(t *testing.T, b choice.Book) string {
	t.Helper()
	all, err := b.All()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(choice.Choices(all).Disabled, " ")
}

func TestBookKeepsWhatIsOff(t *testing.T) {
	b := choice.NewBook(filepath.Join(t.TempDir(), "deep", "off"))
	if got := keys(t, b); got != "" {
		t.Errorf("a new book has %q", got)
	}
	for _, k := range []string{"notes", "/p/.agents/skills/x/SKILL.md", "notes"} {
		if err := b.Disable(k); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := keys(t, b), "/p/.agents/skills/x/SKILL.md notes"; got != want {
		t.Errorf("off are %q, want %q", got, want)
	}
	if err := b.Enable("notes"); err != nil {
		t.Fatal(err)
	}
	if err := b.Enable("notes"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a choice that is not there is taken back: %v", err)
	}
	if got, want := keys(t, b), "/p/.agents/skills/x/SKILL.md"; got != want {
		t.Errorf("off are %q, want %q", got, want)
	}
}

func TestChoiceByNameHoldsForAllOfThatName(t *testing.T) {
	b := choice.NewBook(t.TempDir())
	if err := errors.Join(b.Disable("notes"), b.Disable("/a/x/SKILL.md")); err != nil {
		t.Fatal(err)
	}
	all, err := b.All()
	if err != nil {
		t.Fatal(err)
	}
	c := choice.Choices(all)
	for path, want := range map[string]skills.Exposure{"/a/notes/SKILL.md": skills.Off, "/b/notes/SKILL.md": skills.Off} {
		if got := c.Exposure(skills.Skill{Manifest: format.Manifest{Name: "notes"}, Path: path}); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	for path, want := range map[string]skills.Exposure{"/a/x/SKILL.md": skills.Off, "/b/x/SKILL.md": skills.On} {
		if got := c.Exposure(skills.Skill{Manifest: format.Manifest{Name: "x"}, Path: path}); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

func TestSpoiltChoiceCostsOnlyItself(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "off")
	b := choice.NewBook(dir)
	if err := b.Disable("notes"); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"aa.json": "{", "bb.json": `{"skill":"other"}`, "note.txt": "no choice"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "dd.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "dd.json"), 0o666); err != nil { // others may write it
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "cc.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	all, err := b.All()
	if len(all) != 1 || all[0].Skill != "notes" {
		t.Errorf("read %v, want notes alone", all)
	}
	for _, name := range []string{"aa.json", "bb.json", "dd.json"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the error %v does not name %s", err, name)
		}
	}
}

func TestManyProcessesMayChooseAtOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for _, k := range []string{"a", "b", "c", "d", "a", "b"} {
		wg.Go(func() {
			if err := choice.NewBook(dir).Disable(k); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got, want := keys(t, choice.NewBook(dir)), "a b c d"; got != want {
		t.Errorf("off are %q, want %q", got, want)
	}
}
