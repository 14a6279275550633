package permission

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"symbio/security/permission/shell"
)

// judgeRun goes through the six stages for a call that runs commands. Deny rules are held against every
// command that may run and every file that may be used, allow rules against each command that does
// (security.md D2, 2.2).
func (l Link) judgeRun(f *facts) Verdict {
	p := l.Policy
	r := f.ran()
	denied, unsure := f.firstForbidden(p.FinalDeny, nil, true)
	if denied != nil {
		return decided(Deny, StageFinalDeny, denied, why(denied, "denies this for good")+f.about(denied, nil))
	}
	floor := StageFinalDeny
	answer, here, remembered := l.Memory.recall(f.call, p)
	if remembered && answer == Deny {
		return Verdict{Action: Deny, Stage: StageMemory, Source: "memory", Why: "A person has denied exactly this call before."}
	}
	byMemory := Verdict{Action: Allow, Stage: StageMemory, Source: "memory", Why: "A person has allowed exactly this call before."}
	if remembered && here {
		return cautious(byMemory, floor, unsure)
	}
	lifted := f.lifted(p.Override)
	denied, doubt := f.firstForbidden(p.Deny, lifted, false)
	if denied != nil {
		return decided(Deny, StageDeny, denied, why(denied, "denies this")+f.about(denied, lifted))
	}
	if unsure == nil {
		unsure, floor = doubt, StageDeny
	}
	for _, o := range r.files {
		if firstAllow(p.Override, o.facts) != nil {
			continue
		}
		denied, doubt := firstDeny(p.Deny, o.facts)
		if denied != nil {
			return decided(Deny, StageDeny, denied, fmt.Sprintf("The rule %s denies what it does with %s.", denied.text, o.path))
		}
		if unsure == nil {
			unsure, floor = doubt, StageDeny
		}
	}
	if remembered {
		return cautious(byMemory, floor, unsure)
	}
	return cautious(l.permitRun(f), floor, unsure)
}

func decided(a Action, s Stage, r *Rule, why string) Verdict {
	return Verdict{Action: a, Stage: s, Rule: r.text, Source: "config", Why: why}
}

// about says which of several commands a deny rule means.
func (f *facts) about(r *Rule, lifted []bool) string {
	commands := f.shell.program.Commands
	if len(commands) < 2 || r.form == formTool || !r.namedBy(&f.denied) {
		return ""
	}
	for i := range commands {
		if (lifted == nil || !lifted[i]) && r.forbidsOne(f, i) == yes {
			return fmt.Sprintf(" It means %s.", show(commands[i]))
		}
	}
	return ""
}

// source is a command as a shell reads it: as it was written, unless that names a loop's variable or it is
// inside of another.
func source(c shell.Command) string {
	text := strings.TrimSpace(c.Source())
	if text != "" && !(c.Literal() && strings.Contains(text, "$")) {
		return text
	}
	var words []string
	for _, a := range c.Env {
		words = append(words, a.Name+"="+written(a.Value))
	}
	for _, w := range c.Words {
		words = append(words, written(w))
	}
	return strings.Join(words, " ")
}

func written(w shell.Word) string {
	switch {
	case w.Dynamic:
		return w.Text
	case w.Tilde && w.Text == "~":
		return "~"
	case w.Tilde:
		return "~/" + quoted(strings.TrimPrefix(w.Text, "~/"))
	}
	return quoted(w.Text)
}

// show writes a command for people.
func show(c shell.Command) string {
	text := source(c)
	if len(text) > 80 {
		text = strings.ToValidUTF8(text[:77], "") + "…"
	}
	return "`" + strings.ReplaceAll(text, "\n", "⏎") + "`"
}

