package tool_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/security/permission"
)

// doubtful is a tool that has a doubt about its calls.
type doubtful struct{ why string }

func (d *doubtful) Spec() llm.ToolSpec {
	return llm.ToolSpec{Name: "d", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (d *doubtful) Decode(json.RawMessage) (tool.Invocation, error) {
	return tool.Invocation{Args: map[string]any{}, Doubt: func() string { return d.why }, Run: says("ran")}, nil
}

func TestCallThatIsDoubtedIsAskedAboutWhateverAllowsIt(t *testing.T) {
	for _, c := range []struct {
		name  string
		why   string
		guard permission.Action
		asked bool
		runs  bool
	}{
		{"no doubt", "", permission.Allow, false, true},
		{"a doubt about what is allowed", "It changed.", permission.Allow, true, false},
		{"a doubt about what is asked", "It changed.", permission.Ask, true, false},
		{"a doubt about what is denied", "It changed.", permission.Deny, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := ""
			set := tool.NewSet(tool.SetConfig{Guard: by{"d": c.guard}, Ask: func(_ context.Context, d tool.Decision) tool.Answer {
				asked = d.Verdict.Why
				return tool.Answer{}
			}})
			set.SetDynamic([]tool.Tool{&doubtful{c.why}, &doubtful{""}}) // the second has the first one's name
			r := set.Run(t.Context(), calls("d"))[0]
			if strings.Contains(asked, "It changed.") != c.asked || r.IsError == c.runs {
				t.Errorf("got %+v, asked %q", r, asked)
			}
		})
	}
}
