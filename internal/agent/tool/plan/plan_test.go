package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/internal/agent/tool/plan"
	"symbio/security/permission"
)

// run calls the tool and returns its result and the plans that it published.
func run(t *testing.T, args string) (r llm.ToolResult, published []event.Plan) {
	t.Helper()
	set := tool.NewSet(tool.SetConfig{Guard: permission.Chain{{Policy: permission.Permissive()}}}, plan.New(func(p event.Plan) { published = append(published, p) }))
	return set.Run(t.Context(), []llm.ToolCall{{ID: "1", Name: plan.Name, Args: json.RawMessage(args)}})[0], published
}

func TestPlanIsPublished(t *testing.T) {
	r, published := run(t, `{"steps":[{"text":"look\u202e around\n","state":"done"},{"text":"write","state":"running"},{"text":"`+strings.Repeat("x", 400)+`","state":"pending"}]}`)
	if r.IsError || r.Text != "The plan is shown: 1 pending, 1 running, 1 done." {
		t.Errorf("got %+v", r)
	}
	if len(published) != 1 || published[0].Steps[0] != (event.Step{Text: "look around ", State: "done"}) || len(published[0].Steps[2].Text) > 303 {
		t.Errorf("published is %+v", published)
	}
}

func TestPlanIsRefused(t *testing.T) {
	var many []string
	for i := range 51 {
		many = append(many, fmt.Sprintf(`{"text":"%d","state":"done"}`, i))
	}
	for args, want := range map[string]string{
		`{"steps":[]}`: "1 to 50 steps, not 0",
		`{"steps":[` + strings.Join(many, ",") + `]}`:          "1 to 50 steps, not 51",
		`{"steps":[{"text":"a","state":"maybe"}]}`:             "the states are pending, running and done",
		`{"steps":[{"text":"\u200b","state":"done"}]}`:         "step 1 has no text",
		`{"steps":[{"text":"a","state":"done","extra":true}]}`: "not understood",
		`{}`: "not understood",
	} {
		if r, published := run(t, args); !r.IsError || !strings.Contains(r.Text, want) || len(published) > 0 {
			t.Errorf("%.60s: got %+v and %v, want %q", args, r, published, want)
		}
	}
}