// lifted says which commands an override means; nil is none. The overrides are those of this link, and
// hold for single commands.
func (f *facts) lifted(rules []Rule) []bool {
	if len(rules) == 0 {
		return nil
	}
	all := make([]bool, len(f.shell.program.Commands))
	any := false
	for j := range rules {
		// A rule for the whole tool also means a program without commands, such as x=1.
		any = any || len(all) == 0 && rules[j].form == formTool && rules[j].namedBy(&f.names)
	}
	for i := range all {
		for j := range rules {
			r := &rules[j]
			if !r.namedBy(&f.names) {
				continue
			}
			if _, ok, _ := r.covers(f, i); ok {
				all[i], any = true, true
			}
		}
	}
	if !any {
		return nil
	}
	return all
}

// firstForbidden finds a rule that denies the call, and else one that may. files says to look at
// redirections too; where there are overrides, each has its own.
func (f *facts) firstForbidden(rules []Rule, lifted []bool, files bool) (denies, may *Rule) {
	for i := range rules {
		switch rules[i].forbidsRun(f, lifted, files) {
		case yes:
			return &rules[i], nil
		case maybe:
			if may == nil {
				may = &rules[i]
			}
		}
	}
	return nil, may
}

// forbidsRun says whether a deny rule may mean what the call runs.
func (r *Rule) forbidsRun(f *facts, lifted []bool, files bool) reach {
	if r.form == formNone {
		return yes
	}
	s := f.shell
	byTool := r.namedBy(&f.denied)
	switch {
	case byTool && r.form == formTool:
		return is(!allTrue(lifted) || s.runs && !allTrue(lifted))
	case byTool && s.unclear && f.subject.matter == matterCommand:
		return maybe
	case byTool && r.form == formOpaque:
		return r.deniesStrings(f)
	}
	of := no
	reads, writes := r.namedBy(&readers), r.namedBy(&writers)
	switch {
	case byTool, r.tool == "Git":
		for i := range s.program.Commands {
			if lifted == nil || !lifted[i] {
				if of = max(of, r.forbidsOne(f, i)); of == yes {
					return yes
				}
			}
		}
	case reads || writes:
		return r.forbidsFiles(f, reads, writes, lifted, files)
	default:
		return no
	}
	if r.form != formTool && s.unknown() && !allTrue(lifted) {
		// What the tree does not show may still stand in the text.
		of = maybe
		if r.heldBy(s.words()) {
			return yes
		}
	}
	return of
}

var (
	readers = namesOf("Read")
	writers = func() names { n := namesOf("Edit"); n.add("Write"); return n }()
)

func allTrue(list []bool) bool {
	for _, b := range list {
		if !b {
			return false
		}
	}
	return list != nil
}

// unknown reports whether something may run that is not among the commands.
func (s *run) unknown() bool {
	if s.runs || s.unclear {
		return true
	}
	for _, c := range s.program.Commands {
		if c.Code != "" {
			return false
		}
	}
	return false
}

// words is the whole text as words.
func (s *run) words() command {
	if s.whole.text == "" {
		text := s.text
		if text == "" {
			text = strings.Join(s.argv, " ")
		}
		s.whole = readShell(text)
	}
	return s.whole
}

// heldBy reports whether a command may stand in a text, by its words alone.
func (r *Rule) heldBy(c command) bool {
	spec := r.spec
	if r.tool == "Git" {
		spec = "git " + spec
	}
	if r.form == formGlob || r.form == formOperands {
		return c.holds(spec)
	}
	return c.mayRun(spec)
}

// forbidsOne says whether a deny rule may mean one of the commands.
func (r *Rule) forbidsOne(f *facts, i int) reach {
	c := &f.shell.program.Commands[i]
	if r.tool == "Git" && r.form == formTool {
		name := c.Name()
		return is(name == "git" || strings.HasPrefix(name, "git-"))
	}
	if r.form == formTool {
		return yes
	}
	how := r.forbids(c)
	if how != yes && c.Code != "" && r.heldBy(readShell(c.Code)) {
		return yes
	}
	if how == no && r.first != "" && len(c.Words) > 2 && mentions(c, r.first) && f.guard(i, 1) != "" && r.heldBy(readShell(joined(c))) {
		return maybe // an option may run it
	}
	if how != yes && r.words().head == "" && r.form != formGlob && r.form != formOperands && i == 0 && r.heldBy(f.shell.words()) {
		return yes // the spec is no simple command: what is left is its words
	}
	if how != yes && r.form == formGlob && i == 0 && strings.ContainsAny(r.spec, "|;&<>$`") && f.shell.words().holds(r.spec) {
		return yes
	}
	return how
}

