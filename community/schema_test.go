package community

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSchemasThatCannotBeUsedSayWhy(t *testing.T) {
	// Each definition refers twice to the next: 2 to the 60th parts.
	var doubling strings.Builder
	doubling.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range 60 {
		fmt.Fprintf(&doubling, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	doubling.WriteString(`"a60":{}}}`)
	for name, tt := range map[string]struct{ text, want string }{
		"no JSON":               {`{`, "not JSON"},
		"a number":              {`7`, "a schema is an object"},
		"too deep":              {strings.Repeat(`{"not":`, 65) + `{}` + strings.Repeat(`}`, 65), "more than 64 deep"},
		"itself":                {`{"$ref":"#"}`, "refers to itself"},
		"itself, further down":  {`{"properties":{"a":{"items":{"$ref":"#/properties/a"}}}}`, "refers to itself"},
		"each other":            {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "refers to itself"},
		"itself in a default":   {`{"properties":{"default":{"$ref":"#/properties/default"}}}`, "refers to itself"},
		"itself, cased":         {`{"$REF":"#"}`, "refers to itself"},
		"two keys in one":       {`{"properties":{"a":true},"Properties":{"a":{"$ref":"#/properties/a"}}}`, "there twice"},
		"a key twice":           {`{"type":"object","type":"array"}`, "there twice"},
		"another document":      {`{"$ref":"https://127.0.0.1/x"}`, "nothing is fetched"},
		"another file":          {`{"$ref":"file:///etc/passwd"}`, "nothing is fetched"},
		"an anchor":             {`{"$ref":"#a","$anchor":"a"}`, "nothing is fetched"},
		"nowhere":               {`{"$ref":"#/$defs/a"}`, "no such place"},
		"a base in the middle":  {`{"properties":{"a":{"$id":"https://x/y","$ref":"#/properties/a"}}}`, "$id"},
		"dynamic":               {`{"$dynamicRef":"#a","$dynamicAnchor":"a"}`, "only $ref"},
		"doubling":              {doubling.String(), "more than 8192 parts"},
		"a costly pattern":      {`{"pattern":"` + strings.Repeat("x{1000}", 9) + `"}`, "more than 8192 parts"},
		"costly property names": {`{"patternProperties":{"x{1000}y{1000}z{1000}x{1000}y{1000}z{1000}x{1000}y{1000}z{1000}":{}}}`, "more than 8192 parts"},
		"a broken pattern":      {`{"pattern":"("}`, "pattern"},
		"a slip":                {`{"type":"objct"}`, `no type "objct"`},
		"an older dialect":      {`{"$schema":"http://json-schema.org/draft-04/schema#"}`, "draft-04"},
		"a type of two kinds":   {`{"minLength":"x"}`, ""},
	} {
		s, err := compile(json.RawMessage(tt.text))
		if err == nil || s != nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, tt.want)
		}
	}
}

