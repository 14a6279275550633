package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"symbio/agent/budget"
	"symbio/agent/llm"
	"symbio/agent/tool/guardrail"
	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
	"symbio/security/permission"
)

// sandboxField returns a function that reads a Sandbox. A word alone is its preset.
func sandboxField(r *reader, s *Sandbox) field {
	// Decode leaves yes alone if the value is no boolean, so an invalid value restricts nothing.
	yes := true
	limits := map[string]field{
		"cpu":        r.duration("sandbox.limits.cpu", &s.Limits.CPU),
		"file_size":  r.size("sandbox.limits.file_size", &s.Limits.FileSize),
		"open_files": r.number("sandbox.limits.open_files", 1, &s.Limits.OpenFiles),
		"processes":  r.number("sandbox.limits.processes", 1, &s.Limits.Processes),
		"memory":     r.size("sandbox.limits.memory", &s.Limits.Memory),
	}
	subprocess := func(p pair) {
		if p.value.Kind != yaml.ScalarNode || p.value.Decode(&yes) != nil {
			r.addProblem(p.value.Line, "sandbox.subprocess is true or false")
		}
		s.NoSubprocess = !yes
	}
	keys := map[string]field{
		"preset":     sandboxPresetField(r, "sandbox.preset", &s.Preset),
		"network":    r.word("sandbox.network", []string{"none", "local", "full"}, &s.Network),
		"write":      r.list("sandbox.write", "[build]", func(all []item) { s.Write = writePaths(r, all) }),
		"env":        r.list("sandbox.env", "[LANG]", func(all []item) { s.Env = texts(all) }),
		"sockets":    r.list("sandbox.sockets", "[/run/docker.sock]", func(all []item) { s.Sockets = texts(all) }),
		"subprocess": {subprocess, booleanSchema()},
		"limits":     {func(p pair) { r.fields("sandbox.limits", p.value, limits) }, mappingSchema(limits)},
	}
	word := sandboxPresetField(r, "sandbox", &s.Preset)
	read := func(p pair) {
		if p.value.Kind == yaml.ScalarNode {
			word.read(p)
			return
		}
		n := p.value
		if n.Kind == yaml.MappingNode {
			// An empty rest is no problem of its own.
			if n = rejectNodeOnlyKeys(r, n); len(n.Content) == 0 {
				return
			}
		}
		r.fields("sandbox", n, keys)
	}
	return field{read, anyOf(word.schema, mappingSchema(keys))}
}

// nodeOnlyKeys are keys of the node's sandbox that a definition must not have. They get a message
// of their own, because they are valid in the configuration.
var nodeOnlyKeys = []string{"show", "hide", "levels"}

// rejectNodeOnlyKeys returns the mapping without the keys that only the node's configuration may
// set, and adds a problem for each.
func rejectNodeOnlyKeys(r *reader, n *yaml.Node) *yaml.Node {
	rest := *n
	rest.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; slices.Contains(nodeOnlyKeys, key.Value) {
			r.addProblem(key.Line, "sandbox.%s stands in the sandbox of the node's configuration alone", key.Value)
			continue
		}
		rest.Content = append(rest.Content, n.Content[i], n.Content[i+1])
	}
	return &rest
}

// sandboxPresetField returns a function that reads the preset of a sandbox. off has a message of its
// own: it is valid in the node's configuration only.
func sandboxPresetField(r *reader, name string, to *string) field {
	word := r.word(name, []string{"restrictive", "standard", "permissive"}, to)
	read := func(p pair) {
		if p.value.Kind == yaml.ScalarNode && p.value.Value == "off" {
			r.addProblem(p.value.Line, "%s: a definition cannot switch the sandbox off; only the node's configuration can", name)
			return
		}
		word.read(p)
	}
	return field{read, word.schema}
}

