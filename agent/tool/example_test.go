package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/security/permission"
)

type myInput struct {
	Field string `json:"field" jsonschema:"What it is about."`
}

func ExampleNew() {
	myTool := tool.New(tool.Spec{Name: "my_tool", Description: "What it does."}, func(_ context.Context, in myInput) tool.Result {
		return tool.Result{Text: "about " + in.Field}
	})
	fmt.Println(myTool.Spec().Name, string(myTool.Spec().Schema))
	// Output: my_tool {"type":"object","properties":{"field":{"type":"string","description":"What it is about."}},"required":["field"],"additionalProperties":false}
}

func ExampleSet() {
	type args struct {
		Text string `json:"text" jsonschema:"What to write large."`
	}
	shout := tool.New(tool.Spec{Name: "shout", Description: "Writes a text large."}, func(_ context.Context, a args) tool.Result {
		return tool.Result{Text: strings.ToUpper(a.Text)}
	})
	policy, err := permission.Config{Preset: "none", Allow: permission.Rules("shout")}.Policy()
	if err != nil {
		fmt.Println(err)
		return
	}
	set := tool.NewSet(tool.SetConfig{
		Guard:      permission.Chain{{Name: "ann", Policy: policy}},
		OnDecision: func(d tool.Decision) error { fmt.Println(d.Tool, d.Verdict.Action, d.Approved); return nil },
	}, shout)
	for _, r := range set.Run(context.Background(), []llm.ToolCall{
		{ID: "1", Name: "shout", Args: json.RawMessage(`{"text":"hello"}`)},
		{ID: "2", Name: "shout", Args: json.RawMessage(`{"words":"hello"}`)},
	}) {
		fmt.Println(r.CallID, r.IsError, r.Text)
	}
	// Output:
	// shout allow true
	// 1 false HELLO
	// 2 true The call of shout was not understood: there is no argument "words"; the arguments are text. Mend the arguments and call it again.
}
