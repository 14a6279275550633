package llm_test

import (
	"encoding/json"
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
			`{"type":"object","properties":{"kind":{"description":"(JSON Schema: {\"anyOf\":[{\"const\":\"a\"},{\"const\":\"b\"}]})"},"x":{"type":"number"}},"required":["kind"]}`, `{"oneOf":[`},
		"allOf with a reference": {`{"allOf":[{"$ref":"#/definitions/base"},{"properties":{"b":{"type":"string"}},"required":["b"]}],"definitions":{"base":{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}}}`,
			`{"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"string"}},"required":["a","b"]}`, `"definitions":{"base"`},
		"the whole is a reference": {`{"$ref":"#/$defs/args","$defs":{"args":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}}},"a":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`, ``},
		"a tree": {`{"type":"object","properties":{"tree":{"$ref":"#/$defs/node"}},"$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}}}}}`,
			`{"type":"object","properties":{"tree":{"type":"object","properties":{"next":{"description":"(JSON Schema: {\"$ref\":\"#/$defs/node\"})"}}}}}`, `"$defs":{"node"`},
		"references to nothing and elsewhere": {`{"type":"object","properties":{"a":{"$ref":"#/$defs/none"},"b":{"$ref":"https://example.org/b.json"}}}`,
			`{"type":"object","properties":{"a":{"description":"(JSON Schema: {\"$ref\":\"#/$defs/none\"})"},"b":{"description":"(JSON Schema: {\"$ref\":\"https://example.org/b.json\"})"}}}`, ``},
		"no type, and lists of types": {`{"properties":{"a":{"type":["string","null"]},"b":{"type":["string","number"]},"c":{"type":["integer"]},"d":{"enum":["x","y"]},"e":{"properties":{}},"f":{"items":{"type":"string"}}}}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"(JSON Schema: {\"type\":[\"string\",\"null\"]})"},"b":{"description":"(JSON Schema: {\"type\":[\"string\",\"number\"]})"},"c":{"type":"integer"},"d":{"type":"string","enum":["x","y"]},"e":{"type":"object","properties":{}},"f":{"type":"array","items":{"type":"string"}}}}`, ``},
		"optional by anyOf": {`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"title":"A"}}}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"(JSON Schema: {\"default\":null,\"nullable\":true})"}}}`, ``},
		"formats, patterns and bounds": {`{"type":"object","properties":{"u":{"type":"string","format":"uri","pattern":"(?<a"},"n":{"type":"integer","minimum":0,"exclusiveMinimum":true}},"additionalProperties":false}`,
			`{"type":"object","properties":{"u":{"type":"string","description":"(JSON Schema: {\"format\":\"uri\",\"pattern\":\"(?\\u003ca\"})"},"n":{"type":"integer","description":"(JSON Schema: {\"exclusiveMinimum\":true,\"minimum\":0})"}}}`, `{"additionalProperties":false}`},
		"arrays": {`{"type":"object","properties":{"a":{"type":"array"},"b":{"type":"array","items":[{"type":"string"},{"type":"number"}]},"c":{"type":"array","items":false}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{}},"b":{"type":"array","items":{},"description":"(JSON Schema: {\"items\":[{\"type\":\"string\"},{\"type\":\"number\"}]})"},"c":{"type":"array","items":{},"description":"(JSON Schema: {\"items\":false})"}}}`, ``},
		"required of nothing, and twice": {`{"type":"object","properties":{"a":{}},"required":["a","b","a"]}`, `{"type":"object","properties":{"a":{},"b":{}},"required":["a","b"]}`, ``},
		"required that is none":          {`{"type":"object","properties":{"a":{"type":"string","required":true}},"required":null}`, `{"type":"object","properties":{"a":{"type":"string","description":"(JSON Schema: {\"required\":true})"}}}`, ``},
		"boolean schemas":                {`{"type":"object","properties":{"a":true,"b":false}}`, `{"type":"object","properties":{"a":{}}}`, `{"properties":{"b":false}}`},
		"names that servers refuse":      {`{"type":"object","properties":{"a b":{"type":"string"},"$c":{},"d":{}},"required":["a b","d"]}`, `{"type":"object","properties":{"d":{}},"required":["d"]}`, `{"properties":{"$c":{},"a b":{"type":"string"}},"required":["a b"]}`},
		"a list of types at the top":     {`{"type":["object","null"],"properties":{"a":{"const":"x"}}}`, `{"type":"object","properties":{"a":{"type":"string","enum":["x"]}}}`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := llm.ToolSpec{Name: "t", Description: "Does it.", Schema: json.RawMessage(c.schema)}.Plain()
			if d := cmp.Diff(decoded(t, c.want), decoded(t, string(got.Schema))); d != "" || !ok {
				t.Errorf("ok %v, schema (-want +got):\n%s", ok, d)
			}
			if !strings.HasPrefix(got.Description, "Does it.") || !strings.Contains(got.Description, c.words) || c.words == "" && got.Description != "Does it." {
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
	doubling := `{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{`
	for i := range 40 {
		n := string(rune('A' + i))
		doubling += `"d` + map[bool]string{true: "0", false: n}[i == 0] + `":{"properties":{"x":{"$ref":"#/$defs/d` + string(rune('A'+i+1)) + `"},"y":{"$ref":"#/$defs/d` + string(rune('A'+i+1)) + `"}}},`
	}
	for name, schema := range map[string]string{
		"endless references": doubling + `"z":{}}}`,
		"no object":          `[]`,
		"empty":              ``,
		"too many arguments": `{"type":"object","properties":{"a":{}` + strings.Repeat(`,"a`+strings.Repeat("b", 40)+`":{}`, 1) + `},"x":"` + strings.Repeat("x", 70_000) + `"}`,
	} {
		if got, ok := (llm.ToolSpec{Name: "t", Schema: json.RawMessage(schema)}).Plain(); ok {
			t.Errorf("%s: %d bytes", name, len(got.Schema))
		}
	}
	long := strings.Repeat("word ", 500)
	got, ok := llm.ToolSpec{Name: "t", Description: long, Schema: json.RawMessage(`{"type":"object"}`)}.Plain()
	if !ok || len(got.Description) > 1000 || !strings.Contains(string(got.Schema), strings.TrimSpace(long)) {
		t.Errorf("a long description became %d bytes and %s", len(got.Description), got.Schema)
	}
}
