package tool

import (
	"fmt"
	"slices"
	"strings"
)

// Preset is a named list of tools.
type Preset struct {
	Name  string
	Tools []string // names
}

// Presets returns the presets. default has ten tools and Plan, the others have some of
// them.
// A tool that a node does not have, such as WebSearch without a search service, is left out of its
// presets.
func Presets() []Preset {
	files := []string{"Read", "Write", "Edit", "MultiEdit", "Glob", "Grep"}
	commands, web, own := []string{"Bash", "Git"}, []string{"WebFetch", "WebSearch"}, []string{"Plan"}
	return []Preset{
		{"default", slices.Concat(files, commands, web, own)},
		{"read_only", []string{"Read", "Glob", "Grep", "Plan"}},
		{"files", files},
		{"commands", commands},
		{"web", web},
	}
}

// Named returns the tools with these names, in that order. preset:NAME stands for the tools of a
// preset that exist. A missing tool of any other name is an error.
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

// presetMark precedes a preset's name in a list of tool names.
const presetMark = "preset:"

// Expand returns names with each preset:NAME replaced by the preset's tools. Other names and
// unknown presets stay as they are. It does not change names.
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
