package permission

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"symbio/internal/security/permission/file"
)

// A denial to read is also one for what git has stored of the file. The commands that print that are run with pathspecs that
// exclude it, where these mean the same; elsewhere a person is asked.

// pathspecs returns the pathspecs that exclude what a rule denies from git's output, for a
// repository in dir, the directory of the call; nil if the rule covers nothing there. exact is
// true if they mean the same as the rule in whatever repository below dir git works.
//
// {"*"} and false stand for a rule that may cover anything: the caller then asks a person. top
// makes a pathspec count from the root of the repository, and icase excludes a name in any case.
func (p *pathSpec) pathspecs(dir string) (specs []string, exact bool) {
	at := p.text
	if p.base != baseAny {
		pattern, ok := p.pattern(dir)
		whole := pattern.Dir + "/" + pattern.Rest
		rel, below := file.Below(file.Clean(dir), whole)
		// A pattern whose directory is above the call's may still match below it.
		if star := strings.IndexByte(pattern.Rest, '*'); !ok ||
			!below && star >= 0 && strings.HasPrefix(file.Clean(dir)+"/", strings.TrimSuffix(pattern.Dir+"/"+pattern.Rest[:star], "/")+"/") {
			return []string{"*"}, false
		}
		if at = rel; !below || at == "" {
			return nil, true
		}
	}
	at = strings.TrimPrefix(strings.TrimRight(at, "/"), "**/")
	// The file itself and everything below it, in the root and at any depth.
	for _, head := range []string{"", "*/"} {
		for _, tail := range []string{"", "/*"} {
			specs = append(specs, ":(exclude,top,icase)"+head+at+tail)
		}
	}
	return specs, !strings.Contains(strings.TrimSuffix(at, "/*"), "/")
}

// printsDenied reports whether command i may have git print what the rule denies, in spite of the
// pathspecs that will be added to it. Then the call becomes a question.
func (r commandRule) printsDenied(x *execution, i int) bool {
	specs, exact := r.path.pathspecs(x.facts.call.Dir)
	if len(specs) == 0 {
		return false
	}
	c := x.program.Commands[i]
	words, sure := withoutFiles(&c, specs)
	if _, err := os.Lstat(filepath.Join(x.facts.call.Dir, ".git")); err == nil && len(c.Words) > 1 && c.Words[1].Text != "-C" &&
		len(c.Dirs.Paths) == 1 && c.Dirs.Paths[0] == "" && !c.Dirs.Unknown {
		exact = exact || specs[0] != "*" // the repository is the one that the rule speaks of
	}
	return !sure || words != nil && !exact
}

// withoutDenied rewrites the git commands of the plan, so that they print no content that is denied to read. It changes
// the syntax tree, so it has to run last. If the program cannot be printed afterwards, Printed becomes false.
func (p *Plan) withoutDenied(x *execution) {
	var specs []string
	for _, l := range p.Denied.links {
		for _, r := range slices.Concat(l.FinalDeny, l.Deny) {
			if r.form == formPath && r.namedBy(readers) {
				more, _ := r.path.pathspecs(x.facts.call.Dir)
				specs = append(specs, more...)
			}
		}
	}
	if len(specs) == 0 {
		return
	}
	program := x.program
	rewritten := map[int][]string{}
	for i, c := range program.Commands {
		if words, sure := withoutFiles(&c, specs); sure && words != nil {
			rewritten[i] = words
		}
	}
	if len(rewritten) == 0 {
		return
	}
	if p.Argv != nil {
		p.Argv = rewritten[0]
	} else if program.Rewrite(rewritten); p.Printed {
		p.Script, p.Printed = program.Canonical, program.Canonical != ""
	}
}
