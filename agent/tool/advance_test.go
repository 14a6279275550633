package tool_test

import (
	"context"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/security/permission"
)

// A person who sees a call may have seen where its link leads; one who answered in advance has not.
func TestAnswerInAdvanceFollowsNoLinkThatRulesDoNotAllow(t *testing.T) {
	for _, advance := range []bool{false, true} {
		follows := map[string]bool{}
		write := tool.New(tool.Spec{Name: "Write"}, func(ctx context.Context, _ struct {
			Path string `json:"file_path"`
		}) tool.Result {
			for _, to := range []string{"/w/allowed", "/w/asked", "/w/denied"} {
				follows[to] = tool.MayFollowLink(ctx, to)
			}
			return tool.Result{}
		})
		guard := guardFunc(func(c permission.Call) permission.Verdict {
			switch c.Args["file_path"] {
			case "/w/allowed":
				return permission.Verdict{Action: permission.Allow}
			case "/w/denied":
				return permission.Verdict{}
			}
			return permission.Verdict{Action: permission.Ask}
		})
		var recorded tool.Decision
		set := tool.NewSet(tool.SetConfig{
			Guard: guard, Ask: func(context.Context, tool.Decision) tool.Answer { return tool.Answer{Allow: true, Advance: advance} },
			OnDecision: func(d tool.Decision) error { recorded = d; return nil },
		}, write)
		set.Run(t.Context(), []llm.ToolCall{{ID: "1", Name: "Write", Args: []byte(`{"file_path":"link"}`)}})
		if !follows["/w/allowed"] || follows["/w/asked"] == advance || follows["/w/denied"] {
			t.Errorf("in advance %v: it follows %v", advance, follows)
		}
		if recorded.Verdict.Action != permission.Ask || !recorded.Approved {
			t.Errorf("in advance %v: recorded is %+v", advance, recorded)
		}
	}
}

func TestOnlyReadsDeniesAfterTheGuard(t *testing.T) {
	asked := 0
	var recorded []string
	tools := []tool.Tool{
		tool.New(tool.Spec{Name: "look", ReadOnly: true},
			func(context.Context, struct{}) tool.Result { return tool.Result{Text: "looked"} }),
		tool.New(tool.Spec{Name: "peek", ReadOnly: true},
			func(context.Context, struct{}) tool.Result { return tool.Result{Text: "peeked"} }),
		tool.New(tool.Spec{Name: "touch"}, func(context.Context, struct{}) tool.Result { return tool.Result{Text: "touched"} }),
	}
	set := tool.NewSet(tool.SetConfig{
		Guard:     by{"look": permission.Allow, "touch": permission.Allow, "peek": permission.Ask},
		OnlyReads: func() string { return "Reading only." },
		Ask:       func(context.Context, tool.Decision) tool.Answer { asked++; return tool.Answer{} },
		OnDecision: func(d tool.Decision) error {
			recorded = append(recorded, d.Tool+" "+string(d.Verdict.Stage))
			return nil
		},
	}, tools...)
	results := set.Run(t.Context(), calls("look", "peek", "touch"))
	for i, want := range []string{"looked", "The person said no.", "Denied: Reading only. Do not repeat"} {
		if !strings.Contains(results[i].Text, want) {
			t.Errorf("%s: got %q, want %q", results[i].Name, results[i].Text, want)
		}
	}
	if asked != 1 || recorded[2] != "touch mode" {
		t.Errorf("asked %d times, recorded %q", asked, recorded)
	}
}

func TestOnlyReadsSaysWhatACommandAskedFor(t *testing.T) {
	type args struct {
		Access string `json:"access,omitempty"`
	}
	run := tool.New(tool.Spec{Name: "Bash", HasBox: func(context.Context, permission.Box) bool { return true }},
		func(context.Context, args) tool.Result { return tool.Result{Text: "ran"} })
	set := tool.NewSet(tool.SetConfig{Guard: by{"Bash": permission.Allow}, OnlyReads: func() string { return "Reading only." }}, run)
	for args, want := range map[string]string{`{}`: "ran", `{"access": "look"}`: "ran", `{"access": "write"}`: "Denied: It asks for access to write, and commands only look now. Reading only."} {
		got := set.Run(t.Context(), []llm.ToolCall{{ID: "1", Name: "Bash", Args: []byte(args)}})[0]
		if !strings.Contains(got.Text, want) {
			t.Errorf("%s: got %q, want %q", args, got.Text, want)
		}
	}
}
