package definition

import (
	"fmt"
	"slices"
	"strings"
)

// suggest returns the end of a message about an unknown name: the known name that was probably meant, or the known names.
func suggest(name string, of []string) string {
	best, least := "", 2+len(name)/3 // more wrong letters than that are another word
	for _, one := range slices.Sorted(slices.Values(of)) {
		if d := editDistance(strings.ToLower(name), strings.ToLower(one), least); d < least {
			best, least = one, d
		}
	}
	if best == "" && len(name) > 2 {
		if begun := slices.DeleteFunc(slices.Clone(of), func(one string) bool { return !strings.HasPrefix(one, name) }); len(begun) == 1 {
			best = begun[0]
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf("; did you mean %q?", best)
	case len(of) == 0:
		return ""
	case len(of) <= maxListed:
		return fmt.Sprintf("; there are %s", strings.Join(slices.Sorted(slices.Values(of)), ", "))
	}
	return ""
}

// maxListed is how many names fit a message that a person reads at a glance.
const maxListed = 24

// editDistance counts the letters to insert, delete, replace or swap with the next to make b of a, up to limit.
func editDistance(a, b string, limit int) int {
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

// suggestNearest is suggest without the list of all names.
func suggestNearest(name string, of []string) string {
	if text := suggest(name, of); strings.Contains(text, "did you mean") {
		return text
	}
	return ""
}
