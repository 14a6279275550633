package llm

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
)

const (
	// maxPlainSize is the size of a schema that is made plain, and of the plain one, in bytes.
	maxPlainSize = 64 << 10
	// maxParts is how many parts of a schema are looked at, the parts of references counted with each.
	maxParts = 5000
	// maxToolDescription is what every server takes, in bytes.
	maxToolDescription = 1000
)

// plainName matches the names of arguments that every server takes.
var plainName = lazyregexp.New(`^[a-zA-Z0-9_.-]{1,64}$`)

// Plain returns the tool described with what all servers take of JSON Schema: arguments with a type and a description, and which of
// them are required. All else that the schema says stands as JSON in the descriptions, so that the model learns the same. ok is false
// if that is not possible: the schema is no object, or too large.
func (t ToolSpec) Plain() (_ ToolSpec, ok bool) {
	var root map[string]any
	if len(t.Schema) > maxPlainSize || json.Unmarshal(t.Schema, &root) != nil || root == nil {
		return t, false
	}
	a := arguments{root: root, seen: map[string]bool{}, schemas: map[string]any{}, required: map[string]bool{}}
	a.gather(root, true)
	own, _ := root["properties"].(map[string]any)
	maps.Copy(a.schemas, own) // they count, not the schemas of parts
	for name := range a.required {
		if _, ok := a.schemas[name]; !ok {
			a.schemas[name] = true
		}
	}
	rest, refers := maps.Clone(root), strings.Contains(string(t.Schema), `"$ref"`)
	maps.DeleteFunc(rest, func(k string, v any) bool {
		return k == "properties" || k == "required" || k == "type" && v == "object" || !refers && (k == "$defs" || k == "definitions")
	})
	properties, odd, required := map[string]any{}, map[string]any{}, []string{}
	for name, said := range a.schemas {
		if plainName().MatchString(name) && said != false {
			if properties[name] = plainArgument(said); a.required[name] {
				required = append(required, name)
			}
			continue
		}
		if _, ok := own[name]; ok {
			odd[name] = said
			rest["properties"] = odd
		}
		if a.required[name] {
			rest["required"] = root["required"]
		}
	}
	s := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = slices.Sorted(slices.Values(required))
	}
	if t.Description = strings.TrimSpace(t.Description + "\n" + inWords(rest)); len(t.Description) > maxToolDescription {
		s["description"] = t.Description
		t.Description = visible.Prefix(t.Description, maxToolDescription-60) + "... (whole in the description of its arguments)"
	}
	var err error
	t.Schema, err = json.Marshal(s)
	return t, err == nil && len(t.Schema) <= maxPlainSize
}

// arguments are a tool's arguments, from its schema and the parts of it.
type arguments struct {
	root     map[string]any
	seen     map[string]bool // the references that were followed
	schemas  map[string]any  // by the arguments' names
	required map[string]bool
	parts    int // how many were looked at
}

// gather adds what a schema and its parts say of arguments. Each reference is followed once.
func (a *arguments) gather(v any, required bool) {
	if a.parts++; a.parts > maxParts {
		return
	}
	s, _ := v.(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	for name, schema := range properties {
		if had, ok := a.schemas[name]; ok && !reflect.DeepEqual(had, schema) {
			schema = map[string]any{"description": "As the tool's description says."}
		}
		a.schemas[name] = schema
	}
	if ref, _ := s["$ref"].(string); (ref == "#" || strings.HasPrefix(ref, "#/")) && !a.seen[ref] {
		a.seen[ref] = true
		var target any = a.root
		for _, step := range strings.Split(ref, "/")[1:] {
			at, _ := target.(map[string]any)
			target = at[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		}
		a.gather(target, required)
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		parts, _ := s[keyword].([]any)
		for _, part := range parts {
			a.gather(part, required && (keyword == "allOf" || len(parts) == 1))
		}
	}
	names, _ := s["required"].([]any)
	for _, v := range names {
		if name, ok := v.(string); ok && required {
			a.required[name] = true
		}
	}
}

// plainArgument returns the plain schema of an argument.
func plainArgument(schema any) map[string]any {
	plain := map[string]any{}
	rest, _ := schema.(map[string]any)
	rest = maps.Clone(rest)
	switch kind := rest["type"]; kind {
	case "array":
		if plain["items"] = map[string]any{}; reflect.DeepEqual(rest["items"], plain["items"]) {
			delete(rest, "items")
		}
		fallthrough
	case "object", "string", "integer", "number", "boolean":
		plain["type"] = kind
		delete(rest, "type")
	}
	if text := inWords(rest); text != "" {
		plain["description"] = text
	}
	return plain
}

// inWords returns the description of a schema, with what else it says as JSON. It takes keywords that tell a model nothing out of it.
func inWords(s map[string]any) string {
	text, _ := s["description"].(string)
	maps.DeleteFunc(s, func(k string, v any) bool {
		return slices.Contains([]string{"$schema", "$comment", "title"}, k) || k == "description" && v == text || k == "additionalProperties" && v == true
	})
	if words, err := json.Marshal(s); err == nil && len(s) > 0 {
		text += " (JSON Schema: " + string(words) + ")"
	}
	return strings.TrimSpace(text)
}
