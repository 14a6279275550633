package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/internal/security/strictjson"
)

func TestDecodeRefusesWhatReadersReadDifferently(t *testing.T) {
	strict := strictjson.Options{MaxDepth: 3, FoldKeys: true, ExactNumbers: true}
	for text, c := range map[string]struct {
		options strictjson.Options
		want    string
	}{
		`{"a":1,"a":2}`:      {strictjson.Options{MaxDepth: 3}, `the key "a" is there twice`},
		`{"a":1,"\u0061":2}`: {strictjson.Options{MaxDepth: 3}, `the key "a" is there twice`},
		`{"a":1,"A":2}`:      {strict, `the key "A" is there twice (as "a")`},
		`[[[[]]]]`:           {strict, "nested more than 3"},
		`1 2`:                {strict, "it is not JSON"},
		``:                   {strict, "it is not JSON"},
		"\"\xff\"":           {strict, "UTF-8"},
		`"\ud800"`:           {strict, "UTF-8"},
		`"\ud800\ufffd"`:     {strict, "UTF-8"},
		`9007199254740993`:   {strict, "too large to be exact"},
		`1e999`:              {strictjson.Options{}, "too large"},
	} {
		if got, err := strictjson.Decode([]byte(text), c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v; want an error with %q", text, got, err, c.want)
		}
	}
}

func TestOptionsSayWhatIsRefused(t *testing.T) {
	for text, want := range map[string]any{
		`{"a":1,"A":9007199254740993}`: map[string]any{"a": int64(1), "A": int64(9007199254740993)},
		`[[[3.0]]]`:                    []any{[]any{[]any{3.0}}},
		`"\ud83d\ude00 \ufffd \uFFFD"`: "😀 \uFFFD \uFFFD",
	} {
		got, err := strictjson.Decode([]byte(text), strictjson.Options{MaxDepth: 3})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
	if got, err := strictjson.Decode([]byte(`"\ud800"`), strictjson.Options{ReplaceHalves: true}); got != "\uFFFD" || err != nil {
		t.Errorf("got %q, %v; want the replacement", got, err)
	}
	if got, err := strictjson.Decode([]byte(`3.0`), strictjson.Options{ExactNumbers: true}); got != int64(3) || err != nil {
		t.Errorf("got %v, %v; want 3", got, err)
	}
}

func TestUnmarshalRefusesUnknownFieldsAndMoreData(t *testing.T) {
	for text, want := range map[string]string{`{"a":1}`: "", ` {} `: "", `{"b":1}`: "unknown field", `{} {}`: "behind its end",
		`{}x`: "behind its end", ``: "EOF"} {
		var v struct{ A int }
		if err := strictjson.Unmarshal([]byte(text), &v); want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// FuzzDecode holds the reader against encoding/json: what it accepts it reads as that does.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,{"b":null}],"c":"\u00e9\n"}`, `{"\ud800":1}`, `[1e400,-0,1.0]`, "[\t1 ,\n{ \"x\" : \"\u2028\" } ]", `"\\\""`, `tru`,
		`[1,]`, `[,1]`, `{"a":1,}`, `{"a",1}`, `{1:1}`, `[1 2]`, "\"\t\"", `"\q"`, `"a`, `"\`, "1\x00", `01`, `1.`, `truefalse`, ` `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := strictjson.Decode(text, strictjson.Options{MaxDepth: 64})
		if errors.Is(err, strictjson.ErrSyntax) && json.Valid(text) {
			t.Fatalf("encoding/json reads what is refused: %v", err)
		}
		if err != nil {
			return
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil {
			t.Fatalf("encoding/json reads none of what was read as %v: %v", got, err)
		}
		if diff := cmp.Diff(numbers(want), got); diff != "" {
			t.Errorf("encoding/json reads it differently (-json +decode):\n%s", diff)
		}
	})
}

// numbers makes of each json.Number what Decode makes of it.
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
