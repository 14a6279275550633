package permission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"symbio/internal/security/permission/file"
)

// Box is what holds a command while it runs; "" for calls that run none.
type Box string

// The boxes, narrowest first (decision 0058).
const (
	// BoxLook reads the workspace and the system, and changes nothing: no file, no network, no other process. So a command
	// in it is not asked about, whatever its text is.
	BoxLook Box = "look"
	// BoxWork is the sandbox of the node's configuration: commands change files of the workspace.
	BoxWork Box = "work"
	// BoxNetwork is BoxWork with the network of the machine. No rule allows it: a person does, call by call.
	BoxNetwork Box = "network"
)

// Meet returns the narrower box. "" says nothing.
func (b Box) Meet(other Box) Box {
	for _, one := range []Box{BoxLook, BoxWork, BoxNetwork} {
		if b == one || other == one {
			return one
		}
	}
	return ""
}

// AccessArg is the argument of Bash and Git by which a model asks for a box: look, write or network. Without it a command
// runs in the widest box that needs no question.
const AccessArg = "access"

// accesses are the values of AccessArg.
var accesses = map[string]Box{"look": BoxLook, "write": BoxWork, "network": BoxNetwork}

// wants returns the box that the call asks for; "" if it leaves that to the rules. ok is false for a value that is none.
func (c Call) wants() (b Box, ok bool) {
	text, isText := c.Args[AccessArg].(string)
	if _, given := c.Args[AccessArg]; !given || isText && text == "" {
		return "", true
	}
	b, ok = accesses[text]
	return b, ok
}

// boxMark begins the spec of a rule that names a box, such as Bash(box:look).
const boxMark = "box:"

// readBox reads the spec of a rule that names a box.
func readBox(r *Rule) (at int, reason string) {
	r.box = Box(strings.TrimPrefix(r.spec, boxMark))
	if r.box != BoxLook && r.box != BoxWork {
		return len(boxMark), fmt.Sprintf("there is no box %q for rules: write %s or %s", string(r.box), BoxLook, BoxWork)
	}
	r.form = formBox
	return 0, ""
}

// boxRule returns the rule or grant of the link that allows every command in a box, and its source; nil if there is none.
func (l Link) boxRule(x *execution, box Box) (rule *Rule, source string) {
	l.allowRules(x).each(func(r *Rule, s string) bool {
		if r.form == formBox && r.box == box {
			rule, source = r, s
		}
		return rule != nil
	})
	return rule, source
}

// looks reports whether this machine has BoxLook, holds whether it has BoxWork.
func (c Call) looks() bool { return c.HasBox != nil && c.HasBox(BoxLook) }
func (c Call) holds() bool { return c.HasBox != nil && c.HasBox(BoxWork) }

// boxed returns the verdict on a call that runs commands, given what rules for commands say, with the box that holds it.
// unsure is a deny rule that perhaps covers the call, nil = none, and stage its stage.
func (l Link) boxed(x *execution, v Verdict, stage Stage, unsure *Rule) Verdict {
	want, ok := x.facts.call.wants()
	if !ok || x.unclear {
		return v
	}
	if v.Action == Allow {
		return l.allowedBox(x, v, want)
	}
	in, found := l.inBox(x, want)
	if !found && v.Action == Ask && want == BoxNetwork {
		v.Why += " It would have the network of this machine."
	}
	if !found {
		return v
	}
	box := in.Box
	if box != BoxLook || unsure == nil || !needsBox(unsure) {
		in = askIfUnsure(in, stage, unsure)
	}
	in.Box = box
	return in
}

// allowedBox returns an allowing verdict with the box that holds the call, which asks for want. The network is a question
// unless a person has answered it for exactly this call.
func (l Link) allowedBox(x *execution, v Verdict, want Box) Verdict {
	answered := v.Rule == "" && v.Stage != StageDefault
	if in, found := l.inBox(x, want); found && answered && want == "" {
		want = in.Box // where the question was about
	}
	switch {
	case v.Rule == "" && v.Stage == StageDefault && l.Policy.Default != Allow && x.facts.call.looks():
		want = BoxLook // no rule allows it: that it needs none is read from its text
	case want == BoxNetwork && l.Memory != nil && !answered:
		return Verdict{Action: Ask, Stage: StageDefault, Why: "It asks for the network of this machine, and no rule allows that."}
	case want == "" && v.Box == BoxLook && x.facts.call.looks() && x.facts.call.holds():
		want = BoxLook
		v.Why += " It names the beginning of the command only, so it runs where it changes nothing, unless it asks for access to write."
	case want == BoxLook && !x.facts.call.looks():
		want = BoxWork
	}
	v.Box = cmp.Or(want, BoxWork)
	return v
}

// inBox returns the verdict on a call that no rule for commands allows, by a rule that allows every command in a box, and
// whether there is one.
func (l Link) inBox(x *execution, want Box) (v Verdict, found bool) {
	if want == BoxNetwork {
		return v, false
	}
	if r, source := l.boxRule(x, BoxWork); r != nil && want != BoxLook && x.facts.call.holds() && x.kept() {
		v = decided(Allow, StageAllow, r, "allows this: it changes files only where the sandbox lets commands write")
		v.Box, v.Source = BoxWork, source
		return v, true
	}
	r, _ := l.boxRule(x, BoxLook) // no grant is one
	if r == nil || want == BoxWork {
		return v, false
	}
	if !x.facts.call.looks() {
		return l.lookUnheld(x, r)
	}
	v = decided(Allow, StageAllow, r, "allows this: it changes no file and has no network")
	v.Box = BoxLook
	return v, true
}

// needsBox reports whether a deny rule is one of the presets', which are against things that BoxLook prevents. A command that
// they perhaps cover runs there without a question; one that they cover is denied.
func needsBox(r *Rule) bool { return r.text == "Bash(sudo:*)" || r.text == "Bash(rm -rf:*)" }

// askedBox returns the box of a command that a person allows; "" for other calls.
func (f *facts) askedBox() Box {
	if want, _ := f.call.wants(); f.ran() != nil {
		return cmp.Or(want, BoxWork)
	}
	return ""
}

// readable returns the directories of rules for Read in which the chain lets the call's agent read every file.
func (c Chain) readable(call Call) (dirs []string) {
	for _, l := range c {
		for i := range l.Policy.Allow {
			dir := readsBelow(&l.Policy.Allow[i], call.Dir)
			if dir == "" || slices.Contains(dirs, dir) {
				continue
			}
			file := Call{Tool: "Read", Args: map[string]any{"file_path": dir + "/file"}, Dir: call.Dir, Within: call.Within}
			if c.Judge(file).Action == Allow {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// readsBelow returns the directory in which a rule is for Read of every file, unless it is relative to the working
// directory; "" for other rules.
func readsBelow(r *Rule, dir string) string {
	if r.form != formPath || r.path.base == baseDir || r.path.base == baseAny || !r.namedBy(readers) {
		return ""
	}
	p, ok := r.path.pattern(dir)
	if _, below := file.Below(file.Clean(dir), p.Dir); !ok || p.Rest != "*" || below { // a command can replace what is below by a link
		return ""
	}
	return p.Dir
}
