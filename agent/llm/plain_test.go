package llm_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
)

func TestPlainSchemaSaysTheRestInWords(t *testing.T) {
	for name, c := range map[string]struct {
		schema, want, words string
	}{
		"nothing odd": {`{"type":"object","properties":{"a":{"type":"string","description":"An a."}},"required":["a"]}`, `{"type":"object","properties":{"a":{"type":"string","description":"An a."}},"required":["a"]}`, ``},
		"anyOf at the top": {`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}`, `(JSON Schema: {"anyOf":[{"required":["a"]},{"required":["b"]}]})`},
		"oneOf of objects": {`{"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"number"}},"required":["kind","x"]},{"type":"object","properties":{"kind":{"const":"b"}},"required":["kind"]}]}`,
			`{"type":"object","properties":{"kind":{"description":"As the tool's description says."},"x":{"type":"number"}}}`, `(JSON Schema: {"oneOf":[{"properties":{"kind":{"const":"a"}`},
		"one part":                         {`{"oneOf":[{"properties":{"a":{"type":"string"}},"required":["a"]}]}`, `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, `{"oneOf":[`},
		"parts that say more of arguments": {`{"properties":{"a":{"type":"string"}},"anyOf":[{"properties":{"a":{"minLength":1}}},{}]}`, `{"type":"object","properties":{"a":{"type":"string"}}}`, `{"anyOf":[{"properties":{"a":{"minLength":1}}},{}]}`},
		"allOf with a reference": {`{"allOf":[{"$ref":"#/definitions/base"},{"properties":{"b":{"type":"string"}},"required":["b"]}],"definitions":{"base":{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}}}`,
			`{"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"string"}},"required":["a","b"]}`, `"definitions":{"base"`},
		"the whole is a reference": {`{"$ref":"#/$defs/args","$defs":{"args":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}}},"a":{"type":"string"}}}`,
			`{"type":"object","properties":{"a":{"description":"(JSON Schema: {\"$ref\":\"#/$defs/a\"})"}}}`, `"$defs":{"a":{"type":"string"},`},
		"references in a circle": {`{"$ref":"#/$defs/a~1b","allOf":[{"$ref":"#"}],"$defs":{"a/b":{"$ref":"#/$defs/c"},"c":{"$ref":"#/$defs/a~1b","required":["c"]}}}`, `{"type":"object","properties":{"c":{}},"required":["c"]}`, `"$defs":{"a/b"`},
		"a tree": {`{"type":"object","properties":{"tree":{"$ref":"#/$defs/node"}},"$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}}}}}`,
			`{"type":"object","properties":{"tree":{"description":"(JSON Schema: {\"$ref\":\"#/$defs/node\"})"}}}`, `"$defs":{"node"`},
		"definitions that nothing refers to": {`{"type":"object","$defs":{"a":{}},"definitions":{"a":{}}}`, `{"type":"object","properties":{}}`, ``},
		"references to nothing and elsewhere": {`{"type":"object","properties":{"a":{"type":"object","$ref":"#/$defs/none"},"b":{"$ref":"https://example.org/b.json"}},"allOf":[{"$ref":"#/$defs/none"},{"$ref":"b.json"}]}`,
			`{"type":"object","properties":{"a":{"type":"object","description":"(JSON Schema: {\"$ref\":\"#/$defs/none\"})"},"b":{"description":"(JSON Schema: {\"$ref\":\"https://example.org/b.json\"})"}}}`, `{"allOf":[`},
		"no type, and lists of types": {`{"properties":{"a":{"type":["string","null"]},"b":{"type":"null"},"c":{"enum":["x","y"]},"d":{"items":{}}}}`,
			`{"type":"object","properties":{"a":{"description":"(JSON Schema: {\"type\":[\"string\",\"null\"]})"},"b":{"description":"(JSON Schema: {\"type\":\"null\"})"},"c":{"description":"(JSON Schema: {\"enum\":[\"x\",\"y\"]})"},"d":{"description":"(JSON Schema: {\"items\":{}})"}}}`, ``},
		"optional by anyOf": {`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"title":"A"}}}`,
			`{"type":"object","properties":{"a":{"description":"(JSON Schema: {\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"default\":null})"}}}`, ``},
		"formats, patterns and bounds": {`{"type":"object","properties":{"u":{"type":"string","description":"A u.","format":"uri","pattern":"(?<a"},"n":{"type":"integer","minimum":0,"exclusiveMinimum":true}},"additionalProperties":false}`,
			`{"type":"object","properties":{"u":{"type":"string","description":"A u. (JSON Schema: {\"format\":\"uri\",\"pattern\":\"(?\\u003ca\"})"},"n":{"type":"integer","description":"(JSON Schema: {\"exclusiveMinimum\":true,\"minimum\":0})"}}}`, `{"additionalProperties":false}`},
		"arrays": {`{"type":"object","properties":{"a":{"type":"array"},"b":{"type":"array","items":[{"type":"string"}]},"c":{"type":"array","items":false}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{}},"b":{"type":"array","items":{},"description":"(JSON Schema: {\"items\":[{\"type\":\"string\"}]})"},"c":{"type":"array","items":{},"description":"(JSON Schema: {\"items\":false})"}}}`, ``},
		"allOf that requires what a later part has": {`{"allOf":[{"required":["a"]},{"properties":{"a":{"type":"string"}}}]}`, `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, `{"allOf":[`},
		"objects":                        {`{"properties":{"a":{"type":"object"},"b":{"type":"object","properties":{"c":{}}}}}`, `{"type":"object","properties":{"a":{"type":"object"},"b":{"type":"object","description":"(JSON Schema: {\"properties\":{\"c\":{}}})"}}}`, ``},
		"required of nothing, and twice": {`{"type":"object","properties":{"a":{}},"required":["a","b","a"]}`, `{"type":"object","properties":{"a":{},"b":{}},"required":["a","b"]}`, ``},
		"required that is none":          {`{"type":"object","properties":{"a":{"type":"string","required":true}},"required":null}`, `{"type":"object","properties":{"a":{"type":"string","description":"(JSON Schema: {\"required\":true})"}}}`, ``},
		"boolean schemas":                {`{"type":"object","properties":{"a":true,"b":false}}`, `{"type":"object","properties":{"a":{}}}`, `{"properties":{"b":false}}`},
		"names that servers refuse":      {`{"type":"object","properties":{"a b":{"type":"string"},"$c":{},"d":{}},"required":["a b","d"]}`, `{"type":"object","properties":{"d":{}},"required":["d"]}`, `{"properties":{"$c":{},"a b":{"type":"string"}},"required":["a b","d"]}`},
		"a list of types at the top":     {`{"type":["object","null"],"properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}}}`, `{"type":["object","null"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := llm.ToolSpec{Name: "t", Description: "Does it.", Schema: json.RawMessage(c.schema)}.Plain()
			if d := cmp.Diff(decoded(t, c.want), decoded(t, string(got.Schema))); d != "" || !ok {
				t.Errorf("ok %v, schema (-want +got):\n%s", ok, d)
			}
			if !strings.HasPrefix(got.Description, "Does it.") || !strings.Contains(got.Description, c.words) ||
				c.words == "" && got.Description != "Does it." {
				t.Errorf("described as %q, want %q in it", got.Description, c.words)
			}
			if again, ok := got.Plain(); !ok || cmp.Diff(decoded(t, string(again.Schema)), decoded(t, string(got.Schema))) != "" {
				t.Errorf("what is plain is changed again: %s", again.Schema)
			}
		})
	}
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPlainSchemaIsBounded(t *testing.T) {
	for name, schema := range map[string]string{
		"no object":   `[]`,
		"null":        `null`,
		"empty":       ``,
		"large":       `{"title":"` + strings.Repeat("x", 70_000) + `"}`,
		"large plain": `{"properties":{"a":{"pattern":"` + strings.Repeat("<", 20_000) + `"}}}`,
	} {
		if got, ok := (llm.ToolSpec{Name: "t", Schema: json.RawMessage(schema)}).Plain(); ok {
			t.Errorf("%s: %d bytes", name, len(got.Schema))
		}
	}
	hostile := `{"$ref":"#/$defs/a0","$defs":{"z":{}`
	for i := range 500 {
		hostile += fmt.Sprintf(`,"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i+1, i+1)
	}
	if got, ok := (llm.ToolSpec{Name: "t", Schema: json.RawMessage(hostile + `}}`)}).Plain(); !ok || len(got.Schema) > 2*len(hostile) {
		t.Errorf("%d bytes with many references became %d", len(hostile), len(got.Schema))
	}
	long := strings.Repeat("word ", 500)
	got, ok := llm.ToolSpec{Name: "t", Description: long, Schema: json.RawMessage(`{"type":"object"}`)}.Plain()
	if !ok || len(got.Description) > 1000 || !strings.Contains(string(got.Schema), strings.TrimSpace(long)) {
		t.Errorf("a long description became %d bytes and %s", len(got.Description), got.Schema)
	}
}
