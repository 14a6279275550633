//go:build linux

package symbiotest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Block is a fenced block of a page. Its info string is a language and words, such as "sh node" or "yaml file=a.yaml".
//
// Words of a shell block (sh) say how a test runs it; without one it is run and has to succeed:
//
//	node          each line starts a node in a terminal of its own; with wait=NAME until node desk sees that capability
//	background    it is started, and has to succeed before the page ends
//	live          it is ended by Ctrl-C after its first line of output
//	answer=TEXT   it is run on a terminal, on which a person answers TEXT
//	exit=N        it ends with that status
//	not-run=WHY   it is not run; cmd/symbio/docs_test.go counts them
//
// A block "text output" has lines that the commands before it print, in any order; "…" stands for any text, and digits
// for any digits. A block with file=NAME, which the text above it names, is written to that file. Other YAML blocks
// are configurations that can be read. A Go block is a part of the file that from=NAME names.
type Block struct {
	Lang, Text string
	Before     string // the text above the block, since the block before
	Words      map[string]string
	Line       int
}

var Fence = regexp.MustCompile("(?m)^```(.*)\n((?s:.*?))^```$")

// BlocksOf returns the blocks of a page, in order.
func BlocksOf(page string) []Block {
	var all []Block
	end := 0
	for _, at := range Fence.FindAllStringSubmatchIndex(page, -1) {
		words := strings.Fields(page[at[2]:at[3]])
		b := Block{Text: page[at[4]:at[5]], Before: page[end:at[0]], Words: map[string]string{}, Line: strings.Count(page[:at[0]], "\n") + 1}
		for i, word := range words {
			if name, value, _ := strings.Cut(word, "="); i > 0 {
				b.Words[name] = value
			} else {
				b.Lang = word
			}
		}
		all, end = append(all, b), at[1]
	}
	return all
}

func (b Block) Has(word string) bool { _, ok := b.Words[word]; return ok }

// Pages returns the texts of README.md and of the pages in cmd/symbio/docs, by their path from root, which is the path of
// the repository's root from the directory of the test.
func Pages(t *testing.T, root string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "cmd/symbio/docs/*.md"))
	if err != nil || len(files) == 0 {
		t.Fatal("there are no pages", err)
	}
	all := map[string]string{}
	for _, file := range append(files, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	return all
}
