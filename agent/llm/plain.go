package llm

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"symbio/security/visible"
)

const (
	// maxPlainSchemas, maxPlainDepth and maxPlainSize bound a plain schema: references make a short one endless.
	maxPlainSchemas, maxPlainDepth, maxPlainSize = 2000, 24, 64 << 10
	// maxToolDescription is what every server takes, in bytes.
	maxToolDescription = 1000
)

// plainName matches the names of arguments that every server takes.
var plainName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// Plain returns the tool described with that part of JSON Schema which all servers take: types, properties, required, items, enums and
// descriptions. References are resolved, and what else the schema says stands as JSON in the descriptions, so that the model learns the
// same. ok is false if that is not possible: the schema is no object, or too large that way.
func (t ToolSpec) Plain() (_ ToolSpec, ok bool) {
	var root map[string]any
	if json.Unmarshal(t.Schema, &root) != nil {
		return t, false
	}
	p := plainer{root: root}
	s := p.plain(root, 0)
	more, _ := s["description"].(string)
	delete(s, "description")
	if s["type"] != "object" {
		s = map[string]any{"type": "object", "properties": map[string]any{}}
	}
	if p.refers && (root["$defs"] != nil || root["definitions"] != nil) {
		maps.DeleteFunc(root, func(k string, _ any) bool { return k != "$defs" && k != "definitions" })
		more += inWords(root)
	}
	if t.Description = strings.TrimSpace(t.Description + "\n" + more); len(t.Description) > maxToolDescription {
		s["description"] = t.Description
		t.Description = visible.Prefix(t.Description, maxToolDescription-60) + "... (whole in the description of its arguments)"
	}
	var err error
	t.Schema, err = json.Marshal(s)
	return t, err == nil && p.count <= maxPlainSchemas && len(t.Schema) <= maxPlainSize
}

// inWords returns keywords of a schema for a description.
func inWords(keywords map[string]any) string {
	words, err := json.Marshal(keywords)
	if err != nil {
		return "" // cannot happen: it was JSON
	}
	return " (JSON Schema: " + string(words) + ")"
}

// plainer makes schemas plain. root is the document in which references are resolved, open are those that are being resolved, and refers
// is set if a description has one. count is the number of schemas so far.
type plainer struct {
	root   map[string]any
	open   []string
	refers bool
	count  int
}

// silent are the keywords that tell a model nothing.
var silent = []string{"$schema", "$id", "id", "$comment", "$anchor", "title", "$defs", "definitions"}

// plain returns a plain schema for v.
func (p *plainer) plain(v any, depth int) map[string]any {
	s, ok := v.(map[string]any)
	if p.count++; p.count > maxPlainSchemas || depth > maxPlainDepth || !ok {
		return map[string]any{}
	}
	s, end := p.resolve(s)
	defer end()
	s = p.joined(s)
	rest := maps.Clone(s)
	maps.DeleteFunc(rest, func(k string, v any) bool {
		return slices.Contains(silent, k) && k != "id" || k == "additionalProperties" && v == true
	})
	out := map[string]any{}
	if kind := kindOf(s, depth); kind != "" {
		out["type"] = kind
		if len(typesOf(s)) == 1 || depth == 0 {
			delete(rest, "type")
		}
	}
	switch out["type"] {
	case "string":
		if list := enumOf(s); list != nil {
			out["enum"] = list
			delete(rest, "enum")
			delete(rest, "const")
		}
	case "array":
		items, isOne := s["items"].(map[string]any)
		if out["items"] = p.plain(items, depth+1); isOne {
			delete(rest, "items")
		}
	case "object":
		p.object(s, out, rest, depth)
	}
	said, _ := s["description"].(string)
	if delete(rest, "description"); len(rest) > 0 {
		words := inWords(rest)
		p.refers = p.refers || strings.Contains(words, `"$ref"`)
		said = strings.TrimSpace(said + words)
	}
	if said != "" {
		out["description"] = said
	}
	return out
}

// object adds the properties of an object to out, and leaves in rest what cannot be said there.
func (p *plainer) object(s, out, rest map[string]any, depth int) {
	properties, odd := map[string]any{}, map[string]any{}
	all, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if v := all[name]; plainName.MatchString(name) && v != false {
			properties[name] = p.plain(v, depth+1)
		} else {
			odd[name] = v
		}
	}
	var required, oddRequired []string
	for _, name := range textsOf(s["required"]) {
		switch {
		case !plainName.MatchString(name) || odd[name] != nil:
			oddRequired = append(oddRequired, name)
		case !slices.Contains(required, name):
			required = append(required, name)
			if properties[name] == nil {
				properties[name] = map[string]any{}
			}
		}
	}
	out["properties"] = properties
	delete(rest, "properties")
	delete(rest, "required")
	if len(required) > 0 {
		out["required"] = required
	}
	if len(odd) > 0 {
		rest["properties"] = odd
	}
	if len(oddRequired) > 0 {
		rest["required"] = oddRequired
	}
}

