package terminal

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestRowsBreakAtSpaces(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"one two three", []string{"one two", "three"}},
		{"incomprehensible", []string{"incompreh", "ensible"}},
		{"日本語日本語", []string{"日本語日", "本語"}},
		{"a\n\nb\n", []string{"a", "", "b"}},
		{"", []string{""}},
		{"a-long-name of it", []string{"a-long-", "name of", "it"}},
		{"one two   three", []string{"one two", "three"}},
	} {
		if got := Rows(c.text, 10); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) {
			t.Errorf("%q is %q, want %q", c.text, got, c.want)
		}
	}
}

func TestTableFitsTerminal(t *testing.T) {
	all := [][]string{
		{"NAME", "SCOPE", "STATE", "DESCRIPTION", "OFF BY"},
		{"release-notes", "project", "enabled", "Writes the notes of a release from the log of commits, and asks when it is unsure.", ""},
		{"日本語の名前", "user", "off", "Short.", "skills.disabled"},
	}
	for columns, want := range map[int][]string{
		200: {"NAME", "OFF BY", "and asks when it is unsure."},
		80:  {"NAME", "OFF BY", "release-notes  project", "unsure."},
		40:  {"NAME", "SCOPE", "STATE", "release-"},
		5:   {"NAME"},
	} {
		got := strings.Join(slices.Collect(Align(slices.Values(all), columns)), "\n")
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("at %d columns %q is missing in\n%s", columns, w, got)
			}
		}
		for line := range strings.SplitSeq(got, "\n") {
			if Width(line) >= columns || strings.HasSuffix(line, " ") {
				t.Errorf("at %d columns the line %q", columns, line)
			}
		}
	}
	if got := strings.Join(slices.Collect(Align(slices.Values(all), 80)), "\n"); !strings.Contains(got, "a release") || strings.Contains(got, "rele\n") {
		t.Errorf("words are broken:\n%s", got)
	}
}

func TestLongTableBeginsBeforeItsEnd(t *testing.T) {
	read := 0
	rows := func(yield func([]string) bool) {
		for yield([]string{"name", strings.Repeat("a", 1+read/measured*50)}) {
			read++
		}
	}
	printed := 0
	for line := range Align(rows, 20) {
		if printed == 0 && read >= measured {
			t.Errorf("%d rows were read for the first", read)
		}
		for row := range strings.SplitSeq(line, "\n") {
			if Width(row) >= 20 {
				t.Fatalf("row %d is too wide: %q", printed, row)
			}
		}
		if printed++; printed == 3*measured {
			break
		}
	}
	if printed != 3*measured || read != printed-1 {
		t.Errorf("%d rows printed, %d read", printed, read)
	}
}

func TestFitCountsWideCharacters(t *testing.T) {
	for text, want := range map[string]string{"abcdef": "abcd", "日本語": "日本", "a日本": "a日", "ab": "ab", "": "", "a\x1b[31mb": "a[31"} {
		if got := Fit(text, 5); got != want {
			t.Errorf("%q fits as %q, want %q", text, got, want)
		}
	}
}
