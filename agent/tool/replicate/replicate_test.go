package replicate_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/replicate"
	"symbio/community"
	"symbio/security/permission"
)

// use calls a tool of a set that allows everything, and returns its result.
func use(t *testing.T, tools []tool.Tool, name, args string) llm.ToolResult {
	t.Helper()
	set := tool.NewSet(tool.SetConfig{Guard: permission.Chain{{Policy: permission.Permissive()}}}, tools...)
	return set.Run(t.Context(), []llm.ToolCall{{ID: "1", Name: name, Args: json.RawMessage(args)}})[0]
}

func TestModelTalksToItsReplicasAndToNoOthers(t *testing.T) {
	c := community.New(community.Config{})
	w := worker{c}
	other, err := w.Replicate(t.Context(), community.Replica{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := replicate.Tools(c, w), replicate.Tools(c, w)
	if got := use(t, mine, "find_members", `{}`); got.Text != "[]" {
		t.Errorf("before any: %s", got.Text)
	}
	var made struct {
		Success bool
		ID      community.MemberID `json:"agent_id"`
	}
	if got := use(t, mine, "replicate_agent", `{"reason":"r","name":"helper"}`); json.Unmarshal([]byte(got.Text), &made) != nil || !made.Success || made.ID == "" {
		t.Fatalf("replicate_agent: %s", got.Text)
	}
	if got := use(t, mine, "find_members", `{}`); !strings.Contains(got.Text, string(made.ID)) || strings.Contains(got.Text, string(other.ID)) {
		t.Errorf("found %s", got.Text)
	}
	for _, to := range []string{"helper", string(made.ID)} {
		if got := use(t, mine, "send_signal", `{"member":"`+to+`","data":"x"}`); got.IsError || got.Text != `done: "x"` {
			t.Errorf("to %s: %+v", to, got)
		}
		if got := use(t, theirs, "send_signal", `{"member":"`+to+`","data":"x"}`); !got.IsError {
			t.Errorf("to the replica of another model: %+v", got)
		}
	}
	for _, to := range []string{"other", string(other.ID)} {
		if got := use(t, mine, "send_signal", `{"member":"`+to+`","data":"x"}`); !got.IsError || !strings.Contains(got.Text, "no member") {
			t.Errorf("to %s: %+v", to, got)
		}
	}
	if err := c.Terminate(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	if got := use(t, mine, "find_members", `{}`); got.Text != "[]" {
		t.Errorf("after its end: %s", got.Text)
	}
}

// barren is an agent that makes no other.
type barren struct{}

func (barren) Replicate(context.Context, community.Replica) (community.Member, error) {
	return community.Member{}, errors.New("there are enough")
}

func TestModelReadsWhyNoAgentWasSpawned(t *testing.T) {
	tools := replicate.Tools(community.New(community.Config{}), barren{})
	if got := use(t, tools, "replicate_agent", `{"reason":"r"}`); !got.IsError || got.Text != "no agent was spawned: there are enough" {
		t.Errorf("%+v", got)
	}
}
