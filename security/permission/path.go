package permission

import (
	"os"
	"path/filepath"
	"strings"

	"symbio/internal/security/permission/file"
	"symbio/internal/security/permission/glob"
)

// base is the directory that a path rule is relative to. The zero value is the root.
type base int8

const (
	baseRoot  base = iota // absolute
	baseDir               // the call's working directory, written with ./ or ../
	baseAny               // the same, but without them: a deny means it at any depth, as in .gitignore
	baseHome              // the user's home, written ~/
	baseSkill             // the skill's own directory, written ${SKILL_DIR}/ or ${CLAUDE_SKILL_DIR}/
)

// pathSpec is the path of a rule for a file tool.
type pathSpec struct {
	// base is the directory that the path is relative to, text the path without it.
	base base
	text string
	// dir is for baseSkill: the skill's directory, absolute; "" until WithSkillDir, and the path
	// then means nothing.
	dir string
	// fixed is the pattern of a path that is relative to nothing, made once when the rule is read.
	fixed *file.Pattern
}

// parsePath reads the spec of a path rule. It returns the offset and the reason if the spec is
// unclear: only * is a wildcard, since ? [ ] { } would mean other things to a shell or to
// .gitignore.
//
// A path that is relative to the root is made absolute once, here; others depend on the call.
func parsePath(spec string) (p pathSpec, at int, reason string) {
	if i := strings.IndexAny(spec, `?[]{}\!`); i >= 0 {
		return p, i, "only * is a wildcard in a path; the characters ? [ ] { } \\ ! are not allowed"
	}
	rest := spec
	switch {
	// The base is kept apart from the text, because it is known only when a call is judged.
	case rest == "~" || strings.HasPrefix(rest, "~/"):
		p.base, rest = baseHome, strings.TrimPrefix(rest, "~")
	case strings.HasPrefix(rest, "~"):
		return p, 0, "only ~/ is known, not another user's home"
	case strings.HasPrefix(rest, "/"):
		p.base = baseRoot
	case rest == "." || rest == ".." || strings.HasPrefix(rest, "./") || strings.HasPrefix(rest, "../"):
		p.base = baseDir
	default:
		p.base = baseAny
	}
	// a/*/../b would have to be cleaned, and what a .. behind a * leaves is not known.
	if star := strings.Index(rest, "*"); star >= 0 {
		for _, part := range strings.Split(rest[star:], "/") {
			if part == ".." || part == "." {
				return p, len(spec) - len(rest) + star, ". and .. cannot follow a *"
			}
		}
	}
	p.text = strings.TrimPrefix(rest, "/")
	// A literal path is cleaned by file.NewPattern. A glob is not, so double and trailing slashes
	// are removed here.
	if strings.Contains(p.text, "*") {
		p.text = strings.TrimRight(p.text, "/")
		for strings.Contains(p.text, "//") {
			p.text = strings.ReplaceAll(p.text, "//", "/")
		}
	}
	// On Windows the root depends on the volume of the call's directory, so nothing is fixed.
	if p.base == baseRoot && filepath.Separator == '/' {
		fixed := file.NewPattern("/", p.text)
		p.fixed = &fixed
	}
	return p, 0, ""
}

// pattern returns the path made absolute for a call in dir; ok is false when the directory
// it is relative to is not known, such as the home of a user without one. Then an allow rule
// matches nothing, and a deny rule may match anything.
func (p *pathSpec) pattern(dir string) (_ file.Pattern, ok bool) {
	if p.fixed != nil {
		return *p.fixed, true
	}
	from := ""
	switch p.base {
	case baseRoot:
		from = filepath.VolumeName(dir) + "/"
	case baseDir, baseAny:
		from = dir
	case baseSkill:
		from = p.dir
	case baseHome:
		// The one thing read from the environment: ~ has no other meaning.
		from, _ = os.UserHomeDir()
	}
	if !filepath.IsAbs(from) {
		return file.Pattern{}, false
	}
	return file.NewPattern(from, p.text), true
}

// allows returns yes if every path of the call matches under both of its names: as written
// and with links followed. A link in the workspace must not lead a tool out of it.
func (p *pathSpec) allows(f *facts) reach {
	pattern, ok := p.pattern(f.call.Dir)
	if !ok {
		return no
	}
	// The rule's own directory may be a link (/tmp on macOS), so a path also matches below the
	// place that it leads to.
	means := func(path string) bool {
		if pattern.Matches(path, f.subject.tree) {
			return true
		}
		real, ok := f.locator.links.Follow(pattern.Dir)
		return ok && real != pattern.Dir && pattern.In(real).Matches(path, f.subject.tree)
	}
	for _, at := range f.locations() {
		if !at.Known || !means(at.Lexical) || !means(at.Real) {
			return no
		}
	}
	return yes
}

// denies returns yes if one path of the call is covered under one of its names, and maybe if
// a path or the rule's own directory could not be resolved. The name as written counts even if
// its links cannot be read.
func (p *pathSpec) denies(f *facts) reach {
	var some [4]file.Pattern
	patterns, sure := p.denials(f.locator, some[:0])
	for _, at := range f.locations() {
		for _, p := range patterns {
			if (at.Known || at.Lexical != "") && p.Covers(glob.Fold(at.Lexical)) || at.Known && p.Covers(glob.Fold(at.Real)) {
				return yes
			}
		}
		sure = sure && at.Known
	}
	if !sure {
		return maybe
	}
	return no
}

// denials appends the patterns by which a deny rule covers paths: as written, with the links of
// the rule's own directory followed, and at any depth for a plain relative path. ok is false when
// they are not all known: the caller takes that for maybe. On file systems that ignore case the
// patterns are folded; the caller folds the paths. There are at most four.
func (p *pathSpec) denials(at *locator, all []file.Pattern) (_ []file.Pattern, ok bool) {
	pattern, ok := p.pattern(at.dir)
	if !ok {
		return all, false
	}
	all = append(all, pattern)
	real, ok := at.links.Follow(pattern.Dir)
	if ok && real != pattern.Dir {
		all = append(all, pattern.In(real))
	}
	if p.base == baseAny {
		all = append(all, file.AnyDepth(p.text)...)
	}
	if glob.FoldsCase {
		for i, p := range all {
			all[i] = p.Fold()
		}
	}
	return all, ok
}

// spells reports whether the path contains a protected name, as whole parts and in any case.
// Only a rule with such a path allows to use it.
func (p *pathSpec) spells(name string) bool {
	return strings.Contains("/"+strings.ToLower(p.text)+"/", "/"+strings.ToLower(name)+"/")
}
