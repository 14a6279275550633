package permission

import (
	"slices"
	"strings"

	"symbio/internal/security/permission/command"
	"symbio/internal/security/permission/endpoint"
	"symbio/internal/security/permission/file"
	"symbio/internal/security/permission/glob"
	"symbio/internal/security/permission/shell"
)

// reach is how certain it is that a rule applies to a call. Allow rules need yes. Deny rules
// decide with yes and make a question of maybe, so that a call that cannot be read is never
// silently allowed.
type reach = shell.Certainty

const no, maybe, yes = shell.No, shell.Maybe, shell.Yes

// facts is what rules look at in one call: its tool, its values, its files (locator) and what it runs
// (execution). It is collected once and shared by all rules of a chain, because following links and
// parsing a command cost far more than comparing them. A facts is for one goroutine.
type facts struct {
	call Call
	// names are the tool's own, its alias and its family. A deny rule may name the tool by each, an allow rule by names.own.
	names   names
	subject subject
	// values are what the subject's arguments hold; "" for one that is no string.
	values []string
	// readable means that there are values, and all are strings. Else path, name and URL rules
	// allow nothing, and a deny rule is unsure.
	readable bool
	// places has one Location for each value of a path; nil until locations.
	places []file.Location
	// goals has one Endpoint for each value of a URL; nil until targets.
	goals []endpoint.Endpoint
	// shell is what a call of Bash or Git runs; nil until ran, and for other tools.
	shell *execution
	// locator finds the call's files. That of a redirection is the one of the call around it.
	locator *locator
	// strings are all strings of the arguments, for opaque subjects; nil until deniesStrings.
	strings []string
	// named is the call's Key, once asked for.
	named *string
}

// look decodes the arguments that rules for the call's tool look at. It reads no file: paths,
// URLs and commands are parsed when a rule first asks for them.
func look(c Call) *facts { return lookAt(c, &locator{dir: c.Dir}) }

// lookAt is look for a call that is part of another, whose locator it uses.
func lookAt(c Call, at *locator) *facts {
	f := &facts{call: c, subject: subjectOf(c.Tool), names: names{c.Tool, aliases[c.Tool], families[c.Tool]}, readable: true, locator: at}
	for _, arg := range f.subject.args {
		if v, ok := c.Args[arg]; ok {
			s, isString := v.(string)
			f.readable = f.readable && isString
			f.values = append(f.values, s)
		}
	}
	if len(f.values) == 0 && f.subject.absent != "" {
		f.values = []string{f.subject.absent}
	}
	f.readable = f.readable && len(f.values) > 0
	return f
}

// targets returns one Endpoint for each URL of the call, parsed once.
func (f *facts) targets() []endpoint.Endpoint {
	if f.goals == nil {
		for _, v := range f.values {
			f.goals = append(f.goals, endpoint.Parse(v))
		}
	}
	return f.goals
}

// oddity returns what about the call's URLs two parsers might read differently, as a clause; ""
// if nothing. Such a URL is never allowed by a rule, since the tool's client might go to the
// other host.
func (f *facts) oddity() string {
	if f.subject.matter != matterURL {
		return ""
	}
	for _, e := range f.targets() {
		if e.Ambiguous != "" {
			return e.Ambiguous
		}
	}
	return ""
}

// locations returns one Location for each path of the call, with links followed. The result is
// kept, so that all rules judge the same state of the file system.
func (f *facts) locations() []file.Location {
	if f.places == nil {
		for _, v := range f.values {
			f.places = append(f.places, f.locator.links.Locate(v, f.call.Dir))
		}
	}
	return f.places
}

// names are the names of a tool, or of several; "" is none.
type names []string

// own returns the names of a tool without its family, of which allow rules know nothing. n is facts.names.
func (n names) own() names { return n[:2] }

// namedBy reports whether the rule is about a tool with one of those names, with * as a wildcard. The zero Rule is about none.
func (r *Rule) namedBy(names names) bool {
	return r.form != formNone && slices.ContainsFunc(names, func(n string) bool { return n != "" && glob.Match(r.tool, n) })
}

