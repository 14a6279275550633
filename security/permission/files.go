package permission

import (
	"path/filepath"
	"slices"
	"strings"

	"symbio/security/permission/file"
	"symbio/security/permission/glob"
	"symbio/security/permission/shell"
)

// deniesFiles returns how certain it is that the call uses a file which a rule for Read, Edit or
// Write denies (security.md 8.4). reads and writes say which of these the rule is about, lifted
// which commands an override lifts, files whether redirections count. Code that runs without
// being parsed is maybe, unless a sandbox keeps it from the denied files.
//
// It returns early at yes, and looks at the file system only for a use that may matter.
func (r commandRule) deniesFiles(f *facts, reads, writes bool, lifted []bool, files bool) reach {
	of := no
	if files {
		for _, o := range f.shell.files {
			if of = max(of, r.denies(o.facts)); of == yes {
				return yes
			}
		}
	}
	// Room for the patterns of one rule, so that most calls allocate none.
	var some [4]file.Pattern
	var patterns []file.Pattern
	for i := range f.shell.program.Commands {
		if lifted != nil && lifted[i] {
			continue
		}
		code := f.shell.program.Commands[i].Code
		// Code in another language and the contents that git has stored are not files that can be
		// located.
		if of == no && (code != "" && r.namesIn(code, f) || reads && r.form == formPath && r.printsDenied(f, i)) {
			of = maybe
		}
		uses := f.usesOf(i)
		for j := range uses {
			u, use := &uses[j], no
			if reads {
				use = u.Read
			}
			if writes {
				use = max(use, u.Write)
			}
			if patterns == nil && r.form == formPath && use != no {
				patterns, _ = r.denials(f, some[:0])
			}
			if of = max(of, r.deniesUse(f, u, use, patterns)); of == yes {
				return yes
			}
		}
	}
	// A sandbox shows a program files to read whatever its words are.
	if r.form == formTool && reads && slices.ContainsFunc(f.shell.program.Commands, func(c shell.Command) bool { return !c.Free }) {
		of = max(of, maybe)
	}
	// What runs unseen may use every file. A sandbox can hide the files of a path rule, but not
	// all files.
	if f.shell.runs && (r.form == formTool && reads || f.kept == nil || !f.kept()) {
		of = max(of, maybe)
	}
	return of
}

// deniesUse returns how certain it is that the rule denies one use of a file. use is how certain
// it is that the command reads or writes the file at all; the result is never more certain than
// that. patterns are those of the rule. A mere possibility needs no question if a sandbox keeps
// the command from the files.
func (r commandRule) deniesUse(f *facts, u *fileUse, use reach, patterns []file.Pattern) reach {
	switch {
	case use == yes && r.form == formTool:
		return yes
	case use == no || r.form != formPath:
		return no
	}
	hit := f.within(u, patterns)
	if hit == maybe && f.keeps(u) {
		return no
	}
	return min(hit, use)
}

// keeps reports whether a sandbox keeps the command from the denied files among those that a use
// may mean: any file, or files below the working directory.
func (f *facts) keeps(u *fileUse) bool {
	_, below := file.Below(file.Clean(f.call.Dir), u.place.Real)
	return (u.any || u.place.Known && below) && f.kept != nil && f.kept()
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

// within returns how certain it is that a use is of a file which the patterns deny, under one of
// its names, below a directory that the command walks, or as one of the files that a shell
// pattern may stand for. The patterns are folded where file systems ignore case.
func (f *facts) within(u *fileUse, patterns []file.Pattern) reach {
	if u.any {
		return maybe
	}
	of := no
	// elsewhere means that the name leads through a link, so the real name is looked at, too.
	elsewhere := u.place.Known && u.place.Real != u.place.Lexical
	for i := range patterns {
		p := &patterns[i]
		switch {
		case u.pattern != "":
			if p.MayCover(glob.Fold(u.pattern)) && (u.Write == yes || f.mayFind(u.pattern, p)) {
				of = maybe
			}
		case u.place.Lexical == "" && !u.place.Known:
			of = max(of, maybe)
		case p.Covers(glob.Fold(u.place.Lexical)) || elsewhere && p.Covers(glob.Fold(u.place.Real)):
			return yes
		case u.Tree && (u.Hidden || !p.Hidden()) && (p.MayMatchBelow(glob.Fold(u.place.Lexical)) || elsewhere && p.MayMatchBelow(glob.Fold(u.place.Real))):
			if of = max(of, f.below(u, p)); of == yes {
				return yes
			}
		}
	}
	return of
}

// mayFind reports whether an existing denied file matches a word with shell wildcards. The shell
// expands wildcards only to files that exist, so *.txt in a directory without denied files needs
// no question. word is absolute. It returns true if it cannot be told.
func (f *facts) mayFind(word string, p *file.Pattern) bool {
	mark := strings.IndexAny(word, shell.Marks)
	if mark < 0 || strings.ContainsRune(word, shell.Any) {
		return true
	}
	real, err := f.links.Resolve(filepath.FromSlash(word[:strings.LastIndexByte(word[:mark], '/')+1]))
	if err != nil {
		return true
	}
	root := file.Clean(real)
	t := f.listing(root)
	for _, n := range t.Entries {
		if (p.Covers(glob.Fold(n.Name)) || n.Real != "" && p.Covers(glob.Fold(n.Real))) && glob.MayMatch(word[strings.LastIndexByte(word[:mark], '/'):], strings.ReplaceAll(strings.TrimPrefix(n.Name, root), "*", "?")) {
			return true
		}
	}
	return !t.Complete
}

// below returns how certain it is that a command that walks a directory meets a denied file
// there: yes if it writes the tree and the rule is exact, maybe if a denied file exists or that
// cannot be told. It cannot see files that are made later; the sandbox is for those.
func (f *facts) below(u *fileUse, p *file.Pattern) reach {
	if p.Exact && u.Write == yes {
		return yes
	}
	if !u.place.Known {
		return maybe
	}
	t := f.listing(u.place.Real)
	for _, n := range t.Entries {
		if !u.Hidden && strings.Contains(strings.TrimPrefix(n.Name, t.Root), "/.") {
			continue
		}
		if p.Covers(glob.Fold(n.Name)) || n.Real != "" && p.Covers(glob.Fold(n.Real)) {
			return maybe
		}
	}
	if !t.Complete {
		return maybe
	}
	return no
}

// listing returns the names below a directory, and lists each directory once for a call. The
// pointer is valid until another directory is listed.
func (f *facts) listing(root string) *file.Tree {
	for i := range f.shell.trees {
		if f.shell.trees[i].Root == root {
			return &f.shell.trees[i]
		}
	}
	f.shell.trees = append(f.shell.trees, f.links.List(root))
	return &f.shell.trees[len(f.shell.trees)-1]
}