func TestSchemaAcceptsAndRefuses(t *testing.T) {
	const point = `{"type":"object","properties":{"x":{"type":"integer","minimum":0},"to":{"$ref":"#/$defs/p"}},"required":["x"],
		"additionalProperties":false,"$defs":{"p":{"type":"array","items":{"type":"string","pattern":"^a+$"},"uniqueItems":true}}}`
	for name, tt := range map[string]struct {
		schema, data, contentType string
		want                      string // "" = it fits
	}{
		"nothing said":           {"", `{`, "text/plain", ""},
		"true":                   {"true", `1`, "", ""},
		"fits":                   {point, `{"x":1,"to":["a","aa"]}`, "application/json; charset=utf-8", ""},
		"fits, whole":            {point, `{"x":1.0}`, "application/vnd.x+json", ""},
		"a large number is kept": {`{"type":"integer","minimum":0}`, `9223372036854775807`, "", ""},
		"nothing is null":        {`{"type":"null"}`, ``, "", ""},
		"nothing":                {point, ``, "", `has type "null", want "object"`},
		"wrong type":             {point, `{"x":"two"}`, "", `/properties/x: type: two has type "string", want "integer"`},
		"missing":                {point, `{}`, "", `missing properties: ["x"]`},
		"too small":              {point, `{"x":-1}`, "", `/properties/x: minimum`},
		"too many":               {point, `{"x":1,"y":2}`, "", `unexpected additional properties ["y"]`},
		"deep inside":            {point, `{"x":1,"to":["b"]}`, "", `/$defs/p/items: pattern`},
		"not unique":             {point, `{"x":1,"to":["a","a"]}`, "", `uniqueItems`},
		"not JSON":               {point, `{"x":1`, "", "not JSON"},
		"two values":             {"true", `1 2`, "", "not JSON"},
		"a key twice":            {point, `{"x":1,"x":"two"}`, "", `the key "x" is there twice`},
		"keys that differ":       {"true", `{"x":1,"X":"two"}`, "", ""},
		"not as JSON":            {point, `{"x":1}`, "text/plain", "text/plain, and has to be JSON"},
		"deep":                   {"true", strings.Repeat("[", 64) + strings.Repeat("]", 64), "", ""},
		"too deep":               {"true", strings.Repeat("[", 65) + strings.Repeat("]", 65), "", "more than 64 deep"},
		"brackets in a text":     {"true", `"` + strings.Repeat(`[\"`, 65) + `"`, "", ""},
		"false":                  {"false", `1`, "", "not"},
		"a huge number":          {"true", `1e999`, "", "too large"},
	} {
		s, err := compile(json.RawMessage(tt.schema))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		err = s.check([]byte(tt.data), tt.contentType)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

func TestMessageAboutALargeValueSaysWhatIsWrongWithIt(t *testing.T) {
	s, err := compile(json.RawMessage(`{"properties":{"x":{"type":"integer"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	err = s.check([]byte(`{"x":"`+strings.Repeat("long ", 1000)+`"}`), "")
	if got := fmt.Sprint(err); len(got) > maxExplanation || !strings.HasPrefix(got, "/properties/x: type: long") ||
		!strings.HasSuffix(got, `want "integer"`) {
		t.Errorf("got %q", got)
	}
}

// The worst that a schema can make of a value is bounded, and so is what is not checked at all.
func TestCheckByAHostileSchemaEnds(t *testing.T) {
	var all, refs []string
	for range 30 {
		all = append(all, `{"anyOf":[{"type":"integer"},{"items":{"not":{}}},{"contains":{"type":"string","pattern":"x*x*x*y"}}]}`)
		refs = append(refs, `{"$ref":"#/$defs/a"}`)
	}
	text := `{"allOf":[` + strings.Join(refs[:4], ",") + `],"$defs":{"a":{"anyOf":[` + strings.Join(all, ",") + `]}}}`
	s, err := compile(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	list := func(n int) []byte { return []byte(`[` + strings.Repeat(`"xxxxxxxxxxxxxxxx",`, n) + `1]`) }
	err = s.check(list(maxWork/s.weight/19-1), "")
	if err == nil || errors.Is(err, errTooLargeToCheck) {
		t.Errorf("the largest that is checked: %v", err)
	}
	if err := s.check(list(1<<20/19), ""); !errors.Is(err, errTooLargeToCheck) {
		t.Errorf("1 MiB: got %v, want errTooMuch", err)
	}
}

// Whatever a schema and a value are, a check ends, and says no more than may be shown.
func FuzzSchema(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","properties":{"x":{"type":"integer","minimum":0}},"required":["x"],"additionalProperties":false}`,
		`{"$ref":"#"}`, `{"$ref":"#/$defs/a","$defs":{"a":{"oneOf":[{"type":"string"},{"items":{"$ref":"#/$defs/b"}}]},"b":{"pattern":"^(a|b)*$"}}}`,
		`{"if":{"minItems":2},"then":{"uniqueItems":true},"else":false}`, `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{},{}],"additionalItems":false}`,
		`{"enum":[1,"a",null,{"$ref":"#"}]}`, `{"dependentSchemas":{"x":{"required":["y"]}},"unevaluatedProperties":false,"propertyNames":{"maxLength":3}}`,
		`{"properties":{"$ref":{"$ref":"#/properties/$ref"}}}`, `{"multipleOf":0}`, `{"$id":"https://x/","$anchor":"a","$ref":"#/%24defs","$defs":{}}`,
	} {
		f.Add(s, `{"x":1}`)
		f.Add(s, `[["a"],["b"],{"$ref":"#"}]`)
	}
	f.Fuzz(func(t *testing.T, text, data string) {
		if len(text) > maxSchema {
			return
		}
		s, err := compile(json.RawMessage(text))
		if err != nil {
			if s != nil {
				t.Errorf("a schema beside the error %v", err)
			}
			return
		}
		err = s.check([]byte(data), "")
		if again := s.check([]byte(data), ""); (again == nil) != (err == nil) {
			t.Errorf("once %v, and then %v", err, again)
		}
		if err == nil && s != nil && len(data) > 0 && !json.Valid([]byte(data)) && strings.TrimSpace(data) != "" {
			t.Errorf("%q is no JSON and fits", data)
		}
	})
}

// The decoder reads what encoding/json reads, and refuses only what is twice, too deep or too large.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-2.5e3,true,false,null,"x"],"b":{}}`, " [ ] ", `{"a":1,"a":2}`, `{"\u0061":1,"b":"\ud800\"\\"}`, `[1.0,9223372036854775808,-0,1e400]`,
		"[\t1 ,\n{ \"x\" : \"\u2028\" } ]", `"`, `[`, `{"a"`, `1 2`, `tru`, "\"\xff\"",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decode(data, false)
		if err != nil || len(bytes.TrimSpace(data)) == 0 {
			return
		}
		var want any
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("encoding/json reads none of what was read as %v: %v", got, err)
		}
		if diff := cmp.Diff(numbers(want), got); diff != "" {
			t.Errorf("encoding/json reads it differently (-json +decode):\n%s", diff)
		}
	})
}

// numbers makes of each json.Number what decode makes of it.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		x, _ := v.Float64()
		return x
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}

func TestDecodeRefusesWhatOthersCouldReadDifferently(t *testing.T) {
	for text, fold := range map[string]bool{
		`1 2`: false, `1 x`: false, `[1,]`: false, `[1`: false, `{"a"`: false, `{"a":1,"a":2}`: false, `{"a":1,"\u0061":2}`: false, "\"\xff\"": false,
		`{"s":1,"S":2}`: true, `{"s":1,"ſ":2}`: true, `{"b":{"a":1,"A":1}}`: true,
	} {
		if v, err := decode([]byte(text), fold); err == nil {
			t.Errorf("%s was read as %v", text, v)
		}
		if fold {
			if _, err := decode([]byte(text), false); err != nil {
				t.Errorf("%s is an error when case matters: %v", text, err)
			}
		}
	}
}
