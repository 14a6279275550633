package permission

import (
	"io/fs"
	"path/filepath"
	"strings"

	"symbio/security/permission/glob"
	"symbio/security/permission/shell"
)

// forbidsFiles says whether a command uses a file that a rule denies to the file tools (security.md 8.4).
func (r commandRule) forbidsFiles(f *facts, reads, writes bool, lifted []bool, files bool) reach {
	of := no
	if files {
		for _, o := range f.shell.files {
			if of = max(of, r.denies(o.facts)); of == yes {
				return yes
			}
		}
	}
	var some [4]pattern
	var patterns []pattern
	for i := range f.shell.program.Commands {
		if lifted != nil && lifted[i] {
			continue
		}
		code := f.shell.program.Commands[i].Code
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
			if of = max(of, r.forbidsUse(f, u, use, patterns)); of == yes {
				return yes
			}
		}
	}
	if f.shell.runs && (r.form == formTool && reads || f.kept == nil || !f.kept()) {
		of = max(of, maybe)
	}
	return of
}

// forbidsUse says whether a command uses a file that the rule denies, where it is that certain that it uses it.
func (r commandRule) forbidsUse(f *facts, u *used, use reach, patterns []pattern) reach {
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

// keeps says that a sandbox keeps the command from what is denied among the files that it may use: what it is given by
// another command, and what lies below the working directory.
func (f *facts) keeps(u *used) bool {
	_, below := inside(slashed(f.call.Dir), u.place.real)
	return (u.any || u.place.known && below) && f.kept != nil && f.kept()
}

// namesIn reports whether a text in another language names what a path rule is about, as far as a rule says it
// literally.
func (r commandRule) namesIn(code string, f *facts) bool {
	if r.form != formPath {
		return r.form == formTool // it cannot be told for every file
	}
	p, ok := r.pattern(f.call.Dir)
	if !ok {
		return true
	}
	name, _, _ := strings.Cut(p.rest, "*")
	if p.exact || len(name) > 1 && r.base != baseRoot {
		return strings.Contains(glob.Fold(code), glob.Fold(strings.TrimSuffix(name, "/")))
	}
	return p.dir != "" && strings.Contains(glob.Fold(code), glob.Fold(p.dir))
}

// within says whether the file may be one that the patterns deny.
func (f *facts) within(u *used, patterns []pattern) reach {
	if u.any {
		return maybe
	}
	of := no
	elsewhere := u.place.known && u.place.real != u.place.lexical
	for i := range patterns {
		p := &patterns[i]
		switch {
		case u.pattern != "":
			if p.mayCover(glob.Fold(u.pattern)) && (u.Write == yes || f.mayFind(u.pattern, p)) {
				of = maybe
			}
		case u.place.lexical == "" && !u.place.known:
			of = max(of, maybe)
		case p.covers(glob.Fold(u.place.lexical)) || elsewhere && p.covers(glob.Fold(u.place.real)):
			return yes
		case u.Tree && (u.Hidden || !p.hidden()) && (p.below(glob.Fold(u.place.lexical)) || elsewhere && p.below(glob.Fold(u.place.real))):
			if of = max(of, f.below(u, p)); of == yes {
				return yes
			}
		}
	}
	return of
}

// mayCover is covers for a path that only the shell knows.
func (p *pattern) mayCover(path string) bool {
	rest := p.rest
	if p.exact {
		rest = strings.ReplaceAll(rest, "*", "?") // file names do not have it
	}
	whole := strings.ReplaceAll(p.dir, "*", "?") + "/" + rest
	if p.dir == "" {
		whole = "/" + strings.TrimPrefix(rest, "/")
	}
	return glob.MayMatch(path, whole) || glob.MayMatch(path, whole+"/*") || !p.exact && glob.MayMatch(path+"/", whole)
}

// hidden reports whether the pattern means only names with a dot in front.
func (p *pattern) hidden() bool {
	return strings.HasPrefix(p.rest[strings.LastIndexByte(p.rest, '/')+1:], ".")
}

// mostBelow is how many names below a directory are looked at before it is left to a person.
const mostBelow = 4096

// tree is what lies below a directory.
type tree struct {
	root  string
	names []named
	whole bool
}

// named is a file or directory, with slashes; real is where it leads when it is a link.
type named struct{ name, real string }

// mayFind reports whether there is a file that a pattern of the shell may stand for and that is denied.
// A pattern only stands for files that there are.
func (f *facts) mayFind(word string, p *pattern) bool {
	mark := strings.IndexAny(word, shell.Marks)
	if mark < 0 || strings.ContainsRune(word, shell.Any) {
		return true
	}
	real, err := f.links.resolve(filepath.FromSlash(word[:strings.LastIndexByte(word[:mark], '/')+1]))
	if err != nil {
		return true
	}
	root := slashed(real)
	t := f.listing(root)
	for _, n := range t.names {
		if (p.covers(glob.Fold(n.name)) || n.real != "" && p.covers(glob.Fold(n.real))) && glob.MayMatch(word[strings.LastIndexByte(word[:mark], '/'):], strings.ReplaceAll(strings.TrimPrefix(n.name, root), "*", "?")) {
			return true
		}
	}
	return !t.whole
}

// below says whether a command that goes below a directory meets there what a pattern denies. What is
// made later it does not see; that is what the sandbox is for.
func (f *facts) below(u *used, p *pattern) reach {
	if p.exact && u.Write == yes {
		return yes
	}
	if !u.place.known {
		return maybe
	}
	t := f.listing(u.place.real)
	for _, n := range t.names {
		if !u.Hidden && strings.Contains(strings.TrimPrefix(n.name, t.root), "/.") {
			continue
		}
		if p.covers(glob.Fold(n.name)) || n.real != "" && p.covers(glob.Fold(n.real)) {
			return maybe
		}
	}
	if !t.whole {
		return maybe
	}
	return no
}

func (f *facts) listing(root string) *tree {
	for i := range f.shell.trees {
		if f.shell.trees[i].root == root {
			return &f.shell.trees[i]
		}
	}
	t := tree{root: root, whole: true}
	err := filepath.WalkDir(filepath.FromSlash(root)+string(filepath.Separator), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // what cannot be read here cannot be read by the command
		}
		if len(t.names) >= mostBelow {
			t.whole = false
			return fs.SkipAll
		}
		n := named{name: slashed(name)}
		if d.Type()&fs.ModeSymlink != 0 {
			if real, err := f.links.resolve(name); err == nil {
				n.real = slashed(real)
			}
		}
		t.names = append(t.names, n)
		return nil
	})
	t.whole = t.whole && err == nil
	f.shell.trees = append(f.shell.trees, t)
	return &f.shell.trees[len(f.shell.trees)-1]
}

// below reports whether something below a directory may be meant.
func (p *pattern) below(dir string) bool {
	if _, ok := inside(dir, p.dir); ok && (p.dir != "" || dir == "") {
		return true
	}
	_, ok := inside(p.dir, dir)
	return ok && !p.exact
}
