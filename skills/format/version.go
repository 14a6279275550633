package format

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"

	"symbio/security/visible"
)

const (
	// maxVersion limits the text of a version, in bytes.
	maxVersion = 64
	// maxConstraint limits the text of a constraint, in bytes.
	maxConstraint = 200
)

// Version is a semantic version (semver.org). The zero Version is older than every other one. A Version is a
// value, and may be used from many goroutines.
type Version struct{ of *semver.Version }

// ParseVersion reads a version such as 1.2.3, v1.2.3-beta.1 or 1.2, which means 1.2.0. The Version beside an
// error is the zero Version.
func ParseVersion(text string) (Version, error) {
	if len(text) <= maxVersion {
		if v, err := semver.NewVersion(strings.TrimSpace(text)); err == nil {
			return Version{v}, nil
		}
	}
	return Version{}, fmt.Errorf("%q is not a version; write it as 1.2.3", visible.Line(text, maxVersion))
}

// String returns the version as 1.2.3, and "" for the zero Version.
func (v Version) String() string {
	if v.of == nil {
		return ""
	}
	return v.of.String()
}

// Compare returns -1 if v is older than w, 0 if they are equal, and 1 if v is newer.
func (v Version) Compare(w Version) int {
	switch {
	case v.of == nil && w.of == nil:
		return 0
	case v.of == nil:
		return -1
	case w.of == nil:
		return 1
	}
	return v.of.Compare(w.of)
}

// Compare compares the texts of two versions as Version.Compare does. A text that is no version is older than
// every version.
func Compare(a, b string) int {
	v, _ := ParseVersion(a) // the zero Version is the oldest
	w, _ := ParseVersion(b)
	return v.Compare(w)
}

// Constraint is a set of versions. The zero Constraint allows all, and skills without a version. It may be
// used from many goroutines.
type Constraint struct {
	text string
	of   *semver.Constraints
}

// ParseConstraint reads conditions that are separated by blanks or commas and must all hold, as package semver
// of Masterminds does: >=1.2 <2, ^1.2, ~1.2, 1.2.x, !=1.3, and || between alternatives. A preview such as
// 2.0.0-beta meets only conditions that name a preview. An empty text is the zero Constraint, which stands
// beside an error as well.
func ParseConstraint(text string) (Constraint, error) {
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return Constraint{}, nil
	}
	if len(text) <= maxConstraint {
		if c, err := semver.NewConstraint(text); err == nil {
			return Constraint{text, c}, nil
		}
	}
	return Constraint{}, fmt.Errorf("%q is no condition for versions; write one such as >=1.2 <2", visible.Line(text, maxVersion))
}

// Allows reports whether v meets the conditions. The zero Version meets those of the zero Constraint alone.
func (c Constraint) Allows(v Version) bool {
	return c.of == nil || v.of != nil && c.of.Check(v.of)
}

// String returns the conditions.
func (c Constraint) String() string { return c.text }
