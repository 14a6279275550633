package format

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"

	"symbio/internal/security/visible"
)

const (
	// maxVersion limits the text of a version, in bytes.
	maxVersion = 64
	// maxConstraint limits the text of a constraint, in bytes.
	maxConstraint = 200
)

// ParseVersion reads a semantic version (semver.org) such as 1.2.3, v1.2.3-beta.1 or 1.2, which means
// 1.2.0. Beside an error it returns nil.
func ParseVersion(text string) (*semver.Version, error) {
	if len(text) <= maxVersion {
		if v, err := semver.NewVersion(strings.TrimSpace(text)); err == nil {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%q is not a version; write it as 1.2.3", visible.Line(text, maxVersion))
}

// Compare returns -1 if the version in a is older than that in b, 0 if they are equal, and 1 if it is
// newer. A text that is no version is older than every version.
func Compare(a, b string) int {
	v, noA := ParseVersion(a)
	w, noB := ParseVersion(b)
	switch {
	case noA != nil && noB != nil:
		return 0
	case noA != nil:
		return -1
	case noB != nil:
		return 1
	}
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

// Allows reports whether a version meets the conditions. A text that is no version meets the conditions of the
// zero Constraint alone.
func (c Constraint) Allows(version string) bool {
	v, err := ParseVersion(version)
	return c.of == nil || err == nil && c.of.Check(v)
}

// String returns the conditions.
func (c Constraint) String() string { return c.text }
