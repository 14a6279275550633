package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"symbio/community"
	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
)

// Label is something that a node must have to get a task: a key such as gpu with any value, or with
// the value that the node must have, such as arch=arm64. node=NAME is a node by its name or id, and
// model=NAME one that has a model whose name begins so.
type Label struct{ Key, Value string }

// The keys that a node sets itself. The configuration cannot set them.
const (
	nodeKey, modelKey                    = "node", "model"
	systemKey, archKey, coresKey, gpuKey = "system", "arch", "cores", "gpu"
	drainingKey, versionKey              = community.DrainingKey, "version"
)

const (
	// maxLabels bounds the labels of a task, and of the configuration: more is a mistake.
	maxLabels = 16
	// maxValue bounds a value, in bytes. Names of models are the longest.
	maxValue = 128
)

var keyPattern = lazyregexp.New(`^[a-z][a-z0-9._-]{0,62}$`)

// ParseLabels reads the labels of a task. The error names the one that is none.
func ParseLabels(texts []string) (all []Label, err error) {
	if len(texts) > maxLabels {
		return nil, fmt.Errorf("%d labels; at most %d can be asked for", len(texts), maxLabels)
	}
	for _, text := range texts {
		key, value, hasValue := strings.Cut(text, "=")
		if err := checkLabel(key, value); err != nil || hasValue && value == "" {
			return nil, fmt.Errorf("%q is no label: write one as gpu, arch=arm64, model=NAME or node=NAME", visible.Prefix(text, maxValue))
		}
		all = append(all, Label{key, value})
	}
	return all, nil
}

func checkLabel(key, value string) error {
	if !keyPattern().MatchString(key) || len(value) > maxValue || visible.Line(value, maxValue) != value {
		return fmt.Errorf("%q: %q is no label: keys are lower-case letters, digits, dots and hyphens, values are at most %d printable characters", key, value, maxValue)
	}
	return nil
}

// CheckLabels checks the labels that a configuration gives its node.
func CheckLabels(own map[string]string) error {
	if len(own) > maxLabels {
		return fmt.Errorf("%d labels; at most %d are allowed", len(own), maxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(own)) {
		if slices.Contains([]string{nodeKey, modelKey, systemKey, archKey, coresKey, gpuKey, drainingKey, versionKey, community.DefinitionKey}, key) {
			return fmt.Errorf("%s is what the node says of itself: choose another name", key)
		}
		if err := checkLabel(key, own[key]); err != nil || own[key] == "" {
			return fmt.Errorf("%s: want a value of at most %d printable characters, and a key of lower-case letters, digits, dots and hyphens", key, maxValue)
		}
	}
	return nil
}

// String returns the label as ParseLabels reads it.
func (l Label) String() string {
	if l.Value == "" {
		return l.Key
	}
	return l.Key + "=" + l.Value
}

// fits reports whether a node has the label.
func (l Label) fits(m community.Member) bool {
	value := m.Metadata[l.Key]
	switch {
	case l.Key == nodeKey:
		return visible.IsNamed(l.Value, m.Name, string(m.ID))
	case l.Key == modelKey && l.Value != "":
		return slices.ContainsFunc(strings.Split(value, ","), func(name string) bool {
			_, bare, _ := strings.Cut(name, ":") // without the provider
			return strings.HasPrefix(name, l.Value) || strings.HasPrefix(bare, l.Value)
		})
	}
	return value != "" && (l.Value == "" || l.Value == value)
}

// fitsAll reports whether a node has all labels.
func fitsAll(m community.Member, where []Label) bool {
	return !slices.ContainsFunc(where, func(l Label) bool { return !l.fits(m) })
}

// describe returns a node's name and labels, for the error of a task that no node fits.
func describe(m community.Member) string {
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(m.Metadata)) {
		labels = append(labels, visible.Line(key+"="+m.Metadata[key], 2*maxValue))
	}
	return m.Name + " (" + strings.Join(labels, " ") + ")"
}

func join(where []Label) string {
	var texts []string
	for _, l := range where {
		texts = append(texts, l.String())
	}
	return strings.Join(texts, ", ")
}
