package visible

import (
	"fmt"
	"strings"
	"time"
)

// minPrefix is how many characters of an id name a thing at least. Fewer match by accident.
const minPrefix = 6

// IsID reports whether a person means the thing with that id by what they typed: the id, or its first
// characters, at least 6. Several things can have ids that begin so.
func IsID(typed, id string) bool {
	return typed == id || len(typed) >= minPrefix && strings.HasPrefix(id, typed)
}

// IsNamed reports whether a person means the thing with that name and id by what they typed: the name, or
// the id as IsID takes it.
func IsNamed(typed, name, id string) bool { return typed == name || IsID(typed, id) }

// Duration returns a duration as people say it, if it is a whole number of days, hours or minutes: "1 hour", "90 minutes".
func Duration(d time.Duration) string {
	switch day := 24 * time.Hour; {
	case d%day == 0:
		return Plural(int(d/day), "day")
	case d%time.Hour == 0:
		return Plural(int(d/time.Hour), "hour")
	case d%time.Minute == 0:
		return Plural(int(d/time.Minute), "minute")
	}
	return d.String()
}

// Plural returns a number of things: "1 skill", "2 skills", "0 directories". what must form its plural with "s", or "ies" for
// a "y" after a consonant.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, is := strings.CutSuffix(what, "y"); is && stem != "" && !strings.ContainsRune("aeiou", rune(stem[len(stem)-1])) {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
