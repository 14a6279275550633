package format

import (
	"maps"
	"slices"
	"strings"

	"symbio/internal/security/visible"
)

// Compat has the fields of other agent programs that have an effect here. A skill can ask for them;
// none of them grants anything.
type Compat struct {
	// ArgumentHint says which arguments a person may write behind the skill's name.
	ArgumentHint string `json:"argument_hint,omitempty"`
	// Fork is context: fork. The skill runs in a sub-agent, and only the answer comes back.
	Fork bool `json:"fork,omitempty"`
	// Agent is the definition of that sub-agent, Model its model, and Effort how much that thinks:
	// low, medium or high. "" = as the agent that starts the skill.
	Agent  string `json:"agent,omitempty"`
	Model  string `json:"model,omitempty"`
	Effort string `json:"effort,omitempty"`
}

// maxCompatField limits a field of Compat, in characters. It is shown in a line.
const maxCompatField = 200

// compat reads the fields of other agent programs. It adds no diagnostic: that they are not in the
// specification is reported as of all such fields, and Foreign says more to authors.
func (c *checker) compat() {
	m := &c.m.Compat
	m.ArgumentHint, m.Fork = c.compatText("argument-hint"), c.compatText("context") == "fork"
	m.Agent, m.Model, m.Effort = c.compatText("agent"), c.compatText("model"), c.compatText("effort")
	if m.Model == "inherit" {
		m.Model = ""
	}
	if !slices.Contains([]string{"low", "medium", "high"}, m.Effort) {
		m.Effort = ""
	}
}

// compatText returns a text field of another program as one line that can be printed. A list, which
// an unquoted argument-hint often is, is returned as YAML.
func (c *checker) compatText(key string) string {
	n, ok := c.value(key)
	if !ok {
		return ""
	}
	line := strings.Join(strings.Fields(scalarOrFlow(n)), " ")
	return visible.TruncateRunes(visible.Escape(line), maxCompatField)
}

// foreign says what becomes of the fields of other agent programs that have no effect here.
var foreign = map[string]string{
	"arguments":        "arguments have numbers here: $1 to $9, and $ARGUMENTS for all",
	"disallowed-tools": "a skill takes no tools away; deny rules are configuration (permissions: {deny: [...]})",
	"globs":            "no file chooses a skill here; say in the description when to use it",
	"hooks":            "no hook of a skill runs here",
	"paths":            "no file chooses a skill here; say in the description when to use it",
	"when_to_use":      "it is not shown to models; write it into the description",
}

// Foreign returns a note for each field of m that another agent program knows and that has no effect
// here, or not the one that it has there: what becomes of it. The notes are ordered by field, and
// have no line.
func Foreign(m Manifest) (notes []Diagnostic) {
	for _, key := range slices.Sorted(maps.Keys(m.Extra)) {
		if why := foreignEffect(m, key); why != "" {
			notes = append(notes, Diagnostic{Code: CodeForeignField, Severity: Note, Field: key, Message: key + " has no effect: " + why})
		}
	}
	return notes
}

// foreignEffect says why a field has no effect; "" if it has one, or if no program is known to have
// the field.
func foreignEffect(m Manifest, key string) string {
	switch {
	case key == "context" && !m.Fork:
		return "only context: fork is known, which runs the skill in a sub-agent"
	case key == "effort" && m.Fork && m.Effort == "":
		return "want low, medium or high"
	case slices.Contains([]string{"agent", "model", "effort"}, key) && !m.Fork:
		return "it is used with context: fork only; otherwise the agent that takes the skill keeps its own"
	}
	return foreign[key]
}
