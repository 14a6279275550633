package permission

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"symbio/security/permission/glob"
)

const (
	maxSearched = 100_000 // entries, at some 2 µs each
	maxDenied   = 500     // files found, a mount each
)

// Denied are the rules that keep files from what a call runs, so that a sandbox can do the same (security.md 8.5).
type Denied struct {
	dir   string
	links []Policy // without the Deny that an Override lifts for all that the call runs
}

// DeniedFiles are the files that rules deny and that exist, links resolved, none below another of its list.
type DeniedFiles struct {
	Hidden, ReadOnly []string // denied to Read, and to Write or Edit
	Fixed            []string // those of Hidden that the rules do not mean in another directory
	Unknown          []string // says, a sentence each, for which rules the files could not be found
}

// Denied are the rules about files for commands in dir that no call asks for, such as MCP servers.
func (p Policy) Denied(dir string) *Denied { return &Denied{dir, []Policy{p}} }

func (c Chain) denied(f *facts) *Denied {
	d := &Denied{dir: f.call.Dir}
	for _, l := range c {
		if allTrue(f.lifted(l.Policy.Override)) {
			l.Policy.Deny = nil
		}
		d.links = append(d.links, l.Policy)
	}
	return d
}

// Rules are the texts of the rules.
func (d *Denied) Rules() []string {
	all := append(d.search("Read").rules, d.search("Write").rules...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Files looks for the files as they are now. A relative rule means those below the working directory; a directory that
// cannot be read counts as denied.
func (d *Denied) Files() DeniedFiles {
	read, write := d.search("Read"), d.search("Write")
	return DeniedFiles{read.all(), write.all(), read.fixed, append(read.unknown, write.unknown...)}
}

// search looks for the files that are denied to one tool.
type search struct {
	dir           string
	writes        bool
	rules, starts []string
	links         []exceptions
	meant, lifted []pattern // those of all links
	left          int
	linked        []fs.FileInfo // those found that have hard links
	found, fixed  []string
	unknown       []string
}

func (d *Denied) search(tool string) *search {
	f := look(Call{Tool: tool, Dir: d.dir})
	s := &search{dir: realPath(d.dir), writes: tool == "Write", left: maxSearched}
	for _, p := range d.links {
		x := exceptionsOf(p, f)
		for i, list := range [][]Rule{p.FinalDeny, p.Deny} {
			for _, r := range list {
				bare := s.writes && r.form == formTool
				if !r.namedBy(&f.denied) || r.form != formPath && !bare {
					continue
				}
				s.rules = append(s.rules, r.text)
				at, known := r.pattern(d.dir)
				start := realPath(at.dir + "/")
				switch {
				case bare:
					*[]*[]pattern{&x.final, &x.deny}[i], start = []pattern{{rest: "*"}}, "/"
				case !known, at.dir == "" && !at.exact:
					s.unknown, start = append(s.unknown, r.text+" denies files that may be anywhere"), ""
				case at.exact && start != "":
					start = filepath.Join(start, at.rest)
				}
				if s.starts = append(s.starts, start); r.base == baseAny && !bare {
					s.starts = append(s.starts, s.dir)
				}
			}
		}
		s.links = append(s.links, x)
		s.meant, s.lifted = slices.Concat(s.meant, x.final, x.deny), append(s.lifted, x.lifted...)
	}
	return s
}

// all returns what is found below each place that a rule begins with.
func (s *search) all() []string {
	for _, at := range top(s.starts) {
		if info, err := os.Lstat(at); err == nil {
			s.visit(at, info.Mode())
		}
	}
	if len(s.linked) > 0 {
		_ = filepath.WalkDir(s.dir, func(at string, e fs.DirEntry, err error) error {
			if s.left--; err != nil || s.left < 0 || !e.Type().IsRegular() {
				return nil
			}
			if info, err := e.Info(); err == nil && slices.ContainsFunc(s.linked, func(o fs.FileInfo) bool { return os.SameFile(o, info) }) {
				s.found = append(s.found, at)
			}
			return nil
		})
	}
	rules := strings.Join(s.rules, ", ")
	if s.left < 0 {
		s.unknown = append(s.unknown, fmt.Sprintf("there are over %d files to look through for what is denied by %s", maxSearched, rules))
	}
	if len(s.found) > maxDenied {
		s.unknown = append(s.unknown, fmt.Sprintf("over %d files are denied by %s", maxDenied, rules))
	}
	return top(s.found)
}

// visit takes what is denied at a path and below it. It follows no link. A denied directory is not taken as a whole if an
// override means a part of it, or if it would be hidden and commands run in it.
func (s *search) visit(at string, mode fs.FileMode) {
	if s.left--; s.left < 0 {
		return
	}
	name, denied := slashed(at), s.denies(slashed(at))
	below := func(p pattern) bool { return p.below(glob.Fold(name)) }
	_, around := inside(name, slashed(s.dir))
	spared := mode.IsDir() && (around && !s.writes || slices.ContainsFunc(s.lifted, below))
	switch {
	case denied && !spared:
		s.add(at)
		return
	case !mode.IsDir() || !slices.ContainsFunc(s.meant, below):
		return
	case denied && s.writes:
		s.unknown = append(s.unknown, "an override allows a part of "+at+", and new files could be written there")
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		s.add(at)
	}
	for _, e := range entries {
		s.visit(filepath.Join(at, e.Name()), e.Type())
	}
}

func (s *search) denies(name string) bool {
	return slices.ContainsFunc(s.links, func(x exceptions) bool {
		return coveredBy(x.final, glob.Fold(name), glob.Fold(name)) || coveredBy(x.deny, glob.Fold(name), glob.Fold(name)) && !x.lifts(name, name)
	})
}

// add takes a file or directory, of a link what it leads to. No device, and not to read what commands run in.
func (s *search) add(at string) {
	real := realPath(at)
	info, err := os.Lstat(real)
	_, around := inside(slashed(real), slashed(s.dir))
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() || around && !s.writes || len(s.found) > maxDenied {
		return
	}
	if s.found = append(s.found, real); !s.denies("/\x00/" + filepath.Base(at)) {
		s.fixed = append(s.fixed, at)
	}
	if names := reflect.Indirect(reflect.ValueOf(info.Sys())).FieldByName("Nlink"); info.Mode().IsRegular() && names.IsValid() && names.Uint() > 1 {
		s.linked = append(s.linked, info)
	}
}

// realPath follows every link of a path. It is "" if nothing is there.
func realPath(path string) string {
	real, _ := filepath.EvalSymlinks(filepath.FromSlash(path))
	return real
}

// top sorts paths, and leaves out "" and those below others.
func top(paths []string) (out []string) {
	slices.Sort(paths)
	for _, p := range paths {
		below := func(t string) bool { _, ok := inside(slashed(t), slashed(p)); return ok }
		if p != "" && !slices.ContainsFunc(out, below) {
			out = append(out, p)
		}
	}
	return out
}
