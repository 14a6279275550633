package tool_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/tool"
)

func TestArgumentsAreReadAsTheyStand(t *testing.T) {
	got, err := tool.DecodeArgs(json.RawMessage(" { \"a\\u0062\" : [ 1 , -2.5e1, 0.5, [ ] , {} ] ,\n\t\"q\": \"\\\"\\\\\", \"t\":true,\"f\":false,\"n\":null } "))
	want := map[string]any{"ab": []any{int64(1), int64(-25), 0.5, []any{}, map[string]any{}}, "q": `"\`, "t": true, "f": false, "n": nil}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestKeyMayBeThereOnce(t *testing.T) {
	for _, text := range []string{`{"a":1,"a":2}`, `{"a":1,"A":2}`, `{"A":1,"a":2}`, `{"A":1,"A":2}`, `{"x":{"s":1,"\u017f":2}}`,
		`{"k":1,"K":2}`, `[{"a":1,"\u0061":1}]`} {
		if _, err := tool.DecodeArgs(json.RawMessage(text)); err == nil || !strings.Contains(err.Error(), "there twice") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzDecodeArgs holds the reader against encoding/json: what it accepts it reads as that does, and what it refuses it
// refuses for a reason that it has.
func FuzzDecodeArgs(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":[1,2.5,{"b":null}],"c":"\u00e9\n"}`, `{"a":1,"A":2}`, `{"\ud800":1}`, `{"a":1e400}`, strings.Repeat(`[`, 70) + strings.Repeat(`]`, 70),
		`{"a" : "b\\" }`, `7`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := tool.DecodeArgs(text)
		var want map[string]any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		whole := d.Decode(&want)
		if err != nil {
			reasons := []string{"one JSON object", "UTF-8", "nested more", "there twice", "is too large"}
			for _, r := range reasons {
				if strings.Contains(err.Error(), r) {
					return
				}
			}
			t.Fatalf("%q is refused: %v", text, err)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			return
		}
		if diff := cmp.Diff(numbers(want), any(got)); whole != nil || diff != "" {
			t.Fatalf("%q: %v\n%s", text, whole, diff)
		}
	})
}

// numbers is v with its numbers as DecodeArgs has them.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case json.Number:
		if x, err := v.Float64(); err != nil || x != math.Trunc(x) {
			return x
		}
		x, _ := v.Float64()
		return int64(x)
	}
	return v
}
