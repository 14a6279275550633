package permission

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unique"

	"symbio/security/permission/glob"
)

// base is what a path rule is relative to.
type base int8

const (
	baseRoot  base = iota // absolute
	baseDir               // the call's working directory, written with ./ or ../
	baseAny               // the same, but without them: a deny means it at any depth, as in .gitignore
	baseHome              // the user's home, written ~/
	baseSkill             // the skill's own directory, written ${SKILL_DIR}/ or ${CLAUDE_SKILL_DIR}/
)

// readPath reads the spec of a rule about paths.
func (r *Rule) readPath() (at int, reason string) {
	r.form = formPath
	if i := strings.IndexAny(r.spec, `?[]{}\!`); i >= 0 {
		return i, "only * is a wildcard in a path; the characters ? [ ] { } \\ ! are not allowed"
	}
	rest := r.spec
	switch {
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
	if star := strings.Index(rest, "*"); star >= 0 {
		for _, part := range strings.Split(rest[star:], "/") {
			if part == ".." || part == "." {
				return len(r.spec) - len(rest) + star, ". and .. cannot follow a *"
			}
		}
	}
	r.spec = strings.TrimPrefix(rest, "/")
	defer func() {
		if r.base == baseRoot && filepath.Separator == '/' {
			r.fixed = unique.Make(r.patternFrom("/"))
		}
	}()
	if strings.Contains(r.spec, "*") {
		r.spec = strings.TrimRight(r.spec, "/")
		for strings.Contains(r.spec, "//") {
			r.spec = strings.ReplaceAll(r.spec, "//", "/")
		}
	}
	return 0, ""
}

// pattern is a path rule made absolute: whatever lies in dir and is called rest from there on. dir is
// literal, so that a * in a real directory's name is not a wildcard; rest is too when exact.
type pattern struct {
	dir, rest string
	exact     bool
}

// pattern makes the rule absolute; ok is false when what it is relative to is not known.
func (r *Rule) pattern(dir string) (p pattern, ok bool) {
	if r.fixed != (unique.Handle[pattern]{}) {
		return r.fixed.Value(), true
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
		return pattern{}, false
	}
	return r.patternFrom(from), true
}

func (r *Rule) patternFrom(from string) pattern {
	star := strings.Index(r.spec, "*")
	if star < 0 {
		whole := slashed(filepath.Join(from, r.spec))
		cut := max(strings.LastIndex(whole, "/"), 0)
		return pattern{dir: whole[:cut], rest: strings.TrimPrefix(whole[cut:], "/"), exact: true}
	}
	cut := strings.LastIndex(r.spec[:star], "/") + 1
	return pattern{dir: slashed(filepath.Join(from, r.spec[:cut])), rest: r.spec[cut:]}
}

// slashed is the clean form of an absolute path that patterns are compared with: slashes, and "" for
// the root.
func slashed(path string) string {
	return strings.TrimSuffix(filepath.ToSlash(filepath.Clean(path)), "/")
}

// inside cuts dir off path. rel is "" when they are the same.
func inside(dir, path string) (rel string, ok bool) {
	rest, ok := strings.CutPrefix(path, dir)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
}

// matches reports whether path is one that an allow rule means. With tree, a pattern that means
// everything in a directory means the directory too.
func (p pattern) matches(path string, tree bool) bool {
	rel, ok := inside(p.dir, path)
	if !ok {
		return false
	}
	if p.exact {
		return rel == p.rest
	}
	if tree && strings.HasSuffix(p.rest, "*") && glob.Match(p.rest, strings.TrimPrefix(rel+"/", "/")) {
		return true
	}
	return rel != "" && glob.Match(p.rest, rel)
}

// covers reports whether path is one that a deny rule means, or lies below such a one, or is a
// directory all of whose content is meant.
func (p *pattern) covers(path string) bool {
	rel, ok := inside(p.dir, path)
	if !ok {
		return false
	}
	if p.exact {
		_, below := inside(p.rest, rel)
		return below || p.rest == ""
	}
	return glob.Match(p.rest, rel) || glob.Match(p.rest+"/*", rel) || rel != "" && glob.Match(p.rest, rel+"/")
}

// denials adds to a list the patterns by which a deny rule covers paths: as written, with the links of its own
// directory followed, and at any depth for a relative one. ok is false when they are not known.
func (r *Rule) denials(f *facts, all []pattern) (_ []pattern, ok bool) {
	p, ok := r.pattern(f.call.Dir)
	if !ok {
		return all, false
	}
	all = append(all, p)
	real, ok := f.follow(p.dir)
	if ok && real != p.dir {
		all = append(all, pattern{real, p.rest, p.exact})
	}
	if r.base == baseAny {
		anywhere := r.patternFrom("/")
		all = append(all, pattern{rest: strings.TrimPrefix(anywhere.dir+"/", "/") + anywhere.rest}, pattern{rest: "*" + anywhere.dir + "/" + anywhere.rest})
	}
	if glob.FoldsCase {
		for i, p := range all {
			all[i] = pattern{glob.Fold(p.dir), glob.Fold(p.rest), p.exact}
		}
	}
	return all, ok
}

// place is where a path leads: as written, and with every link followed.
type place struct {
	lexical, real string
	known         bool // neither could fail
}

// links remembers what was found out about names while one call is judged. The zero value is ready.
type links struct {
	seen map[string]link
}

// link is one name: where it leads, when it is a symbolic link.
type link struct {
	target string
	is     bool
	err    error
}

func (l *links) read(name string) link {
	found, ok := l.seen[name]
	if ok {
		return found
	}
	info, err := os.Lstat(name)
	found.err = err
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		found.is = true
		found.target, found.err = os.Readlink(name)
	}
	if l.seen == nil {
		l.seen = map[string]link{}
	}
	l.seen[name] = found
	return found
}