// resolve returns s with what its reference refers to, if that is in the document and not open already. The caller calls end when
// it is done with the schema.
func (p *plainer) resolve(s map[string]any) (_ map[string]any, end func()) {
	n := len(p.open)
	for {
		ref, _ := s["$ref"].(string)
		target, ok := p.target(ref)
		if !ok || slices.Contains(p.open, ref) {
			return s, func() { p.open = p.open[:n] }
		}
		p.open = append(p.open, ref)
		s = maps.Clone(s)
		delete(s, "$ref")
		s = merged(target, s)
	}
}

// target returns the object that a reference points to.
func (p *plainer) target(ref string) (map[string]any, bool) {
	path, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil, false
	}
	at := p.root
	for _, step := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		if step == "" {
			continue
		}
		next, ok := at[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)].(map[string]any)
		if !ok {
			return nil, false
		}
		at = next
	}
	return at, true
}

// joined returns s with what all the parts of its allOf, anyOf and oneOf say of an object: their properties, and which of them are
// required. The keyword itself stays to be put in words, but for a single part.
func (p *plainer) joined(s map[string]any) map[string]any {
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := s[keyword].([]any)
		var parts []map[string]any
		for _, v := range list {
			if part, _ := v.(map[string]any); part != nil && part["type"] != "null" {
				part, end := p.resolve(part)
				end()
				parts = append(parts, part)
			}
		}
		if len(parts) == 0 {
			continue
		}
		s = maps.Clone(s)
		common := parts[0]
		for _, part := range parts[1:] {
			required, more := textsOf(common["required"]), textsOf(part["required"])
			if keyword == "allOf" {
				required = append(slices.Clone(required), more...)
			} else {
				required = slices.DeleteFunc(slices.Clone(required), func(name string) bool { return !slices.Contains(more, name) })
			}
			common = map[string]any{"properties": either(common["properties"], part["properties"]), "required": required}
		}
		if len(parts) == 1 {
			delete(s, keyword)
			if len(list) > 1 {
				s["nullable"] = true
			}
		}
		s = merged(common, s)
	}
	return s
}

// either returns the properties of two objects. What both have is one or the other.
func either(a, b any) any {
	one, _ := a.(map[string]any)
	two, _ := b.(map[string]any)
	if one == nil && two == nil {
		return nil
	}
	all := map[string]any{}
	maps.Copy(all, one)
	for name, v := range two {
		if had, ok := all[name]; ok && !reflect.DeepEqual(had, v) {
			v = map[string]any{"anyOf": []any{had, v}}
		}
		all[name] = v
	}
	return all
}

// merged returns the keywords of both. Properties and required are joined; of others those of over count.
func merged(base, over map[string]any) map[string]any {
	all := maps.Clone(base)
	maps.Copy(all, over)
	one, _ := base["properties"].(map[string]any)
	two, _ := over["properties"].(map[string]any)
	if one != nil && two != nil {
		one = maps.Clone(one)
		maps.Copy(one, two)
		all["properties"] = one
	}
	if required := slices.Concat(textsOf(base["required"]), textsOf(over["required"])); len(required) > 0 {
		all["required"] = required
	}
	maps.DeleteFunc(all, func(k string, v any) bool {
		return k == "properties" && v == nil || k == "required" && len(textsOf(v)) == 0
	})
	return all
}

// typesOf returns the types that a schema allows.
func typesOf(s map[string]any) []string {
	if one, ok := s["type"].(string); ok {
		return []string{one}
	}
	return textsOf(s["type"])
}

// kindOf returns the only type of a schema beside null, if it says or shows it; else "".
func kindOf(s map[string]any, depth int) string {
	types := slices.DeleteFunc(typesOf(s), func(one string) bool { return one == "null" && s["type"] != "null" })
	properties, _ := s["properties"].(map[string]any)
	switch {
	case len(types) == 1 && slices.Contains([]string{"object", "array", "string", "integer", "number", "boolean"}, types[0]):
		return types[0]
	case properties != nil || depth == 0:
		return "object"
	case len(types) > 0:
		return ""
	case s["items"] != nil || s["prefixItems"] != nil:
		return "array"
	case enumOf(s) != nil:
		return "string"
	}
	return ""
}

// enumOf returns the texts of an enum or a const that has nothing else; else nil.
func enumOf(s map[string]any) []string {
	if one, ok := s["const"].(string); ok {
		return []string{one}
	}
	list, _ := s["enum"].([]any)
	if texts := textsOf(s["enum"]); len(texts) == len(list) {
		return texts
	}
	return nil
}

// textsOf returns the texts of a list.
func textsOf(v any) (texts []string) {
	if list, ok := v.([]string); ok {
		return list
	}
	list, _ := v.([]any)
	for _, one := range list {
		if text, ok := one.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}
