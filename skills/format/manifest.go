package format

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"symbio/internal/security/visible"
	"symbio/security/permission"
)

// The limits of the specification, in characters.
const (
	maxDescription = 1024
	maxCompat      = 500
)

// maxMessage limits a message, in characters, because it can quote a hostile file.
const maxMessage = 300

// Manifest is the front matter of a SKILL.md.
type Manifest struct {
	// Name is trimmed, and NFKC-normalized where names may have other letters than a-z.
	Name string `json:"name"`
	// Description is trimmed; it is not empty if no diagnostic is an error.
	Description string `json:"description"`
	// License is free text, such as a name or a file.
	License string `json:"license,omitempty"`
	// Compatibility says which environment the skill needs, in at most 500 characters.
	Compatibility string `json:"compatibility,omitempty"`
	// Metadata has the values as written: 1.0 stays "1.0".
	Metadata map[string]string `json:"metadata,omitempty"`
	// AllowedTools are the rules that the skill asks for, as written, and the rules of its toolsets.
	// Activation.Granted has the ones it gets.
	AllowedTools []string `json:"allowed_tools,omitempty"`
	// Extra has the fields that the specification does not define.
	Extra map[string]string `json:"extra,omitempty"`
	// UserOnly is disable-model-invocation: models do not see the skill and cannot activate it.
	UserOnly bool `json:"user_only,omitempty"`
	// ModelOnly is user-invocable: false. People cannot start the skill.
	ModelOnly bool `json:"model_only,omitempty"`
	// Version is metadata.version, else the top-level field, as written; see ParseVersion.
	Version string `json:"version,omitempty"`
	// Triggers name the tasks for which a model is told of the skill. With Auto such a task
	// activates it, if a person trusts it.
	Triggers Triggers `json:"triggers,omitzero"`
	Auto     bool     `json:"auto,omitempty"`
	// Depends are the skills that are activated with this one.
	Depends []Dependency `json:"depends,omitempty"`
	// Toolsets are the names of toolsets (Policy.Toolsets). Their rules are in AllowedTools.
	Toolsets []string `json:"toolsets,omitempty"`
	Compat

	// Grants are the rules of AllowedTools that a skill may grant. Refused has the others, with the
	// reasons.
	Grants  []permission.Rule `json:"-"`
	Refused []Refusal         `json:"-"`
}

// Refusal is a rule that no skill may grant, and the reason.
type Refusal struct{ Rule, Why string }

// Parse reads a whole SKILL.md. dir is the name of its directory, which the skill's name must
// equal; "" checks no name. The manifest and the body are complete only if no diagnostic is an
// Error. Parse is a pure function; its time is linear in the size of content.
func Parse(content []byte, dir string, policy Policy) (Manifest, string, []Diagnostic) {
	h, _ := split(content, false, policy.Level)
	m, diags := parseFront(h, dir, policy)
	// parseFront has checked the front matter, so only the body is left.
	if at := firstInvalid(h.body); at >= 0 {
		line := 1 + bytes.Count(content[:len(content)-len(h.body)+at], []byte("\n"))
		diags = append(diags, Diagnostic{CodeEncoding, Error, "", line, "the text is not valid UTF-8"})
	}
	if Failed(diags) {
		return m, "", diags
	}
	return m, string(h.body), diags
}

// ParseHead reads the front matter from the beginning of a SKILL.md. more means that data is not
// the whole file. If need is true, the beginning was too short: call again with more of it, at most
// MaxHead bytes, and ignore the other results. Otherwise the results are as Parse's.
func ParseHead(data []byte, more bool, dir string, policy Policy) (m Manifest, diags []Diagnostic, need bool) {
	h, need := split(data, more, policy.Level)
	if need {
		return Manifest{}, nil, true
	}
	m, diags = parseFront(h, dir, policy)
	return m, diags, false
}

