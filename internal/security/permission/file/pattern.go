package file

import (
	"path/filepath"
	"slices"
	"strings"

	"symbio/internal/security/permission/glob"
)

// Pattern is the path of a rule, made absolute: it matches the paths in Dir whose part below Dir matches Rest.
type Pattern struct {
	// Dir is literal and in the form of Clean, so that a * in a real directory's name is not a
	// wildcard.
	Dir string
	// Rest is a glob in which * also matches /, or a literal name if Exact.
	Rest  string
	Exact bool
}

// NewPattern returns the pattern for a rule's path below the directory from. In spec, * matches any characters, / too.
func NewPattern(from, spec string) Pattern {
	star := strings.Index(spec, "*")
	if star < 0 {
		whole := Clean(filepath.Join(from, spec))
		cut := max(strings.LastIndex(whole, "/"), 0)
		return Pattern{Dir: whole[:cut], Rest: strings.TrimPrefix(whole[cut:], "/"), Exact: true}
	}
	cut := strings.LastIndex(spec[:star], "/") + 1
	return Pattern{Dir: Clean(filepath.Join(from, spec[:cut])), Rest: spec[cut:]}
}

// AnyDepth returns the patterns for a relative path in every directory of the file system, as .gitignore reads a name
// without a slash in front. There are two: one for the root, one for the directories below it.
func AnyDepth(spec string) []Pattern {
	p := NewPattern("/", spec)
	return []Pattern{{Rest: strings.TrimPrefix(p.Dir+"/", "/") + p.Rest}, {Rest: "*" + p.Dir + "/" + p.Rest}}
}

// In returns the pattern with another directory, such as the one that a link leads to. dir has
// the form of Clean.
func (p Pattern) In(dir string) Pattern { return Pattern{dir, p.Rest, p.Exact} }

// Fold returns the pattern for comparison with paths of glob.Fold, on file systems that ignore case.
func (p Pattern) Fold() Pattern { return Pattern{glob.Fold(p.Dir), glob.Fold(p.Rest), p.Exact} }

// Matches reports whether an allow rule with this pattern covers the path, in the form of Clean.
// With tree the call reaches everything below the path: a pattern for everything in a directory
// then covers the directory, too. It compares exact case on every system, since a false yes would
// allow something.
func (p Pattern) Matches(path string, tree bool) bool {
	rel, ok := Below(p.Dir, path)
	if !ok {
		return false
	}
	if p.Exact {
		return rel == p.Rest
	}
	if tree && strings.HasSuffix(p.Rest, "*") && glob.Match(p.Rest, strings.TrimPrefix(rel+"/", "/")) {
		return true
	}
	return rel != "" && glob.Match(p.Rest, rel)
}

// Covers reports whether a deny rule with this pattern covers the path: the path matches, lies
// below one that matches, or is a directory with only matching paths. Pattern and path have to
// be folded by the caller.
func (p *Pattern) Covers(path string) bool {
	rel, ok := Below(p.Dir, path)
	if !ok {
		return false
	}
	if p.Exact {
		_, below := Below(p.Rest, rel)
		return below || p.Rest == ""
	}
	return glob.Match(p.Rest, rel) || glob.Match(p.Rest+"/*", rel) || rel != "" && glob.Match(p.Rest, rel+"/")
}

// MayMatchBelow reports whether a path below dir may match, so that a search has to descend
// there. A true may be wrong, a false may not.
func (p *Pattern) MayMatchBelow(dir string) bool {
	if _, ok := Below(dir, p.Dir); ok && (p.Dir != "" || dir == "") {
		return true
	}
	_, ok := Below(p.Dir, dir)
	return ok && !p.Exact
}

// coveredBy reports whether one of the patterns covers a path under one of its two names.
func coveredBy(patterns []Pattern, lexical, real string) bool {
	return slices.ContainsFunc(patterns, func(p Pattern) bool { return p.Covers(lexical) || lexical != real && p.Covers(real) })
}
