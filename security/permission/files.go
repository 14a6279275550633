package permission

import (
	"os"
	"slices"
	"strings"

	"symbio/internal/security/permission/file"
	"symbio/internal/security/permission/glob"
	"symbio/internal/security/permission/shell"
)

// deniesFiles returns how certain it is that the call uses a file which a rule for Read, Edit or
// Write denies. reads says whether the rule is about reading, lifted
// which commands an override lifts, files whether redirections count. A literal word that names a file which must
// not be read is denied. Where it cannot be told what a command does, a sandbox that keeps the call from the denied files
// answers, but for contents that git has stored.
func (r commandRule) deniesFiles(x *execution, reads bool, lifted []bool, files bool) reach {
	of := no
	if files {
		for _, o := range x.files {
			if of = max(of, r.denies(o.facts)); of == yes {
				return yes
			}
		}
	}
	held := !(r.form == formTool && reads) && x.kept()
	if x.runs && !held {
		of = max(of, maybe)
	}
	for i, c := range x.program.Commands {
		if lifted != nil && lifted[i] {
			continue
		}
		if reads && r.form == formPath && r.printsDenied(x, i) {
			of = max(of, maybe)
		}
		if named := r.deniesWords(x.facts.locator, &c, reads); named == yes || !held {
			of = max(of, named)
		}
	}
	return of
}

// lists are programs that use no contents of the files that their words name, unless an option such as -files0-from says so.
var lists = []string{"ls", "find", "cd", "stat", "test", "[", "echo", "printf"}

// deniesWords returns how certain it is that the words of a command name a file which the rule denies: yes for a literal word
// that does; maybe for a directory around one, for a file that must not be written, for code, and for words that only the
// shell knows.
func (r commandRule) deniesWords(at *locator, c *shell.Command, reads bool) reach {
	switch {
	case r.form != formPath && !c.Free: // a sandbox shows a program files to read whatever its words are
		return maybe
	case r.form != formPath || reads && slices.Contains(lists, c.Name()) && !strings.Contains(c.Rest(), "-from"):
		return no
	}
	of := no
	var some [4]file.Pattern
	patterns, _ := r.path.denials(at, some[:0])
	for _, w := range c.Words[1:] {
		if strings.HasPrefix(w.Text, "--exclude=") || strings.HasPrefix(w.Text, "--include=") {
			continue
		}
		if w.Dynamic || strings.HasPrefix(w.Text, "--files") || !reads && strings.Contains(w.Text, " ") { // a file with names, or a program for sed
			of = max(of, maybe)
		}
		for _, named := range at.mayName(w, c.Dirs) {
			of = max(of, within(named, patterns))
		}
	}
	if c.Code != "" {
		of = max(of, maybe)
	}
	if !reads {
		of = min(of, maybe)
	}
	return of
}

// within returns how certain it is that a file is one which the patterns deny, under one of its names; maybe for a
// directory that may hold one. The patterns are folded where file systems ignore case.
func within(at file.Location, patterns []file.Pattern) reach {
	of := no
	for i := range patterns {
		p := &patterns[i]
		switch {
		case at.Lexical == "" && !at.Known:
			of = max(of, maybe)
		case p.Covers(glob.Fold(at.Lexical)) || at.Known && p.Covers(glob.Fold(at.Real)):
			return yes
		case p.MayMatchBelow(glob.Fold(at.Lexical)) || p.MayMatchBelow(glob.Fold(at.Real)):
			if info, err := os.Stat(at.Real + "/"); err == nil && info.IsDir() {
				of = maybe
			}
		}
	}
	return of
}
