package builtin

import (
	"fmt"
	"strings"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
)

const (
	// maxCompared limits the search for a similar text: the product of the two numbers of lines.
	maxCompared = 2_000_000
	// minSimilarity is the average similarity of lines, from 0 to 1, below which nothing is
	// suggested.
	minSimilarity = 0.5
	// maxClosest limits the lines of the similar text that are shown.
	maxClosest = 40
)

// numbered matches the line numbers that Read puts in front of lines, which models sometimes copy.
var numbered = lazyregexp.New(`(?m)^ *[0-9]+\t`)

// closest returns advice for an old_string that does not occur in text: the part of text that is
// most similar, and the first line that differs. It is a part of an error message, without a full
// stop at its end.
func closest(text, old string) string {
	const again = "Read the file again and copy the text exactly"
	text, old = strings.ReplaceAll(text, "\r\n", "\n"), strings.ReplaceAll(old, "\r\n", "\n")
	// The most frequent mistake has an answer of its own: the numbers of Read were copied.
	if plain := numbered().ReplaceAllString(old, ""); plain != old && plain != "" && strings.Contains(text, plain) {
		return "It has the line numbers of Read in front of its lines, which are not part of the file: leave them out"
	}
	have, want := strings.Split(text, "\n"), strings.Split(strings.Trim(old, "\n"), "\n")
	at := mostSimilar(have, want)
	if at < 0 {
		return again
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The closest to it is at line %d:\n", at+1)
	differ := -1
	for i := range min(len(want), len(have)-at) {
		if i < maxClosest {
			fmt.Fprintf(&b, "%6d\t%s\n", at+i+1, cutLine(have[at+i]))
		}
		if differ < 0 && have[at+i] != want[i] {
			differ = i
		}
	}
	if differ >= 0 {
		// Differences in white space are hard to see, so they are named.
		kind := "They differ"
		if strings.Join(strings.Fields(have[at+differ]), "") == strings.Join(strings.Fields(want[differ]), "") {
			kind = "Only white space differs"
		}
		fmt.Fprintf(&b, "%s, first in line %d: the file has %q, old_string has %q. ", kind, at+differ+1, cutLine(have[at+differ]), cutLine(want[differ]))
	}
	b.WriteString(again)
	return b.String()
}

// cutLine returns a line for display, cut to maxShown bytes.
func cutLine(line string) string {
	return visible.Truncate(strings.ToValidUTF8(line, "\uFFFD"), maxShown)
}

// mostSimilar returns the index in have of the lines that are most similar to want; -1 if none are
// similar enough or if the search would take too long. Its cost is the product of the lengths of
// have and want, which maxCompared limits.
func mostSimilar(have, want []string) int {
	if len(have)*len(want) > maxCompared {
		return -1
	}
	best, at := minSimilarity*float64(len(want)), -1
	for i := range have {
		sum := 0.0
		for j := range min(len(want), len(have)-i) {
			sum += similarity(have[i+j], want[j])
		}
		if sum > best {
			best, at = sum, i
		}
	}
	return at
}

// similarity compares two lines by their common beginning and end: 1 means equal, 0 nothing in
// common. Lines that differ in white space at their ends only get 0.95, so that they rank right
// below equal ones. It is no edit distance, which would cost the square of the length.
func similarity(a, b string) float64 {
	if a == b {
		return 1
	}
	a, b = strings.TrimSpace(a), strings.TrimSpace(b)
	if a == b {
		return 0.95
	}
	shorter, longer := min(len(a), len(b)), max(len(a), len(b))
	// A long line costs no more than maxShown comparisons.
	shorter = min(shorter, maxShown)
	head := 0
	for head < shorter && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < shorter-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return 0.9 * float64(head+tail) / float64(longer)
}
