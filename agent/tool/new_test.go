package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/tool"
)

type greeting struct {
	Name  string   `json:"name" jsonschema:"Whom to greet."`
	Times int      `json:"times,omitempty" jsonschema:"How often."`
	Tone  string   `json:"tone,omitempty"`
	Also  []person `json:"also,omitempty"`
}

type person struct {
	Name string `json:"name"`
}

// greet keeps what it was called with.
func greet(got *greeting) tool.Tool {
	return tool.New(tool.Spec{Name: "greet", Description: "Greets.", Enums: map[string][]string{"tone": {"warm", "cool"}}},
		func(_ context.Context, g greeting) tool.Result { *got = g; return tool.Result{Text: "hello " + g.Name} })
}

func TestSchemaComesFromTheStruct(t *testing.T) {
	var got, want any
	if err := json.Unmarshal(greet(new(greeting)).Spec().Schema, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{"type":"object","required":["name"],"additionalProperties":false,"properties":{
		"name":{"type":"string","description":"Whom to greet."},"times":{"type":"integer","description":"How often."},
		"tone":{"type":"string","enum":["warm","cool"]},
		"also":{"type":["null","array"],"items":{"type":"object","required":["name"],"additionalProperties":false,"properties":{"name":{"type":"string"}}}}}}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestArgumentsAreDecodedOnceForGuardAndTool(t *testing.T) {
	for text, want := range map[string]greeting{
		`{"name":"ann","times":3,"tone":"cool","also":[{"name":"bob"}]}`: {Name: "ann", Times: 3, Tone: "cool", Also: []person{{"bob"}}},
		` {"name":"\u0061nn","times":3.0} `:                              {Name: "ann", Times: 3},
		`{"name":"ann","times":null,"tone":null}`:                        {Name: "ann"},
		`{"name":"","times":-1e1}`:                                       {Times: -10},
		`{"name":"\ud800"}`:                                              {Name: "\ufffd"},
	} {
		var got greeting
		inv, err := greet(&got).Decode(json.RawMessage(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		inv.Run(t.Context())
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the tool got\n%s", text, diff)
		}
		if inv.Args["name"] != want.Name {
			t.Errorf("%s: the guard sees %v, the tool %+v", text, inv.Args, want)
		}
	}
}

func TestArgumentsThatAreNotClearAreRefusedAndExplained(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"a","name":"b"}`:                   `the key "name" is there twice`,
		`{"name":"a","NAME":"b"}`:                   `the key "NAME" is there twice`,
		`{"name":"a","also":[{"name":1,"Name":2}]}`: `there twice`,
		`{"name":"a","time\u017f":1,"times":2}`:     `there twice`,
		`{"Name":"a"}`:                              `there is no argument "Name"; the arguments are name, times (optional), tone (optional), also (optional)`,
		`{"name":"a","extra":1}`:                    `there is no argument "extra"`,
		`{"name":"a","extra":null}`:                 `there is no argument "extra"`,
		`{}`:                                        `"name" is missing`,
		``:                                          `"name" is missing`,
		`{"name":null}`:                             `name has to be of type string, not null`,
		`{"name":7}`:                                `name has to be of type string, not integer`,
		`{"name":"a","times":"3"}`:                  `times has to be of type integer, not string`,
		`{"name":"a","times":1.5}`:                  `times has to be of type integer, not number`,
		`{"name":"a","times":9007199254740993}`:     `too large`,
		`{"name":"a","times":1e999}`:                `too large`,
		`{"name":"a","tone":"Warm"}`:                `tone has to be one of warm, cool`,
		`{"name":"a","also":[{"nAme":"b"}]}`:        `do not fit the schema`,
		`{"name":"a"} {}`:                           `not one JSON object`,
		`{"name":"a"`:                               `not one JSON object`,
		`{"name":"a",}`:                             `not one JSON object`,
		`["a"]`:                                     `one JSON object`,
		`"{}"`:                                      `one JSON object`,
		`null`:                                      `one JSON object`,
		"{\"name\":\"\xff\"}":                       `UTF-8`,
		`{"name":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`: `nested more than 64`,
		`{"name":` + strings.Repeat("[", 20000):                              `nested more than 64 deep`,
		`{"name":"` + strings.Repeat("a", 1<<20) + `"}`:                      `at most 1048576`,
	} {
		inv, err := greet(new(greeting)).Decode(json.RawMessage(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, %v; want an error with %q", text, inv.Args, err, want)
		}
	}
}

func TestNewPanicsOnlyOverTheProgramsOwnMistakes(t *testing.T) {
	for name, make := range map[string]func(){
		"no struct": func() {
			tool.New(tool.Spec{Name: "x"}, func(context.Context, map[string]int) tool.Result { return tool.Result{} })
		},
		"no schema": func() {
			tool.New(tool.Spec{Name: "x"}, func(context.Context, struct{ C chan int }) tool.Result { return tool.Result{} })
		},
		"an unknown enum": func() {
			tool.New(tool.Spec{Enums: map[string][]string{"x": {"y"}}},
				func(context.Context, struct{}) tool.Result { return tool.Result{} })
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			make()
		}()
	}
}

// What is accepted is one reading: the map and the struct agree, however the text is written.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"name":"a"}`, `{"name":"a","times":3e0}`, `{"name":"a","Name":"b"}`, `{"name":"a","also":[{"name":"b"}]}`,
		`{"na\u006de":"x"}`, `{"name":"a"}x`, "", `{"name":"a","times":1e17}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got greeting
		inv, err := greet(&got).Decode(text)
		if err != nil {
			return
		}
		inv.Run(context.Background())
		if got.Name != inv.Args["name"] {
			t.Fatalf("%q: the tool got %q, the guard saw %q", text, got.Name, inv.Args["name"])
		}
		if n, ok := inv.Args["times"]; ok && n != int64(got.Times) {
			t.Fatalf("%q: the tool got %d, the guard saw %v", text, got.Times, n)
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		var plain greeting
		if err := d.Decode(&plain); err == nil && !cmp.Equal(plain, got) {
			t.Fatalf("%q: another reader has %+v, the tool %+v", text, plain, got)
		}
	})
}