// writePaths checks the directories that commands may write, and returns them. The directories need
// not exist yet. ~ is not expanded, because no shell reads the path.
func writePaths(r *reader, all []item) []string {
	for _, one := range all {
		if strings.HasPrefix(one.text, "~") || strings.ContainsRune(one.text, 0) {
			r.addProblem(one.line, "sandbox.write %q: it is an absolute path, or one below the working directory", one.text)
		}
	}
	return texts(all)
}

// budgetField returns a function that reads limits by their YAML names in the configuration. It finds them by reflection, so
// that a new field of budget.Limits is a key of definitions at once. Zero is refused, because zero
// means the default.
func budgetField(r *reader, l *budget.Limits) field {
	keys := map[string]field{}
	for i := range reflect.TypeFor[budget.Limits]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[budget.Limits]().Field(i).Tag.Get("yaml"), ",")
		v := reflect.ValueOf(l).Elem().Field(i)
		if name == "" || name == "-" {
			continue
		}
		read := func(p pair) {
			err := errors.New("no scalar")
			if p.value.Kind == yaml.ScalarNode {
				err = p.value.Decode(v.Addr().Interface())
			}
			switch {
			case err != nil && v.Type() == reflect.TypeFor[time.Duration]():
				r.addProblem(p.value.Line, "budget.%s is how long, such as 30s or 5m", name)
			case err != nil:
				r.addProblem(p.value.Line, "budget.%s is a number", name)
			case !positive(v):
				hint := ""
				if name == "agents" || name == "depth" {
					hint = "; for an agent without sub-agents leave replicate_agent out of its tools"
				}
				r.addProblem(p.value.Line, "budget.%s has to be above 0%s", name, hint)
			}
		}
		keys[name] = field{read, limitSchema(v)}
	}
	return field{func(p pair) { r.fields("budget", p.value, keys) }, mappingSchema(keys)}
}

// positive reports whether a number is above zero; NaN is not. Other types are positive.
func positive(v reflect.Value) bool {
	if v.CanFloat() {
		return v.Float() > 0
	}
	return !v.CanInt() || v.Int() > 0
}

// permissions returns a function that reads a permission.Config. Rules are checked one by one, so
// that each mistake gets its own line.
func (f *parser) permissions(c *permission.Config) field {
	const in = "permissions."
	keys := map[string]field{
		"preset":     f.preset("permissions.preset", &c.Preset),
		"allow":      f.rules(in+"allow", &c.Allow),
		"deny":       f.rules(in+"deny", &c.Deny),
		"final_deny": f.rules(in+"final_deny", &c.FinalDeny),
		"override":   f.rules(in+"override", &c.Override),
		"default":    f.word("permissions.default", actions, &c.Default),
	}
	return field{func(p pair) { f.fields("permissions", p.value, keys) }, mappingSchema(keys)}
}

// actions are the values of the key default.
var actions = []string{"allow", "ask", "deny"}

// guardrail returns a function that reads a guardrail.Config; a word alone is its preset.
func (f *parser) guardrail(g *guardrail.Config) field {
	const in = "guardrail."
	keys := map[string]field{
		"preset":     f.preset("guardrail.preset", &g.Preset),
		"allow":      f.rules(in+"allow", &g.Allow),
		"ask":        f.rules(in+"ask", &g.Ask),
		"deny":       f.rules(in+"deny", &g.Deny),
		"final_deny": f.rules(in+"final_deny", &g.FinalDeny),
		"override":   f.rules(in+"override", &g.Override),
		"default":    f.word("guardrail.default", actions, &g.Default),
	}
	word := f.preset("guardrail", &g.Preset)
	read := func(p pair) {
		if p.value.Kind == yaml.ScalarNode {
			word.read(p)
			return
		}
		f.fields("guardrail", p.value, keys)
	}
	return field{read, anyOf(word.schema, mappingSchema(keys))}
}

