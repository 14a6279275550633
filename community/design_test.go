package community_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxNoteLines is how long a page of community/design may be: longer notes are not read.
const maxNoteLines = 60

func TestDesignNotesAreNumberedAndListed(t *testing.T) {
	index, err := os.ReadFile("design/README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("design/*.md")
	if err != nil {
		t.Fatal(err)
	}
	numbered, next := regexp.MustCompile(`^\d{4}-`), 1
	for _, path := range pages {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		title, _, _ := strings.Cut(strings.TrimPrefix(string(page), "# "), "\n")
		if numbered.MatchString(name) {
			if want := fmt.Sprintf("%04d", next); !strings.HasPrefix(name, want) || !strings.HasPrefix(title, want+" ") {
				t.Errorf("%s: the file and its title %q want the number %s", name, title, want)
			}
			next++
		}
		if link := "[" + title + "](" + name + ")"; name != "README.md" && !strings.Contains(string(index), link) {
			t.Errorf("design/README.md has no link %s", link)
		}
		if lines := strings.Count(string(page), "\n"); lines > maxNoteLines && name != "README.md" { // the index has a line for each note
			t.Errorf("%s has %d lines, want at most %d", name, lines, maxNoteLines)
		}
	}
}