// allows returns yes only if the rule certainly covers the call, else no; never maybe. Protected
// names and places with keys need a rule that spells them, so that Write or Read(*) does not open
// ~/.ssh or .git/hooks. Commands are not its task; see commandRule.covers.
func (r *Rule) allows(f *facts) reach {
	if !r.namedBy(f.names.own()) {
		return no
	}
	if name, _ := f.protected(); name != "" && !(r.form == formPath && r.path.spells(name)) {
		return no
	}
	if r.form == formTool {
		return yes
	}
	if r.form == formOpaque {
		return r.allowsArgument(f.call.Args)
	}
	if !f.readable {
		return no
	}
	switch r.form {
	case formPath:
		return r.path.allows(f)
	case formName:
		return is(!slices.ContainsFunc(f.values, func(v string) bool { return !glob.Match(r.spec, v) }))
	case formDomain:
		return allowsTargets(f.targets(), func(e endpoint.Endpoint) bool { return !e.Addr.IsValid() && glob.Match(r.spec, e.Host) })
	case formAddr:
		return allowsTargets(f.targets(), func(e endpoint.Endpoint) bool { return r.address.allows(e) })
	}
	return no
}

// allowsTargets returns yes if every URL of the call is valid, has one reading and satisfies
// means. It is also yes for no URLs; the caller has checked that there are some.
func allowsTargets(all []endpoint.Endpoint, means func(endpoint.Endpoint) bool) reach {
	return is(!slices.ContainsFunc(all, func(e endpoint.Endpoint) bool { return e.Invalid != "" || e.Ambiguous != "" || !means(e) }))
}

// denies returns yes if the rule covers the call, maybe if that cannot be told, and no
// otherwise. The zero Rule denies every call, so a rule that could not be read never opens
// anything.
func (r *Rule) denies(f *facts) reach {
	switch {
	case r.form == formNone:
		return yes
	case !r.namedBy(f.names):
		return no
	case r.form == formTool:
		return yes
	case f.subject.matter == matterOpaque || r.form == formOpaque:
		return r.deniesStrings(f)
	case !f.readable:
		return maybe
	}
	switch r.form {
	case formPath:
		return r.path.denies(f)
	case formName:
		// Of names with a blank between them, each may be meant.
		named := append(strings.Fields(r.spec), r.spec)
		return is(slices.ContainsFunc(f.values, func(v string) bool {
			return slices.ContainsFunc(named, func(name string) bool { return glob.Match(name, v) })
		}))
	case formDomain:
		return deniesTargets(f.targets(), func(e endpoint.Endpoint) bool { return glob.Match(r.spec, e.Host) })
	case formAddr:
		return deniesTargets(f.targets(), r.address.denies)
	}
	return no
}

// deniesStrings compares the spec with every string in the arguments, for tools about which nothing
// is known. A deny rule may hit too much here; an allow rule never uses this. For path tools the
// resolved paths are searched, too.
func (r *Rule) deniesStrings(f *facts) reach {
	if f.strings == nil {
		f.strings = gather(nil, f.call.Args)
		if f.subject.matter == matterPath {
			for _, at := range f.locations() {
				f.strings = append(f.strings, at.Lexical, at.Real)
			}
		}
	}
	_, spec := r.named()
	for _, s := range f.strings {
		if command.Contains(s, spec) {
			return yes
		}
	}
	return no
}

// gather appends every string in a decoded argument, in a stable order: keys of objects are
// sorted, so that messages and digests are the same each time.
func gather(to []string, v any) []string {
	switch v := v.(type) {
	case string:
		to = append(to, v)
	case []any:
		for _, e := range v {
			to = gather(to, e)
		}
	case map[string]any:
		for _, k := range sortedKeys(v) {
			to = gather(to, v[k])
		}
	}
	return to
}

// deniesTargets returns yes if means is true of one URL, and maybe if a URL is invalid or has
// two readings.
func deniesTargets(all []endpoint.Endpoint, means func(endpoint.Endpoint) bool) reach {
	most := no
	for _, e := range all {
		switch {
		case means(e):
			return yes
		case e.Invalid != "" || e.Ambiguous != "":
			most = maybe
		}
	}
	return most
}

// is turns a certain answer into a Certainty.
func is(b bool) reach {
	if b {
		return yes
	}
	return no
}
