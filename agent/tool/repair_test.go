package tool_test

import (
	"context"
	"encoding/json"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/tool"
)

func TestCallsAreRepairedWhereOneThingCanBeMeant(t *testing.T) {
	type wish struct {
		Path  string          `json:"path"`
		Limit int             `json:"limit,omitempty"`
		Ratio float64         `json:"ratio,omitempty"`
		All   bool            `json:"all,omitempty"`
		Names []string        `json:"names,omitempty"`
		More  map[string]bool `json:"more,omitempty"`
	}
	named := func(name string) tool.Tool {
		return tool.New(tool.Spec{Name: name}, func(context.Context, wish) tool.Result { return tool.Result{} })
	}
	s := tool.NewSet(tool.SetConfig{}, named("Glob"), named("mcp__a__Find"), named("mcp__a__find"))
	for _, c := range []struct{ name, args, wantName, wantArgs string }{
		{"Glob", `{"path":"a"}`, "Glob", ""},
		{"glob", `{"path":"a"}`, "Glob", ""},
		{"functions.Glob", `{}`, "Glob", ""},
		{"functions.glob", `{}`, "Glob", ""},
		{" Glob\n", `{}`, "Glob", ""},
		{"Glob<|channel|>commentary", `{}`, "Glob", ""},
		{"mcp__a__find", `{}`, "mcp__a__find", ""},
		{"MCP__a__find", `{}`, "MCP__a__find", ""},
		{"", `{}`, "unnamed", ""},
		{"what is this?", `{}`, "what_is_this_", ""},
		{"Glob", `{"path":"7","limit":"2","ratio":"1.5","all":"true"}`, "Glob", `{"all":true,"limit":2,"path":"7","ratio":1.5}`},
		{"Glob", `{"path":"a","names":"[\"x\",\"y\"]","more":"{\"x\":true}"}`, "Glob", `{"more":{"x":true},"names":["x","y"],"path":"a"}`},
		{"Glob", `{"path":"a","limit":"two"}`, "Glob", ""},
		{"Glob", `{"path":"a","limit":"2.5"}`, "Glob", ""},
		{"Glob", `{"path":"a","all":"yes"}`, "Glob", ""},
		{"Glob", `{"path":"a","path":"b","limit":"2"}`, "Glob", ""}, // a key twice stays the error that it is
		{"Glob", `{"path":"<a>&","limit":"2"}`, "Glob", `{"limit":2,"path":"\u003ca\u003e\u0026"}`},
		{"Glob", `"{}{\"path\":\"a\"}"`, "Glob", `{"path":"a"}`},
		{"Glob", `"{\"path\":\"a\"}{\"path\":\"a\"}"`, "Glob", `{"path":"a"}`},
		{"Glob", `"{\"path\":\"a\"}{\"path\":\"b\"}"`, "Glob", ""},
		{"Glob", `"{\"path\":\"a\",\"limit\":\"2\"}"`, "Glob", `{"limit":2,"path":"a"}`},
		{"Glob", `"{\"path\":"`, "Glob", ""},
		{"Glob", `"a"`, "Glob", ""},
		{"other", `{"limit":"2"}`, "other", ""},
	} {
		got := s.Repair(llm.ToolCall{ID: "1", Name: c.name, Args: json.RawMessage(c.args)})
		if c.wantArgs == "" {
			c.wantArgs = c.args
		}
		if got.ID != "1" || got.Name != c.wantName || string(got.Args) != c.wantArgs {
			t.Errorf("%q %s: %q %s, want %q %s", c.name, c.args, got.Name, got.Args, c.wantName, c.wantArgs)
		}
	}
}
