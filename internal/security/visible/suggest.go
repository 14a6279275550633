package visible

import (
	"fmt"
	"slices"
	"strings"
)

// Suggest returns the end of a message about an unknown name: `; did you mean "Write"?`. It takes
// the name of known that differs in the fewest letters, regardless of case, up to 1 plus a third of
// the length of name; of several one of the same length, else the first in order. If none is that near, it takes the only one
// that begins with name, if name has 3 bytes at least. It returns "" if no name is near.
func Suggest(name string, known []string) string {
	// A name that differs in more letters is another word.
	best, least := "", 2+len(name)/3
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := EditDistance(strings.ToLower(name), strings.ToLower(k), least+1); d < least || d == least && best != "" && len(best) != len(name) && len(k) == len(name) {
			best, least = k, d
		}
	}
	if best == "" && len(name) > 2 {
		longer := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.HasPrefix(k, name) })
		if len(longer) == 1 {
			best = longer[0]
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// EditDistance counts the bytes to insert, delete, replace or swap with the next to make b of a, up
// to limit (the Damerau-Levenshtein distance with adjacent swaps, optimal string alignment). It
// keeps three rows of the table, not all of it: its time is len(a)*len(b).
func EditDistance(a, b string, limit int) int {
	// The distance is at least the difference of the lengths.
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+1)
			if a[i] == b[j] {
				next[j+1] = min(next[j+1], row[j])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return min(row[len(b)], limit)
}