// mentions reports whether a name occurs in the arguments.
func mentions(c *shell.Command, name string) bool {
	for _, w := range c.Words[1:] {
		if strings.Contains(fold(w.Text), name) {
			return true
		}
	}
	return false
}

func joined(c *shell.Command) string {
	var words []string
	for _, w := range c.Words[1:] {
		words = append(words, w.Text)
	}
	return strings.Join(words, " ")
}

// forbidsFiles says whether a command uses a file that a rule denies to the file tools (security.md 8.4).
func (r *Rule) forbidsFiles(f *facts, reads, writes bool, lifted []bool, files bool) reach {
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
		if code := f.shell.program.Commands[i].Code; code != "" && of == no && r.namesIn(code, f) {
			of = maybe
		}
		uses := f.usesOf(i)
		for j := range uses {
			u, use := &uses[j], 0
			if reads {
				use = u.Read
			}
			if writes {
				use = max(use, u.Write)
			}
			switch {
			case use == shell.No:
			case r.form == formTool:
				if use == shell.Yes {
					return yes
				}
			case r.form == formPath:
				if patterns == nil {
					patterns, _ = r.denials(f, some[:0])
				}
				hit := f.within(u, patterns)
				if use == shell.Maybe {
					hit = min(hit, maybe)
				}
				if of = max(of, hit); of == yes {
					return yes
				}
			}
		}
	}
	if f.shell.runs {
		of = max(of, maybe)
	}
	return of
}

// namesIn reports whether a text in another language names what a path rule is about, as far as a rule says it
// literally.
func (r *Rule) namesIn(code string, f *facts) bool {
	if r.form != formPath {
		return r.form == formTool // of every file, nobody can tell
	}
	p, ok := r.pattern(f.call.Dir)
	if !ok {
		return true
	}
	name, _, _ := strings.Cut(p.rest, "*")
	if p.exact || len(name) > 1 && r.base != baseRoot {
		return strings.Contains(fold(code), fold(strings.TrimSuffix(name, "/")))
	}
	return p.dir != "" && strings.Contains(fold(code), fold(p.dir))
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
			if p.mayCover(fold(u.pattern)) && (u.Write == shell.Yes || f.mayFind(u.pattern, p)) {
				of = maybe
			}
		case u.place.lexical == "" && !u.place.known:
			of = max(of, maybe)
		case p.covers(fold(u.place.lexical)) || elsewhere && p.covers(fold(u.place.real)):
			return yes
		case u.Tree && (u.Hidden || !p.hidden()) && (p.below(fold(u.place.lexical)) || elsewhere && p.below(fold(u.place.real))):
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
		rest = strings.ReplaceAll(rest, "*", "?") // nobody names files so
	}
	whole := strings.ReplaceAll(p.dir, "*", "?") + "/" + rest
	if p.dir == "" {
		whole = "/" + strings.TrimPrefix(rest, "/")
	}
	return mayMatch(path, whole) || mayMatch(path, whole+"/*") || !p.exact && mayMatch(path+"/", whole)
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
		if (p.covers(fold(n.name)) || n.real != "" && p.covers(fold(n.real))) && mayMatch(word[strings.LastIndexByte(word[:mark], '/'):], strings.ReplaceAll(strings.TrimPrefix(n.name, root), "*", "?")) {
			return true
		}
	}
	return !t.whole
}

// below says whether a command that goes below a directory meets there what a pattern denies. What is
// made later it does not see; that is what the sandbox is for.
func (f *facts) below(u *used, p *pattern) reach {
	if p.exact && u.Write == shell.Yes {
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
		if p.covers(fold(n.name)) || n.real != "" && p.covers(fold(n.real)) {
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
