package permission

import (
	"slices"

	"symbio/internal/security/permission/file"
)

// FileDenials are the rules that keep files from what a call runs, so that a sandbox can do the
// same. It is a value that does not change; Files reads the file system at each
// call.
type FileDenials struct {
	// dir is the working directory of the call, absolute.
	dir string
	// shown are directories beside dir that the sandbox shows, in which relative rules are meant, too.
	shown []string
	links []Policy // without the Deny that an Override lifts for all that the call runs
}

// DeniedFiles are the files that rules deny and that exist, links resolved, none below another of its list.
type DeniedFiles struct {
	// Hidden are denied to Read, ReadOnly to Write or Edit.
	Hidden, ReadOnly []string // denied to Read, and to Write or Edit
	// Fixed are the paths of Hidden that the rules do not mean in another directory.
	Fixed []string
	// Unknown has a sentence for each reason why files may be missing in the lists. If it is not
	// empty, the sandbox cannot promise to hide all denied files.
	Unknown []string
}

// Denied are the rules about files for commands in dir that no call asks for, such as MCP servers.
func (p Policy) Denied(dir string) *FileDenials { return &FileDenials{dir: dir, links: []Policy{p}} }

// denied returns the denials of all links for a call, with the files that a guardrail asks about unless it asks about this
// call; asked counts them in any case. A link whose overrides lift everything that the call runs contributes only its
// final denials; the sandbox cannot tell commands of one program apart.
func (c Chain) denied(f *facts, asked bool) *FileDenials {
	d := &FileDenials{dir: f.call.Dir}
	for _, l := range c {
		if asked || l.asks(f) == nil {
			l.Policy.FinalDeny = append(slices.Clip(l.Policy.FinalDeny), l.ask...)
		}
		if x := f.ran(); x != nil && allTrue(x.lifted(l.Policy.Override)) {
			l.Policy.Deny = nil
		}
		d.links = append(d.links, l.Policy)
	}
	return d
}

// Rules returns the texts of the rules, sorted, each once.
func (d *FileDenials) Rules() []string {
	all := append(d.search("Read").Rules(), d.search("Write").Rules()...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Files looks for the files in the file system as it is now. A relative rule stands for the files
// below the working directory; a directory that cannot be read counts as denied. It takes up to
// some 0.4 s on a large tree (two searches of at most 100,000 entries), and may be called from
// many goroutines.
func (d *FileDenials) Files() DeniedFiles {
	hidden, fixed, unread := d.search("Read").Run()
	readOnly, _, unwritten := d.search("Write").Run()
	for _, dir := range d.shown {
		more, _, unknown := (&FileDenials{dir: dir, links: d.links}).search("Read").Run()
		hidden, unread = append(hidden, more...), append(unread, unknown...)
	}
	return DeniedFiles{hidden, readOnly, fixed, append(unread, unwritten...)}
}

// search prepares the search for the files that are denied to a tool, Read or Write.
func (d *FileDenials) search(tool string) *file.Search {
	f := look(Call{Tool: tool, Dir: d.dir})
	writes := tool == "Write"
	s := file.NewSearch(d.dir, writes)
	for _, p := range d.links {
		x := denialsOf(p, f)
		for i, list := range [][]Rule{p.FinalDeny, p.Deny} {
			for _, r := range list {
				// A bare Write denies every file. A bare Read would hide the whole disk: then no command could start.
				bare := writes && r.form == formTool
				if !r.namedBy(f.names) || r.form != formPath && !bare {
					continue
				}
				if bare {
					*[]*[]file.Pattern{&x.Final, &x.Deny}[i] = []file.Pattern{{Rest: "*"}}
					s.AddEverything(r.text)
					continue
				}
				at, known := r.path.pattern(d.dir)
				s.AddRule(r.text, at, known, r.path.base == baseAny)
			}
		}
		s.AddLink(x)
	}
	return s
}

// except returns the files that the deny rules of a chain take out of a call that walks a
// directory, and the places with keys that no allow rule names; nil for other calls.
func except(c Chain, f *facts) *file.Except {
	if !f.subject.tree || len(f.locations()) != 1 {
		return nil
	}
	var links []file.Denials
	for _, l := range c {
		d := denialsOf(l.Policy, f)
		if !l.mute {
			// A place with keys may be read if an allow rule about the tool names it.
			allowed := func(name string) bool {
				return slices.ContainsFunc(l.Policy.Allow, func(r Rule) bool { return r.namedBy(f.names.own()) && r.form == formPath && r.path.spells(name) })
			}
			d.Final = append(d.Final, f.locator.links.SecretsBelow(f.places[0], allowed)...)
		}
		links = append(links, d)
	}
	return file.NewExcept(f.places[0], links)
}

// denialsOf returns the patterns of a policy's path rules about the call's tool. Overrides have
// to name the tool itself, not its family.
func denialsOf(p Policy, f *facts) file.Denials {
	d := file.Denials{Final: treeDenials(p.FinalDeny, f), Deny: treeDenials(p.Deny, f)}
	for _, r := range p.Override {
		if p, ok := r.path.pattern(f.call.Dir); ok && r.form == formPath && r.namedBy(f.names.own()) {
			d.Overrides = append(d.Overrides, p)
		}
	}
	return d
}

// treeDenials returns the patterns of the deny rules about the call's tool or its family.
func treeDenials(rules []Rule, f *facts) []file.Pattern {
	var all []file.Pattern
	for _, r := range rules {
		if r.form == formPath && r.namedBy(f.names) {
			all, _ = r.path.denials(f.locator, all)
		}
	}
	return all
}
