package config

import (
	"slices"
	"strings"

	"symbio/internal/agent/placement"
)

// Placement says where the sub-agents of agents run for which the model names no node.
type Placement struct {
	Strategy placement.Strategy `yaml:"strategy"`
	// Local is how many of them run here at the same time, and Queue how many wait when all places
	// are taken.
	Local int `yaml:"local"`
	Queue int `yaml:"queue"`
}

// defaultPlacement runs as many sub-agents here as a node lends.
func defaultPlacement() Placement {
	return Placement{Strategy: placement.LocalFirst, Local: defaultLentAgents, Queue: 256}
}

// check reports values that cannot be used, also among the labels.
func (p Placement) check(labels map[string]string, bad func(format string, args ...any)) {
	if names := placement.Strategies(); !slices.Contains(names, string(p.Strategy)) {
		bad("placement.strategy: %q is none of %s", p.Strategy, strings.Join(names, ", "))
	}
	if p.Local < 1 || p.Queue < 1 {
		bad("placement: local and queue have to be above 0")
	}
	if err := placement.CheckLabels(labels); err != nil {
		bad("labels: %w", err)
	}
}
