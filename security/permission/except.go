package permission

import (
	"slices"
	"strings"

	"symbio/security/permission/glob"
)

// Except is what a call that walks a directory has to leave out: the files below it that a deny rule
// on reading covers. A nil Except leaves out nothing. It is fixed when the verdict is made, reads no
// file system, and may be used from many goroutines.
type Except struct {
	lexical, real string
	links         []exceptions
}

// exceptions are one link's.
type exceptions struct {
	final, deny []pattern
	lifted      []pattern
}

// Covers reports whether to leave out a file or directory below the path that the call names, given
// by its name from there on with slashes. The walk must not have followed a link to get there. Of a
// directory it means everything in it.
func (e *Except) Covers(rel string) bool {
	if e == nil {
		return false
	}
	lexical, real := glob.Fold(e.lexical+"/"+rel), glob.Fold(e.real+"/"+rel)
	return slices.ContainsFunc(e.links, func(x exceptions) bool {
		return coveredBy(x.final, lexical, real) || coveredBy(x.deny, lexical, real) && !x.lifts(e.lexical+"/"+rel, e.real+"/"+rel)
	})
}

func coveredBy(patterns []pattern, lexical, real string) bool {
	return slices.ContainsFunc(patterns, func(p pattern) bool { return p.covers(lexical) || lexical != real && p.covers(real) })
}

func (x exceptions) lifts(lexical, real string) bool {
	return slices.ContainsFunc(x.lifted, func(p pattern) bool { return p.matches(lexical, true) && p.matches(real, true) })
}

// except gathers what the deny rules of a chain leave out of a call that walks a directory.
func except(c Chain, f *facts) *Except {
	if !f.subject.tree || len(f.locations()) != 1 {
		return nil
	}
	at := f.places[0]
	e := &Except{lexical: at.lexical, real: at.real}
	for _, l := range c {
		x := exceptionsOf(l.Policy, f)
		if !l.mute {
			x.final = append(x.final, f.secretsBelow(l.Policy.Allow)...)
		}
		if len(x.final)+len(x.deny) == 0 {
			continue
		}
		e.links = append(e.links, x)
	}
	if len(e.links) == 0 {
		return nil
	}
	return e
}

// exceptionsOf are those that a policy makes for a tool.
func exceptionsOf(p Policy, f *facts) exceptions {
	x := exceptions{final: treeDenials(p.FinalDeny, f), deny: treeDenials(p.Deny, f)}
	for _, r := range p.Override {
		if p, ok := r.pattern(f.call.Dir); ok && r.form == formPath && r.namedBy(&f.names) {
			x.lifted = append(x.lifted, p)
		}
	}
	return x
}

// treeDenials are the patterns of the deny rules about the call's tool or its family that may cover
// something below the call's path.
func treeDenials(rules []Rule, f *facts) []pattern {
	var all []pattern
	for _, r := range rules {
		if r.form == formPath && r.namedBy(&f.denied) {
			all, _ = r.denials(f, all)
		}
	}
	return all
}

// String lists the patterns, for people.
func (e *Except) String() string {
	if e == nil {
		return ""
	}
	var all []string
	for _, l := range e.links {
		for _, p := range append(l.final, l.deny...) {
			all = append(all, p.dir+"/"+p.rest)
		}
	}
	return strings.Join(all, " ")
}