// preset returns a function that reads the name of a preset of package permission.
func (f *parser) preset(name string, to *string) field {
	read := func(p pair) {
		if p.value.Kind != yaml.ScalarNode || p.value.Decode(to) != nil {
			f.addProblem(p.value.Line, "%s is the name of a preset, such as read_only", name)
			return
		}
		if _, err := permission.Preset(*to); err != nil {
			f.addProblem(p.value.Line, "%s: %s%s", name, err, visible.Suggest(*to, permission.PresetNames()))
		}
	}
	return field{read, wordSchema(append(permission.PresetNames(), permission.PresetSpellings()...)...)}
}

// rules returns a function that reads a list of rules into to and checks each. key is SECTION.LIST,
// for messages. Ask rules have the same syntax as deny rules and are checked as such.
func (f *parser) rules(key string, to *[]permission.RuleText) field {
	_, list, _ := strings.Cut(key, ".")
	read := func(p pair) {
		if p.value.Kind != yaml.SequenceNode {
			f.addProblem(p.value.Line, `%s is a list of rules, such as ["Bash(git log:*)"]`, key)
			return
		}
		for _, n := range p.value.Content {
			var rule permission.RuleText
			line := n.Line
			if err := n.Decode(&rule); err != nil {
				at, reason := splitLine(line, plainError(err))
				f.addProblem(at, "%s: %s", key, reason)
				continue
			}
			*to = append(*to, rule)
			bare := rule
			bare.At = "" // the Problem has the line
			if _, err := bare.Parse(list); err != nil {
				f.addProblem(line, "%s", err)
			} else if err := (permission.Tools{Names: f.loader.Tools, Servers: f.loader.Servers}).Check(rule.Rule); err != nil {
				f.addProblem(line, "%s rule %q: %v", list, rule.Rule, err)
			}
		}
	}
	return field{read, listSchema(permission.RuleText{}.JSONSchema())}
}

// plainError returns the first line of a YAML decoder's error without the names of Go types, which
// mean nothing to the author of a file.
func plainError(err error) string {
	text := err.Error()
	var typed *yaml.TypeError
	if errors.As(err, &typed) && len(typed.Errors) > 0 {
		text = typed.Errors[0]
	}
	return goType().ReplaceAllString(text, "a different kind of value")
}

// goType matches the names of Go types in messages of the YAML decoder.
var goType = lazyregexp.New(`(?:permission|agent|time)\.[A-Za-z]+|\[\][A-Za-z.]+`)

// maxOutput limits the schema of an output, in bytes, because it goes into every prompt.
const maxOutput = 64 << 10

// outputField returns a function that reads the JSON schema of answers. bad gets a problem with its line.
func outputField(bad func(line int, format string, args ...any), to **llm.Form) field {
	read := func(p pair) {
		var v map[string]any
		schema, err := []byte(nil), p.value.Decode(&v)
		if err == nil {
			schema, err = json.Marshal(v)
		}
		if err == nil && len(schema) > maxOutput {
			err = fmt.Errorf("it is larger than %d KiB", maxOutput>>10)
		}
		if err == nil {
			*to, err = llm.NewForm(llm.Output{Name: "answer", Schema: schema})
		}
		if err != nil {
			bad(p.value.Line, "output is no JSON schema: %v", err)
		}
	}
	return field{read, &jsonschema.Schema{Type: "object"}}
}

// temperatureField returns a function that reads a number from 0 to llm.MaxTemperature. bad gets a problem with its line.
func temperatureField(bad func(line int, format string, args ...any), to **float64) field {
	read := func(p pair) {
		t, n := 0.0, p.value
		if n.Kind != yaml.ScalarNode || n.Decode(&t) != nil || !(t >= 0 && t <= llm.MaxTemperature) {
			bad(n.Line, "temperature is a number from 0 to %d", llm.MaxTemperature)
		}
		*to = &t
	}
	return field{read, &jsonschema.Schema{Type: "number", Minimum: jsonschema.Ptr(0.0), Maximum: jsonschema.Ptr(float64(llm.MaxTemperature))}}
}
