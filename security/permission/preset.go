package permission

import (
	"fmt"
	"slices"
	"strings"
)

// reading are the tools that only look at the workspace, the members and the skills, or activate
// and deactivate a skill.
var reading = []string{"Read", "Glob", "Grep", "find_members", "activate_skill", "skill_load", "skill_search", "deactivate_skill"}

// must parses the rules of a preset. They are constants of this file, so an error is a bug and
// panics in every test.
func must(texts ...string) []Rule {
	var rules []Rule
	for _, t := range texts {
		r, err := ParseRule(t)
		if err != nil {
			panic(err)
		}
		rules = append(rules, r)
	}
	return rules
}

// Standard returns the preset that lets an agent look around, with commands in the box that only looks, and spawn
// sub-agents, which spend its budget and may do no more than it may, and asks about the rest.
func Standard() Policy {
	return Policy{FinalDeny: must("Bash(sudo:*)"), Deny: must("Bash(rm -rf:*)"),
		Allow: must(slices.Concat(reading, []string{"replicate_agent", "Bash(box:look)", "Git(box:look)"})...), Default: Ask}
}

// Development returns Standard with leave to write in the workspace, use git, and work with other
// agents.
func Development() Policy {
	p := Standard()
	p.Allow = append(p.Allow, must("Write", "Edit", "MultiEdit", "Git", "send_signal", "invoke_capability")...)
	return p
}

// Workspace returns Standard with leave to change files below the working directory, by tools and by commands that the
// sandbox holds. It asks about what leaves the directory, and about files there that other programs obey.
func Workspace() Policy {
	p := Standard()
	p.Allow = append(p.Allow, must(changing...)...)
	return p
}

// changing are the rules that let files below the working directory be changed, by tools and by commands that the sandbox holds.
var changing = []string{"Write(./*)", "Edit(./*)", "MultiEdit(./*)", "Bash(box:work)", "Git(box:work)"}

// Restrictive returns the preset that lets an agent read below its working directory and denies
// the rest.
func Restrictive() Policy {
	return Policy{FinalDeny: must("Bash"), Allow: must("Read(./*)", "Glob(./*)", "Grep(./*)"), Default: Deny}
}

// ReadOnly returns the preset that lets an agent look around, and denies for good what writes or
// runs something.
func ReadOnly() Policy {
	return Policy{FinalDeny: must("Edit", "Bash"), Allow: must(reading...), Default: Deny}
}

// Permissive returns the preset that allows what no rule denies. The sandbox still holds.
func Permissive() Policy { return Policy{Default: Allow} }

// presets are the presets by name, in the order in which people are shown them. "none" has no rules and asks.
var presets = []struct {
	name   string
	policy func() Policy
}{
	{"standard", Standard}, {"workspace", Workspace}, {"development", Development}, {"restrictive", Restrictive}, {"read_only", ReadOnly},
	{"permissive", Permissive}, {"none", func() Policy { return Policy{Default: Ask} }},
}

// PresetNames returns the names that Preset knows, without other spellings.
func PresetNames() (names []string) {
	for _, p := range presets {
		names = append(names, p.name)
	}
	return names
}

// PresetSpellings returns the other spellings of names of presets, such as readOnly.
func PresetSpellings() []string { return []string{"readOnly", "read-only", "readonly"} }

// PresetName returns the name in PresetNames that is meant by a name or one of PresetSpellings; of
// an unknown name, the name itself.
func PresetName(name string) string {
	if slices.Contains(PresetSpellings(), name) {
		return "read_only"
	}
	return name
}

// Preset returns a policy by its name, in each of its spellings. An unknown name is an error, and the Policy beside it
// denies everything.
func Preset(name string) (Policy, error) {
	for _, p := range presets {
		if p.name == PresetName(name) {
			return p.policy(), nil
		}
	}
	return Policy{}, fmt.Errorf("there is no permission preset %q: write one of %s", name, strings.Join(PresetNames(), ", "))
}
