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

// readPath reads the spec of a path rule. It returns the offset and the reason if the spec is
// unclear: only * is a wildcard, since ? [ ] { } would mean other things to a shell or to
// .gitignore.
//
// A rule that is relative to the root is made absolute once, here; others depend on the call.
func (r *Rule) readPath() (at int, reason string) {
	r.form = formPath
	if i := strings.IndexAny(r.spec, `?[]{}\!`); i >= 0 {
		return i, "only * is a wildcard in a path; the characters ? [ ] { } \\ ! are not allowed"
	}
	rest := r.spec
	switch {
	// The base is kept apart from the spec, because it is known only when a call is judged.
	case rest == "~" || strings.HasPrefix(rest, "~/"):
		r.base, rest = baseHome, strings.TrimPrefix(rest, "~")
	case strings.HasPrefix(rest, "~"):
		return 0, "only ~/ is known, not another user's home"
	case strings.HasPrefix(rest, "/"):
		r.base = baseRoot
	case rest == "." || rest == ".." || strings.HasPrefix(rest, "./") || strings.HasPrefix(rest, "../"):
		r.base = baseDir
	default:
		r.base = baseAny
	}
	// a/*/../b would have to be cleaned, and what a .. behind a * leaves is not known.
	if star := strings.Index(rest, "*"); star >= 0 {
		for _, part := range strings.Split(rest[star:], "/") {
			if part == ".." || part == "." {
				return len(r.spec) - len(rest) + star, ". and .. cannot follow a *"
			}
		}
	}
	r.spec = strings.TrimPrefix(rest, "/")
	// On Windows the root depends on the volume of the call's directory, so nothing is fixed.
	defer func() {
		if r.base == baseRoot && filepath.Separator == '/' {
			p := file.NewPattern("/", r.spec)
			r.fixed = &p
		}
	}()
	// A literal path is cleaned by file.NewPattern. A glob is not, so double and trailing slashes
	// are removed here.
	if strings.Contains(r.spec, "*") {
		r.spec = strings.TrimRight(r.spec, "/")
		for strings.Contains(r.spec, "//") {
			r.spec = strings.ReplaceAll(r.spec, "//", "/")
		}
	}
	return 0, ""
}

// pattern returns the rule's path made absolute for a call in dir; ok is false when the directory
// it is relative to is not known, such as the home of a user without one. Then an allow rule
// matches nothing, and a deny rule may match anything.
func (r *Rule) pattern(dir string) (p file.Pattern, ok bool) {
	if r.fixed != nil {
		return *r.fixed, true
	}
	from := ""
	switch r.base {
	case baseRoot:
		from = filepath.VolumeName(dir) + "/"
	case baseDir, baseAny:
		from = dir
	case baseSkill:
		from = r.dir
	case baseHome:
		// The one thing read from the environment: ~ has no other meaning.
		from, _ = os.UserHomeDir()
	}
	if !filepath.IsAbs(from) {
		return file.Pattern{}, false
	}
	return file.NewPattern(from, r.spec), true
}

// denials appends the patterns by which a deny rule covers paths: as written, with the links of
// the rule's own directory followed, and at any depth for a plain relative path. ok is false when
// they are not all known: the caller takes that for maybe. On file systems that ignore case the
// patterns are folded; the caller folds the paths. There are at most four.
func (r *Rule) denials(f *facts, all []file.Pattern) (_ []file.Pattern, ok bool) {
	p, ok := r.pattern(f.call.Dir)
	if !ok {
		return all, false
	}
	all = append(all, p)
	real, ok := f.links.Follow(p.Dir)
	if ok && real != p.Dir {
		all = append(all, p.In(real))
	}
	if r.base == baseAny {
		all = append(all, file.AnyDepth(r.spec)...)
	}
	if glob.FoldsCase {
		for i, p := range all {
			all[i] = p.Fold()
		}
	}
	return all, ok
}