// parseFront decodes the front matter and checks its fields. It stops at the first stage with an
// error: fields of broken YAML would only cause misleading messages.
func parseFront(h splitFile, dir string, policy Policy) (Manifest, []Diagnostic) {
	diags := slices.Clone(h.diags)
	if Failed(diags) {
		return Manifest{}, diags
	}
	d := decoder{policy: policy}
	d.decode(h.front)
	diags = append(diags, d.diags...)
	if Failed(diags) {
		return Manifest{}, diags
	}
	c := checker{policy: policy, dir: dir, fields: make(map[string]field, len(d.fields))}
	for _, f := range d.fields {
		c.fields[f.key] = f
	}
	c.check(d.fields)
	return c.m, append(diags, c.diags...)
}

// checker turns fields into a Manifest.
type checker struct {
	policy Policy
	// dir is the name of the skill's directory; "" = not known.
	dir string
	// fields are the fields of the front matter by their keys.
	fields map[string]field
	m      Manifest
	diags  []Diagnostic
}

// check reads all fields in a fixed order, which is also the order of the diagnostics. ordered are
// the fields as they stand in the file.
func (c *checker) check(ordered []field) {
	c.name()
	c.description()
	c.m.License, _ = c.text("license", CodeLicenseType)
	c.compatibility()
	c.metadata()
	c.allowedTools()
	c.planned()
	c.flags()
	c.compat()
	c.unknown(ordered)
}

// add adds a diagnostic for a field, with the field's line; an absent field has the line 0. It cuts
// the message to maxMessage characters.
func (c *checker) add(s Severity, code Code, field, format string, args ...any) {
	c.diags = append(c.diags, Diagnostic{code, s, field, c.fields[field].line, visible.TruncateRunes(fmt.Sprintf(format, args...), maxMessage)})
}

// deviation adds an error, or a warning at level lenient.
func (c *checker) deviation(code Code, field, format string, args ...any) {
	s := Error
	if c.policy.Level == Lenient {
		s = Warning
	}
	c.add(s, code, field, format, args...)
}

// value returns the node of a field. ok is false for a field that is absent or null.
func (c *checker) value(key string) (*yaml.Node, bool) {
	f, ok := c.fields[key]
	if !ok || f.value.Kind == yaml.ScalarNode && f.value.Tag == "!!null" {
		return nil, false
	}
	return f.value, true
}

// text returns an optional text field. Numbers and dates are returned as they are written. A list
// or a map is a deviation; its YAML is returned with false.
func (c *checker) text(key string, wrongType Code) (string, bool) {
	n, ok := c.value(key)
	if !ok {
		return "", false
	}
	if n.Kind != yaml.ScalarNode {
		c.deviation(wrongType, key, "%s must be text, not a list or a map", key)
		return flowYAML(n), false
	}
	return n.Value, true
}

// description reads the one field that a skill cannot do without at any level: without it, a model
// cannot know when to use the skill.
func (c *checker) description() {
	const key = "description"
	n, ok := c.value(key)
	switch {
	case ok && n.Kind != yaml.ScalarNode:
		c.add(Error, CodeDescriptionType, key, "description must be text, not a list or a map")
		return
	case !ok || strings.TrimSpace(n.Value) == "":
		c.add(Error, CodeNoDescription, key, "description is missing; say what the skill does and when to use it")
		return
	}
	c.m.Description = strings.TrimSpace(n.Value)
	if n.Style == 0 && n.LineComment != "" {
		c.add(Warning, CodeYAMLComment, key, "%q is left out of the description, as a # after a blank begins a comment: put the text in quotes", n.LineComment)
	}
	if l := utf8.RuneCountInString(c.m.Description); l > maxDescription {
		c.deviation(CodeDescriptionLong, key, "description has %d characters; at most %d are allowed", l, maxDescription)
	}
}

// compatibility reads the optional text about the environment that the skill needs.
func (c *checker) compatibility() {
	const key = "compatibility"
	s, ok := c.text(key, CodeCompatType)
	c.m.Compatibility = s
	if l := utf8.RuneCountInString(s); ok && (l == 0 || l > maxCompat) {
		c.deviation(CodeCompatLength, key, "compatibility has %d characters; 1 to %d are allowed", l, maxCompat)
	}
}

