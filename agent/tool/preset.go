package tool

import (
	"fmt"
	"slices"
	"strings"
)

// Preset is a named set of tools (spec: swiftagent.md, AgentTools).
type Preset struct {
	Name  string
	Tools []string // names
}

// Presets are the named sets: default has all ten of the spec, the others are parts of it. Where a node has one of the
// tools not, as WebSearch without an instance to ask, a preset does without.
func Presets() []Preset {
	files := []string{"Read", "Write", "Edit", "MultiEdit", "Glob", "Grep"}
	commands, web := []string{"Bash", "Git"}, []string{"WebFetch", "WebSearch"}
	return []Preset{
		{"default", slices.Concat(files, commands, web)},
		{"read_only", []string{"Read", "Glob", "Grep"}},
		{"files", files},
		{"commands", commands},
		{"web", web},
	}
}

// Named returns the tools of these names, in the order of the names. preset:NAME stands for the tools of a preset, as far
// as they are there. It is an error if a tool of any other name is not there.
func Named(all []Tool, names ...string) ([]Tool, error) {
	var chosen []Tool
	for _, name := range Expand(names) {
		if i := slices.IndexFunc(all, func(t Tool) bool { return t.Spec().Name == name }); i >= 0 {
			chosen = append(chosen, all[i])
		} else if slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no tool %q", name)
		}
	}
	return chosen, nil
}

// presetMark stands in front of a preset's name among the names of tools.
const presetMark = "preset:"

// Expand puts the tools of a preset in its place, where a name is preset:NAME. Of others, and of presets that there
// are not, it changes nothing. It returns a new list.
func Expand(names []string) []string {
	all := make([]string, 0, len(names))
	for _, name := range names {
		preset, _ := strings.CutPrefix(name, presetMark)
		i := slices.IndexFunc(Presets(), func(p Preset) bool { return preset != name && p.Name == preset })
		if i < 0 {
			all = append(all, name)
			continue
		}
		all = append(all, Presets()[i].Tools...)
	}
	return all
}
