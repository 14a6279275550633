package file

import (
	"slices"

	"symbio/internal/security/permission/glob"
)

// Except lists the files that a tool must leave out while it walks a directory, because rules deny reading them. A nil
// Except leaves out nothing. It does not change once a verdict has it, reads no file system, and may be used from many
// goroutines.
type Except struct {
	// at is the directory of the walk.
	at Location
	// links are the links that deny anything, each judged by itself.
	links []Denials
}

// Denials are the path patterns of one link of a chain: the rules that deny and the overrides that lift denials.
type Denials struct {
	Final     []Pattern // no override lifts these
	Deny      []Pattern
	Overrides []Pattern // they lift only Deny of the same link
}

// NewExcept returns the exceptions of a walk from at; nil if no link denies anything.
func NewExcept(at Location, links []Denials) *Except {
	links = slices.DeleteFunc(links, func(d Denials) bool { return len(d.Final)+len(d.Deny) == 0 })
	if len(links) == 0 {
		return nil
	}
	return &Except{at, links}
}

// Covers reports whether the walk must leave out a file, or a directory with everything in it. rel is its path below the
// directory that the call names, with slashes. The walk must not have followed a link on the way: the links of rel are not
// resolved here.
func (e *Except) Covers(rel string) bool {
	if e == nil {
		return false
	}
	lexical, real := e.at.Lexical+"/"+rel, e.at.Real+"/"+rel
	return slices.ContainsFunc(e.links, func(d Denials) bool { return d.deny(lexical, real) })
}

// deny reports whether a file with these two names is denied.
func (d Denials) deny(lexical, real string) bool {
	foldLexical, foldReal := glob.Fold(lexical), glob.Fold(real)
	return coveredBy(d.Final, foldLexical, foldReal) || coveredBy(d.Deny, foldLexical, foldReal) && !d.lift(lexical, real)
}

// lift reports whether an override lifts the denials of a file: it has to match both names.
func (d Denials) lift(lexical, real string) bool {
	return slices.ContainsFunc(d.Overrides, func(p Pattern) bool { return p.Matches(lexical, true) && p.Matches(real, true) })
}
