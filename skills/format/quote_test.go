package format_test

import (
	"testing"

	"symbio/skills/format"
)

func TestQuoteFieldQuotesItsOwnText(t *testing.T) {
	front := "---\ndescription: |\n  see a: b: c\na: b: c\nname: x\n"
	if got, want := string(format.QuoteField([]byte(front), "a")), "---\ndescription: |\n  see a: b: c\na: 'b: c'\nname: x\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLevelOfTwoDirectoriesIsTheStrictest(t *testing.T) {
	for range 20 { // the order of a map
		p := format.Policy{Levels: map[string]format.Level{"/a": format.Lenient, "/b": format.Strict, "/c": format.Standard}}.In("/a/s",
			"/b/s", "/c/s")
		if p.Level != format.Strict {
			t.Fatalf("got %v", p.Level)
		}
	}
}
