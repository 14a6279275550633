package format

import (
	"fmt"
	"strings"

	"golang.org/x/mod/semver"

	"symbio/security/visible"
)

const (
	// maxVersion limits the text of a version, in bytes.
	maxVersion = 64
	// maxComparators limits the comparators of one constraint.
	maxComparators = 8
)

// Version is a semantic version (semver.org). The zero Version is older than every other one. A
// Version is a value, and == compares versions with build metadata left out.
type Version struct{ canonical string }

// ParseVersion reads a version such as 1.2.3, v1.2.3-beta.1 or 1.2, which means 1.2.0. The Version
// beside an error is the zero Version.
func ParseVersion(text string) (Version, error) {
	canonical := ""
	if len(text) <= maxVersion {
		canonical = semver.Canonical("v" + strings.TrimPrefix(strings.TrimSpace(text), "v"))
	}
	if _, ok := numbers(canonical); !ok {
		return Version{}, fmt.Errorf("%q is not a version; write it as 1.2.3", visible.Line(text, maxVersion))
	}
	return Version{canonical}, nil
}

// String returns the version as 1.2.3, and "" for the zero Version.
func (v Version) String() string { return strings.TrimPrefix(v.canonical, "v") }

// Compare returns -1 if v is older than w, 0 if they are equal, and 1 if v is newer.
func (v Version) Compare(w Version) int { return semver.Compare(v.canonical, w.canonical) }

// Compare compares the texts of two versions as Version.Compare does. A text that is no version is
// older than every version.
func Compare(a, b string) int {
	v, _ := ParseVersion(a) // the zero Version is the oldest
	w, _ := ParseVersion(b)
	return v.Compare(w)
}

// Constraint is a set of versions. The zero Constraint allows all, and skills without a version. It
// may be used from many goroutines.
type Constraint struct {
	text string
	all  []comparator
}

// comparator is one condition of a constraint: a version from low on, and before high.
type comparator struct {
	low, high string // canonical; "" = no bound
	not       bool   // the versions outside of the two
}

// ParseConstraint reads conditions that are separated by blanks or commas and must all hold:
//
//	>=1.2 <2     from 1.2.0 on, before 2.0.0 and its previews
//	^1.2         1.2.0 and later, of the major version 1 (of 0.2: of the minor version)
//	~1.2         1.2.0 and later, of the minor version 1.2
//	1.2.3        exactly that; 1.2 is any 1.2.x, and != excludes
//
// An empty text is the zero Constraint, which stands beside an error as well.
func ParseConstraint(text string) (Constraint, error) {
	bad := func(why string) (Constraint, error) {
		return Constraint{}, fmt.Errorf("the constraint %q %s; write conditions such as >=1.2 <2", visible.Line(text, maxVersion), why)
	}
	var c Constraint
	operator := ""
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' }) {
		version := strings.TrimLeft(word, operators)
		operator += word[:len(word)-len(version)]
		if version == "" {
			continue // a blank stands between the operator and its version
		}
		one, ok := newComparator(operator, version)
		switch {
		case !ok:
			return bad("has a condition that cannot be read")
		case len(c.all) == maxComparators:
			return bad(fmt.Sprintf("has more than %d conditions", maxComparators))
		}
		c.all = append(c.all, one)
		c.text = strings.TrimSpace(c.text + " " + operator + version)
		operator = ""
	}
	if operator != "" {
		return bad("ends in an operator")
	}
	return c, nil
}

// operators are the characters of operators.
const operators = "<>=!^~"

// newComparator returns the comparator for an operator and a version; false if one of the two
// cannot be read.
func newComparator(operator, version string) (comparator, bool) {
	v, err := ParseVersion(version)
	if err != nil {
		return comparator{}, false
	}
	low, parts := v.canonical, min(strings.Count(version, "."), 2)
	end := next(low, parts) // of the versions that the text means: 1.2 is every 1.2.x
	if semver.Prerelease(low) != "" {
		end = low + ".0"
	}
	switch operator {
	case ">=":
		return comparator{low: low}, true
	case "<":
		return comparator{high: previews(low)}, true
	case "<=":
		return comparator{high: end}, true
	case ">":
		return comparator{low: end}, true
	case "^":
		if semver.Major(low) == "v0" {
			return comparator{low: low, high: next(low, 1)}, true
		}
		return comparator{low: low, high: next(low, 0)}, true
	case "~":
		return comparator{low: low, high: next(low, min(parts, 1))}, true
	case "", "=", "==", "!=":
		return comparator{low: low, high: end, not: operator == "!="}, true
	}
	return comparator{}, false
}

// next returns the first version, previews included, that has a larger number in a part: 0 is the
// major one.
func next(canonical string, part int) string {
	n, _ := numbers(canonical)
	n[part]++
	clear(n[part+1:])
	return fmt.Sprintf("v%d.%d.%d-0", n[0], n[1], n[2])
}

// previews returns where the previews of a version begin: <2 does not mean 2.0.0-beta.
func previews(canonical string) string {
	if semver.Prerelease(canonical) != "" {
		return canonical
	}
	return canonical + "-0"
}

// numbers returns the three numbers of a version; false if one is too large.
func numbers(canonical string) (n [3]uint64, ok bool) {
	_, err := fmt.Sscanf(canonical, "v%d.%d.%d", &n[0], &n[1], &n[2])
	return n, err == nil && max(n[0], n[1], n[2]) < 1<<60
}

// Allows reports whether v meets all conditions. The zero Version meets those of the zero
// Constraint alone.
func (c Constraint) Allows(v Version) bool {
	for _, one := range c.all {
		within := (one.low == "" || semver.Compare(v.canonical, one.low) >= 0) && (one.high == "" || semver.Compare(v.canonical, one.high) < 0)
		if v == (Version{}) || within == one.not {
			return false
		}
	}
	return true
}

// String returns the conditions, separated by blanks.
func (c Constraint) String() string { return c.text }
