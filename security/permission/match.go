package permission

import (
	"net/netip"
	"slices"
	"strings"

	"symbio/security/permission/command"
	"symbio/security/permission/endpoint"
	"symbio/security/permission/file"
	"symbio/security/permission/glob"
	"symbio/security/permission/shell"
)

// reach says how far a rule applies to a call; maybe is for what cannot be told.
type reach = shell.Certainty

const no, maybe, yes = shell.No, shell.Maybe, shell.Yes

// facts is what rules look at in a call, found once for all the rules of a chain.
type facts struct {
	call     Call
	names    names // under which an allow rule may name the tool
	denied   names // under which a deny rule may: the names and the family
	subject  subject
	values   []string            // what the subject's arguments hold
	readable bool                // there are values, and all are strings
	places   []file.Location     // one for each value of a path
	goals    []endpoint.Endpoint // one for each value of a URL
	shell    *execution          // of a call that runs commands
	links    *file.Links         // shared by all that is found for one call
	own      file.Links
	strings  []string // every string of the arguments, for opaque subjects
	gathered bool
	kept     func() bool // Call.Kept of what the whole chain denies; nil = no
	named    *string     // its Key, once asked for
}

func look(c Call) *facts {
	f := &facts{call: c, subject: subjectOf(c.Tool)}
	f.links = &f.own
	f.names = namesOf(c.Tool, aliases[c.Tool])
	f.denied = namesOf(c.Tool, aliases[c.Tool], families[c.Tool])
	f.readable = true
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

// isShell says that the call runs commands.
func (f *facts) isShell() bool {
	return f.subject.matter == matterCommand || f.subject.matter == matterGit
}

// targets are where the URLs of the call lead.
func (f *facts) targets() []endpoint.Endpoint {
	if f.goals == nil {
		for _, v := range f.values {
			f.goals = append(f.goals, endpoint.Parse(v))
		}
	}
	return f.goals
}

// oddity says what about the URLs of the call can be read in two ways, "" if nothing.
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

func (f *facts) locations() []file.Location {
	if f.places == nil {
		for _, v := range f.values {
			f.places = append(f.places, f.links.Locate(v, f.call.Dir))
		}
	}
	return f.places
}

// names are some tools' names; tags, the initials, tell most rules apart from them.
type names struct {
	tags uint64
	list [3]string
}

// namesOf returns up to three names; "" is left out. Bit 0 is always set, so that rules with a * in front are compared.
func namesOf(list ...string) (n names) {
	n.tags = 1
	at := 0
	for _, name := range list {
		if name != "" {
			n.tags |= 1 << (name[0] & 63)
			n.list[at] = name
			at++
		}
	}
	return n
}

// namedBy reports whether the rule is about a tool of one of those names.
func (r *Rule) namedBy(n *names) bool {
	return n.tags>>(r.tag&63)&1 != 0 && r.isNamed(n)
}

func (r *Rule) isNamed(names *names) bool {
	if r.form == formNone {
		return false
	}
	for _, n := range names.list {
		if n != "" && (n == r.tool || r.star && glob.Match(r.tool, n)) {
			return true
		}
	}
	return false
}

// allows says whether the rule means this call for certain.
func (r *Rule) allows(f *facts) reach {
	if !r.namedBy(&f.names) {
		return no
	}
	if name, _ := f.protected(); name != "" && !r.spellsPath(name) {
		return no
	}
	if r.form == formTool {
		return yes
	}
	if r.form == formOpaque {
		return r.allowsArgument(f)
	}
	if !f.readable {
		return no
	}
	switch r.form {
	case formPath:
		return r.allowsPath(f)
	case formName:
		return is(!slices.ContainsFunc(f.values, func(v string) bool { return !glob.Match(r.spec, v) }))
	case formDomain:
		return allowsTargets(f, func(e endpoint.Endpoint) bool { return !e.Addr.IsValid() && hostMatches(r.spec, e.Host) })
	case formAddr:
		return allowsTargets(f, func(e endpoint.Endpoint) bool { return slices.Contains(r.reach(), netip.AddrPortFrom(e.Addr, e.Port)) })
	}
	return no
}

func allowsTargets(f *facts, means func(endpoint.Endpoint) bool) reach {
	return is(!slices.ContainsFunc(f.targets(), func(e endpoint.Endpoint) bool { return e.Invalid != "" || e.Ambiguous != "" || !means(e) }))
}

func (r *Rule) allowsPath(f *facts) reach {
	p, ok := r.pattern(f.call.Dir)
	if !ok {
		return no
	}
	means := func(path string) bool {
		if p.Matches(path, f.subject.tree) {
			return true
		}
		real, ok := f.links.Follow(p.Dir)
		return ok && real != p.Dir && p.In(real).Matches(path, f.subject.tree)
	}
	for _, at := range f.locations() {
		if !at.Known || !means(at.Lexical) || !means(at.Real) {
			return no
		}
	}
	return yes
}

// denies says whether the rule may mean this call.
func (r *Rule) denies(f *facts) reach {
	switch {
	case r.form == formNone:
		return yes
	case !r.namedBy(&f.denied):
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
		return r.deniesPath(f)
	case formName:
		return is(slices.ContainsFunc(f.values, func(v string) bool { return glob.Match(r.spec, v) }))
	case formDomain:
		return deniesTargets(f, func(e endpoint.Endpoint) bool { return hostMatches(r.spec, e.Host) })
	case formAddr:
		return deniesTargets(f, r.meansAddr)
	}
	return no
}

func (r *Rule) deniesPath(f *facts) reach {
	var some [4]file.Pattern
	patterns, sure := r.denials(f, some[:0])
	for _, at := range f.locations() {
		for _, p := range patterns {
			if (at.Known || at.Lexical != "") && p.Covers(glob.Fold(at.Lexical)) || at.Known && p.Covers(glob.Fold(at.Real)) {
				return yes
			}
		}
		sure = sure && at.Known
	}
	if !sure {
		return maybe
	}
	return no
}

// deniesStrings compares the spec with every string of a call that nothing is known about.
func (r *Rule) deniesStrings(f *facts) reach {
	if !f.gathered {
		f.strings, f.gathered = gather(nil, f.call.Args), true
		if f.subject.matter == matterPath {
			for _, at := range f.locations() {
				f.strings = append(f.strings, at.Lexical, at.Real)
			}
		}
	}
	_, spec := r.named()
	for _, s := range f.strings {
		if command.Plain(s).Contains(spec) || command.ParseText(s).Contains(spec) {
			return yes
		}
	}
	return no
}

// gather collects every string in a decoded argument, in a stable order.
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

func deniesTargets(f *facts, means func(endpoint.Endpoint) bool) reach {
	most := no
	for _, e := range f.targets() {
		switch {
		case means(e):
			return yes
		case e.Invalid != "" || e.Ambiguous != "":
			most = maybe
		}
	}
	return most
}

func is(b bool) reach {
	if b {
		return yes
	}
	return no
}

// hostMatches compares label by label: *.x means every host below x, and not x.
func hostMatches(spec, host string) bool {
	if parent, ok := strings.CutPrefix(spec, "*."); ok {
		return strings.HasSuffix(host, "."+parent)
	}
	return host == spec
}
