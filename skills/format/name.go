package format

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"gopkg.in/yaml.v3"

	"symbio/internal/security/visible"
)

const (
	// maxName is the limit of the specification, in characters.
	maxName = 64
	// maxLenientName is what file systems accept, since a name is also a directory.
	maxLenientName = 255
)

// name reads and checks the name. It reports each kind of fault once. It compares the name with the
// directory only if the name has no other fault, because that would be a second message about one
// mistake.
func (c *checker) name() {
	const key = "name"
	n, ok := c.value(key)
	var name string
	switch {
	case ok && n.Kind != yaml.ScalarNode:
		c.add(Error, CodeNameType, key, "name must be text, not a list or a map")
		return
	case ok && strings.TrimSpace(n.Value) != "":
		name = strings.TrimSpace(n.Value)
	case c.policy.Level == Lenient && c.dir != "":
		name = c.dir
		c.add(Warning, CodeNameFromDir, key, "name is missing; the directory's name %q is taken", c.dir)
	default:
		c.add(Error, CodeNameMissing, key, "name is missing")
		return
	}
	// NFKC makes one name of different spellings, which look the same to a person.
	if c.policy.Level == Lenient {
		name = norm.NFKC.String(name)
	}
	c.m.Name = name
	if harmful(name) {
		c.add(Error, CodeNameBadChar, key, "name %q holds characters that are never accepted: / \\ .. or invisible ones", name)
		return
	}
	// Diagnostics that spelling adds show that the name has another fault.
	before := len(c.diags)
	c.spelling(name)
	if len(c.diags) > before {
		return
	}
	dir := c.dir
	// macOS may return the directory's name in another normal form than the file has.
	if c.policy.Level == Lenient {
		dir = norm.NFKC.String(dir)
	}
	if c.dir != "" && name != dir {
		c.deviation(CodeNameMismatch, key, "name %q differs from the directory's name %q", name, c.dir)
	}
}

// harmful reports whether a name could lead out of a directory, or look like another name
// (invisible characters). Such a name is an error at every level, because names become paths and
// are shown to the user who decides about trust.
func harmful(name string) bool {
	if strings.Contains(name, "..") || name == "." || !utf8.ValidString(name) {
		return true
	}
	return strings.ContainsFunc(name, func(r rune) bool {
		return r == '/' || r == '\\' || visible.Hidden(r) || unicode.In(r, unicode.Zl, unicode.Zp)
	})
}

// spelling reports characters and lengths that the specification does not allow. Whether they are
// errors depends on the level (deviation).
func (c *checker) spelling(name string) {
	const key = "name"
	var upper, foreign, bad bool
	for _, r := range name {
		switch {
		case r == '-', '0' <= r && r <= '9', 'a' <= r && r <= 'z':
		case unicode.IsUpper(r), unicode.IsTitle(r):
			upper = true
		// An ASCII character that no case above accepts, or neither a letter, a digit nor a mark.
		case r < utf8.RuneSelf || !unicode.In(r, unicode.L, unicode.N, unicode.M):
			bad = true
		default:
			foreign = true
		}
	}
	if upper {
		c.deviation(CodeNameCase, key, "name %q must be lower case", name)
	}
	if bad {
		c.deviation(CodeNameBadChar, key, "name %q may hold only a-z, 0-9 and hyphens", name)
	}
	// A letter, digit or mark beyond ASCII that is not upper case.
	if foreign {
		c.deviation(CodeNameNotASCII, key, "name %q may hold only a-z, 0-9 and hyphens", name)
	}
	if strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-") {
		c.deviation(CodeNameEdgeHyphen, key, "name %q may not begin or end with a hyphen", name)
	}
	if strings.Contains(name, "--") {
		c.deviation(CodeNameTwoHyphens, key, "name %q may not hold two hyphens in a row", name)
	}
	switch l := utf8.RuneCountInString(name); {
	// Too long for a directory, so not even Lenient accepts it.
	case l > maxLenientName:
		c.add(Error, CodeNameTooLong, key, "name has %d characters; at most %d are allowed", l, maxName)
	case l > maxName:
		c.deviation(CodeNameTooLong, key, "name has %d characters; at most %d are allowed", l, maxName)
	}
}
