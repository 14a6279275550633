package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"symbio/community"
	"symbio/internal/security/visible"
)

// selfKeys returns the keys that a node sets itself. The configuration cannot set them.
func selfKeys() []string {
	return []string{"node", "model", "system", "arch", "cores", "version", community.DrainingKey, community.DefinitionKey}
}

// CheckLabels checks the labels that a configuration gives its node.
func CheckLabels(own map[string]string) error {
	if len(own) > community.MaxLabels {
		return fmt.Errorf("%d labels; at most %d are allowed", len(own), community.MaxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(own)) {
		if slices.Contains(selfKeys(), key) {
			return fmt.Errorf("%s is what the node says of itself: choose another name", key)
		}
		if err := community.CheckLabel(key, own[key]); err != nil || own[key] == "" {
			return fmt.Errorf("%s: want a value of at most %d printable characters, and a key of lower-case letters, digits, dots and hyphens", key, community.MaxLabelValue)
		}
	}
	return nil
}

// describe returns a node's name and labels, for the error of a task that no node fits.
func describe(m community.Member) string {
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(m.Metadata)) {
		labels = append(labels, visible.Line(key+"="+m.Metadata[key], 2*community.MaxLabelValue))
	}
	return m.Name + " (" + strings.Join(labels, " ") + ")"
}

func join(where []community.Label) string {
	var texts []string
	for _, l := range where {
		texts = append(texts, l.String())
	}
	return strings.Join(texts, ", ")
}
