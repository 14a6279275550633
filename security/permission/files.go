package permission

import (
	"os"
	"path"
	"slices"
	"strings"

	"symbio/security/permission/file"
	"symbio/security/permission/glob"
	"symbio/security/permission/shell"
)

// deniesFiles returns how certain it is that the call uses a file which a rule for Read, Edit or
// Write denies (security.md 8.4). reads says whether the rule is about reading, lifted
// which commands an override lifts, files whether redirections count. A word that names a file which must
// not be read is denied. Where it cannot be told what a command does, a sandbox that keeps the call from the denied files answers, but for contents that git has stored.
func (r commandRule) deniesFiles(f *facts, reads bool, lifted []bool, files bool) reach {
	of := no
	if files {
		for _, o := range f.shell.files {
			if of = max(of, r.denies(o.facts)); of == yes {
				return yes
			}
		}
	}
	held := !(r.form == formTool && reads) && f.kept != nil && f.kept()
	if f.shell.runs && !held {
		of = max(of, maybe)
	}
	for i, c := range f.shell.program.Commands {
		if lifted != nil && lifted[i] {
			continue
		}
		if reads && r.form == formPath && r.printsDenied(f, i) {
			of = max(of, maybe)
		}
		if named := r.deniesWords(f, &c, reads); named == yes || !held {
			of = max(of, named)
		}
	}
	return of
}

// lists are programs that use no contents of the files that their words name, unless an option such as -files0-from says so.
var lists = []string{"ls", "find", "cd", "stat", "test", "[", "echo", "printf"}

// deniesWords returns how certain it is that the words of a command name a file which the rule denies: yes for a word that
// does, maybe for one that may, for a directory around one, for code that names one, and for a file that must not be written.
func (r commandRule) deniesWords(f *facts, c *shell.Command, reads bool) reach {
	of := no
	if c.Code != "" && r.namesIn(c.Code, f) {
		of = maybe
	}
	switch {
	case r.form != formPath && !c.Free: // a sandbox shows a program files to read whatever its words are
		return maybe
	case r.form != formPath || reads && slices.Contains(lists, c.Name()) && !strings.Contains(c.Rest(), "-from"):
		return of
	}
	var some [4]file.Pattern
	patterns, _ := r.denials(f, some[:0])
	for _, w := range c.Words[1:] {
		switch {
		case strings.HasPrefix(w.Text, "--files"): // a file with names of files
			of = max(of, maybe)
		case strings.HasPrefix(w.Text, "--exclude="), strings.HasPrefix(w.Text, "--include="):
			continue
		case !reads && strings.Contains(w.Text, " ") && r.namesIn(w.Text, f): // as in a program for sed
			return maybe
		}
		for _, u := range f.mayName(w, c.Dirs) {
			of = max(of, f.within(&u, patterns))
		}
	}
	if !reads {
		of = min(of, maybe)
	}
	return of
}

// namedFile is a file that a word of a command may name.
type namedFile struct {
	// place is the file; the zero Location if it is not known.
	place file.Location
	// pattern is set when only the shell knows the name: an absolute path with the marks of
	// shell.Word; any when nothing is known about it.
	pattern string
	any     bool
}

// mayName returns the files that a word may name, in each of the directories.
func (f *facts) mayName(w shell.Word, at shell.Dirs) (all []namedFile) {
	dirs := at.Paths
	if len(dirs) == 0 {
		// An unknown directory alone: the working directory stands for it, so that absolute
		// names count.
		dirs = []string{""}
	}
	for _, name := range candidates(w) {
		for _, dir := range dirs {
			whole, ok := f.absolute(dir, name.Pattern, name.Tilde)
			switch {
			case !name.Dynamic:
				all = append(all, namedFile{place: f.physical(dir, name.Text, name.Tilde)})
			case name.Split || !ok || strings.HasPrefix(name.Pattern, string(shell.Any)):
				all = append(all, namedFile{any: true})
			default:
				all = append(all, namedFile{pattern: path.Clean(whole)})
			}
		}
	}
	return all
}

// namesIn reports whether a text in another language, such as a script behind python -c, names a
// denied path, as far as the rule spells it literally. A rule for every file always counts. The
// text may build the name from parts, so false is no proof.
func (r commandRule) namesIn(code string, f *facts) bool {
	if r.form != formPath {
		return r.form == formTool // it cannot be told for every file
	}
	p, ok := r.pattern(f.call.Dir)
	if !ok {
		return true
	}
	name, _, _ := strings.Cut(p.Rest, "*")
	if p.Exact || len(name) > 1 && r.base != baseRoot {
		return strings.Contains(glob.Fold(code), glob.Fold(strings.TrimSuffix(name, "/")))
	}
	return p.Dir != "" && strings.Contains(glob.Fold(code), glob.Fold(p.Dir))
}

// within returns how certain it is that a file is one which the patterns deny, under one of its names; maybe for a
// directory that may hold one, and for a shell pattern that may stand for one. The patterns are folded where file systems ignore case.
func (f *facts) within(u *namedFile, patterns []file.Pattern) reach {
	if u.any {
		return maybe
	}
	of := no
	for i := range patterns {
		p := &patterns[i]
		switch {
		case u.pattern != "":
			if p.MayCover(glob.Fold(u.pattern)) {
				of = maybe
			}
		case u.place.Lexical == "" && !u.place.Known:
			of = max(of, maybe)
		case p.Covers(glob.Fold(u.place.Lexical)) || u.place.Known && p.Covers(glob.Fold(u.place.Real)):
			return yes
		case p.MayMatchBelow(glob.Fold(u.place.Lexical)) || p.MayMatchBelow(glob.Fold(u.place.Real)):
			if info, err := os.Stat(u.place.Real + "/"); err == nil && info.IsDir() {
				of = maybe
			}
		}
	}
	return of
}
