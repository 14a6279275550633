package file

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"symbio/internal/security/permission/glob"
)

const (
	// maxSearched bounds the directory entries of one search: 0.2 s at some 2 µs each, before
	// each command starts.
	maxSearched = 100_000
	// maxDenied bounds the files found: the sandbox makes a mount for each.
	maxDenied = 500
)

// Search finds the existing files that rules deny, so that a sandbox can hide them or make them
// read-only. The order of calls is: NewSearch, AddRule and AddEverything for each rule, AddLink
// for each link, and Run once. It is for one goroutine.
type Search struct {
	// dir is the working directory of the command, with links resolved; "" if it cannot be read.
	dir string
	// writes is true if it looks for files denied to write, false for those denied to read.
	writes bool

	// rules are the texts of the rules, starts the paths below which files may match. A start of
	// "" is none.
	rules, starts []string
	// links are the denials by link of the chain: an override lifts only the denials of its own link.
	links []Denials
	// matches are all patterns of Final and Deny, lifts the patterns of Overrides, to decide where to
	// descend.
	matches, lifts []Pattern
	// left is how many entries may still be visited; below zero the search is incomplete.
	left int
	// linked are files of found that have other hard links.
	linked []fs.FileInfo
	// fixed are the paths of found that the rules deny by a path of their own, not at any depth; unknown has a sentence for
	// each rule whose files could not be found.
	found, fixed, unknown []string
}

// NewSearch returns a search on behalf of a command that runs in dir. With writes it looks for files that are denied to
// write, and denied files may contain dir.
func NewSearch(dir string, writes bool) *Search {
	return &Search{dir: RealPath(dir), writes: writes, left: maxSearched}
}

// AddRule adds a rule by its text and the pattern that it makes in the working directory; known
// is false when it makes none. anyDepth rules also match below the working directory. A pattern
// that may match anywhere on the disk is not searched for, and becomes a sentence of unknown.
func (s *Search) AddRule(text string, p Pattern, known, anyDepth bool) {
	start := RealPath(p.Dir + "/")
	switch {
	case !known, p.Dir == "" && !p.Exact:
		// To look through the whole disk at each start of a command would take minutes.
		s.unknown, start = append(s.unknown, text+" denies files that may be anywhere"), ""
	case p.Exact && start != "":
		start = filepath.Join(start, p.Rest)
	}
	s.rules, s.starts = append(s.rules, text), append(s.starts, start)
	if anyDepth {
		s.starts = append(s.starts, s.dir)
	}
}

// AddEverything adds a rule that denies every file. Its pattern has to be in a link, too.
func (s *Search) AddEverything(text string) {
	s.rules, s.starts = append(s.rules, text), append(s.starts, "/")
}

// AddLink adds the denials of one link of the chain. A file is denied if one link denies it.
func (s *Search) AddLink(d Denials) {
	s.links = append(s.links, d)
	s.matches, s.lifts = slices.Concat(s.matches, d.Final, d.Deny), append(s.lifts, d.Overrides...)
}

// Rules returns the texts of the rules that were added.
func (s *Search) Rules() []string { return s.rules }

// Run searches the file system. It returns the denied files with links resolved, none below
// another; the fixed ones among them, that is, not denied in other directories, too; and a
// sentence for each reason why files may be missing in the list. It follows no links to
// directories, and stops after maxSearched entries. It may be called once.
func (s *Search) Run() (found, fixed, unknown []string) {
	for _, at := range top(s.starts) {
		if info, err := os.Lstat(at); err == nil {
			s.visit(at, info.Mode())
		}
	}
	if len(s.linked) > 0 {
		s.findHardLinks()
	}
	rules := strings.Join(s.rules, ", ")
	if s.left < 0 {
		s.unknown = append(s.unknown, fmt.Sprintf("there are over %d files to look through for what is denied by %s", maxSearched, rules))
	}
	if len(s.found) > maxDenied {
		s.unknown = append(s.unknown, fmt.Sprintf("over %d files are denied by %s", maxDenied, rules))
	}
	return top(s.found), s.fixed, s.unknown
}

// findHardLinks adds the files below the working directory that are other names of a denied file. A mount hides one name
// only, so a hard link in the workspace would show the content.
func (s *Search) findHardLinks() {
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

// visit adds the denied files at a path and below it. A denied directory is added as a whole, but not if an override
// allows a part of it, and not to hide it from reading if the command runs in it: then its entries are visited.
func (s *Search) visit(at string, mode fs.FileMode) {
	if s.left--; s.left < 0 {
		return
	}
	name, denied := Clean(at), s.denies(Clean(at))
	below := func(p Pattern) bool { return p.MayMatchBelow(glob.Fold(name)) }
	_, around := Below(name, Clean(s.dir))
	inParts := mode.IsDir() && (around && !s.writes || slices.ContainsFunc(s.lifts, below))
	switch {
	case denied && !inParts:
		s.add(at)
		return
	case !mode.IsDir() || !slices.ContainsFunc(s.matches, below):
		return
	case denied && s.writes:
		s.unknown = append(s.unknown, "an override allows a part of "+at+", and new files could be written there")
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		s.add(at) // its entries are not known, and one of them may be denied
	}
	for _, e := range entries {
		s.visit(filepath.Join(at, e.Name()), e.Type())
	}
}

// denies reports whether a link denies an existing path. name has the form of Clean and stands
// for both names.
func (s *Search) denies(name string) bool {
	return slices.ContainsFunc(s.links, func(d Denials) bool { return d.deny(name, name) })
}

// add adds a file or directory under its real name. It leaves out devices and sockets, which a
// sandbox handles by itself, and directories around the working directory that would be hidden:
// the command could not start. Beyond maxDenied it adds nothing, and Run says so.
func (s *Search) add(at string) {
	real := RealPath(at)
	info, err := os.Lstat(real)
	_, around := Below(Clean(real), Clean(s.dir))
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() || around && !s.writes || len(s.found) > maxDenied {
		return
	}
	// No file system has a directory named by a zero byte: if the name is denied there, it is denied everywhere.
	if s.found = append(s.found, real); !s.denies("/\x00/" + filepath.Base(at)) {
		s.fixed = append(s.fixed, at)
	}
	if HasNames(info) {
		s.linked = append(s.linked, info)
	}
}

// HasNames reports whether a regular file has several names, by hard links.
func HasNames(info fs.FileInfo) bool {
	// Nlink has another type on each system, and does not exist on some.
	names := reflect.Indirect(reflect.ValueOf(info.Sys())).FieldByName("Nlink")
	return info.Mode().IsRegular() && names.IsValid() && names.Uint() > 1
}

// RealPath returns an existing path with its links followed; "" if nothing is there or it cannot
// be read. path may be in the form of Clean with a slash behind it.
func RealPath(path string) string {
	real, _ := filepath.EvalSymlinks(filepath.FromSlash(path))
	return real
}

// top sorts paths in place, and returns them without "" and without the paths below others.
// Sorting puts a directory before what is below it.
func top(paths []string) (out []string) {
	slices.Sort(paths)
	for _, p := range paths {
		below := func(t string) bool { _, ok := Below(Clean(t), Clean(p)); return ok }
		if p != "" && !slices.ContainsFunc(out, below) {
			out = append(out, p)
		}
	}
	return out
}