// locate finds where a path leads, as a tool will that cleans it before use.
func (l *links) locate(path, dir string) place {
	if path == "" || strings.ContainsRune(path, 0) {
		return place{}
	}
	if !filepath.IsAbs(path) {
		if !filepath.IsAbs(dir) {
			return place{}
		}
		path = filepath.Join(dir, path)
	}
	path = filepath.Clean(path)
	real, err := l.resolve(path)
	if err != nil {
		return place{lexical: slashed(path)}
	}
	return place{lexical: slashed(path), real: slashed(real), known: true}
}

// mostLinks is Linux' own limit.
const mostLinks = 40

// resolve follows every link of a clean absolute path, also where what it leads to does not exist:
// a file to be written, or a dangling link.
func (l *links) resolve(path string) (string, error) {
	volume := filepath.VolumeName(path)
	done := volume + string(filepath.Separator)
	todo := strings.TrimPrefix(path[len(volume):], string(filepath.Separator))
	for links := 0; todo != ""; {
		var name string
		name, todo, _ = strings.Cut(todo, string(filepath.Separator))
		if name == "" || name == "." {
			continue
		}
		if name == ".." {
			done = filepath.Dir(done)
			continue
		}
		next := done + string(filepath.Separator) + name
		if strings.HasSuffix(done, string(filepath.Separator)) {
			next = done + name
		}
		found := l.read(next)
		if errors.Is(found.err, fs.ErrNotExist) || errors.Is(found.err, syscall.ENOTDIR) {
			// Nothing below can be a link. What is left may hold .. from a link's text.
			return filepath.Join(next, todo), nil
		}
		if found.err != nil {
			return "", found.err
		}
		if !found.is {
			done = next
			continue
		}
		if links++; links > mostLinks {
			return "", syscall.ELOOP
		}
		target := found.target
		if filepath.IsAbs(target) {
			done = filepath.VolumeName(target) + string(filepath.Separator)
			target = strings.TrimPrefix(target[len(filepath.VolumeName(target)):], string(filepath.Separator))
		}
		todo = target + string(filepath.Separator) + todo
	}
	return done, nil
}
