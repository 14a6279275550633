package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/security/permission"
)

// asks is a tool that only asks for something, and keeps the yes to it.
type asks struct {
	tool.Tool
	kept *[]*tool.Consent
}

func (a asks) Decode(json.RawMessage) (tool.Invocation, error) {
	return tool.Invocation{Args: map[string]any{}, Run: func(context.Context) tool.Result { return tool.Result{} },
		OnConsent: func(c *tool.Consent) { *a.kept = append(*a.kept, c) }}, nil
}

// A yes is kept only if the decision stands: not one in advance, and not one that could not be recorded.
func TestConsentIsOfADecisionThatStands(t *testing.T) {
	policy, err := permission.Config{Preset: "none"}.Policy()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		answer tool.Answer
		record error
		want   int
	}{
		"yes":          {tool.Answer{Allow: true}, nil, 1},
		"no":           {tool.Answer{}, nil, 0},
		"in advance":   {tool.Answer{Allow: true, Advance: true}, nil, 0},
		"not recorded": {tool.Answer{Allow: true}, errors.New("the disk is full"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			var kept []*tool.Consent
			own := tool.New(tool.Spec{Name: "Own"}, func(context.Context, struct{}) tool.Result { return tool.Result{} })
			set := tool.NewSet(tool.SetConfig{
				Guard: permission.Chain{{Name: "ann", Policy: policy}}, Dir: t.TempDir(),
				Ask:        func(context.Context, tool.Decision) tool.Answer { return test.answer },
				OnDecision: func(tool.Decision) error { return test.record },
			}, asks{own, &kept})
			set.Run(t.Context(), []llm.ToolCall{{ID: "c1", Name: "Own", Args: json.RawMessage("{}")}})
			if len(kept) != test.want {
				t.Errorf("%d yes are kept, want %d", len(kept), test.want)
			}
		})
	}
}