// metadata reads the map of text to text. Values that are not text are kept as YAML.
func (c *checker) metadata() {
	const key = "metadata"
	n, ok := c.value(key)
	if !ok {
		return
	}
	if n.Kind != yaml.MappingNode {
		c.deviation(CodeMetadataType, key, "metadata must be a map of text to text; it is left out")
		return
	}
	c.m.Metadata = make(map[string]string, len(n.Content)/2)
	var odd []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i].Value, n.Content[i+1]
		switch {
		case v.Kind != yaml.ScalarNode:
			if !plannedFields[k] || c.policy.Level == Strict {
				odd = append(odd, k)
			}
			c.m.Metadata[k] = flowYAML(v)
		case v.Tag == "!!null":
			c.m.Metadata[k] = ""
		default:
			c.m.Metadata[k] = v.Value
		}
	}
	if len(odd) == 0 {
		return
	}
	s := Warning
	if c.policy.Level == Strict {
		s = Error
	}
	c.add(s, CodeMetadataValue, key, "metadata values must be text: %s; kept as YAML text", joinFirst(odd))
}

// flags reads the two switches that several programs share. They are not in the specification, and
// are no deviation outside strict.
func (c *checker) flags() {
	if on, ok := c.flag("disable-model-invocation"); ok {
		c.m.UserOnly = on
	}
	for _, key := range []string{"user-invokable", "user-invocable"} { // the first is an older spelling
		if on, ok := c.flag(key); ok {
			c.m.ModelOnly = !on
		}
	}
}

// flag returns a boolean field. A value that cannot be read counts as true. For
// disable-model-invocation that keeps the restriction, and for user-invocable only a clear "false"
// hides the skill from people.
func (c *checker) flag(key string) (on, ok bool) {
	n, ok := c.value(key)
	if !ok {
		return false, false
	}
	if on, known := flagWords[strings.ToLower(n.Value)]; known && n.Kind == yaml.ScalarNode {
		return on, true
	}
	c.add(Warning, CodeFlagValue, key, "%s must be true or false; it is taken as true", key)
	return true, true
}

// flagWords are the spellings of a flag, in lower case.
var flagWords = map[string]bool{"true": true, "yes": true, "on": true, "1": true, "false": false, "no": false, "off": false, "0": false}

// specified are the fields of the specification.
var specified = map[string]bool{
	"name": true, "description": true, "license": true, "compatibility": true, "metadata": true, "allowed-tools": true,
}

// flagFields are fields that several programs share. They are not reported as unknown.
var flagFields = map[string]bool{"disable-model-invocation": true, "user-invocable": true, "user-invokable": true}

// unknown keeps the fields that the specification does not define, and reports them.
func (c *checker) unknown(ordered []field) {
	var names []string
	for _, f := range ordered {
		if specified[f.key] {
			continue
		}
		if c.policy.Level == Strict {
			c.add(Error, CodeUnknownField, f.key, "the specification has no field %q; put it under metadata", f.key)
		}
		if plannedFields[f.key] { // it has a field of its own
			continue
		}
		if c.m.Extra == nil {
			c.m.Extra = make(map[string]string)
		}
		c.m.Extra[f.key] = scalarOrFlow(f.value)
		if !flagFields[f.key] {
			names = append(names, f.key)
		}
	}
	if len(names) > 0 && c.policy.Level == Standard {
		c.diags = append(c.diags, Diagnostic{CodeUnknownFields, Warning, names[0], c.fields[names[0]].line,
			"fields that the specification does not have: " + joinFirst(names)})
	}
}

// scalarOrFlow returns the text of a node, as one line of YAML if it is a list or a map.
func scalarOrFlow(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return flowYAML(n)
}

// joinFirst joins the first ten names and counts the others, because a hostile file can have
// thousands.
func joinFirst(names []string) string {
	const limit = 10
	if len(names) > limit {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
	}
	return strings.Join(names, ", ")
}

// firstInvalid returns the index of the first byte that is not UTF-8, or -1. A correctly encoded
// U+FFFD is valid.
func firstInvalid(text []byte) int {
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return -1
}
