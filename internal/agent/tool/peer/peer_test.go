package peer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/tool/peer"
	"symbio/security/permission"
)

// house is a community of two nodes; the other one offers three things.
type house struct{ invoked []string }

const (
	here  = community.NodeID("aa000000000000000000000000000000")
	there = community.NodeID("bb000000000000000000000000000000")
)

var self = community.Member{ID: "a1000000000000000000000000000000", Name: "ann", Node: here, Accepts: []string{"task"}, Available: true}

func (h *house) Members() []community.Member {
	return []community.Member{self, {ID: community.MemberID(there), Name: "kitchen", Node: there, Provides: []string{"disk.wipe", "oven.heat", "text.count"}, Available: true,
		Metadata: map[string]string{"room": "kitchen"}}}
}

func (h *house) Catalog() community.Catalog {
	return community.Catalog{Members: []community.Member{self}}
}

func (h *house) Capability(node community.NodeID, name string) (community.Capability, bool) {
	return community.Capability{Name: name, Description: "does " + name, Input: json.RawMessage(`{"type":"object"}`)}, node == there
}

func (h *house) Send(context.Context, community.MemberID, community.Signal) (community.Reply, error) {
	return community.Reply{}, errors.New("not in this test")
}

func (h *house) InvokeStream(_ context.Context, _ community.MemberID, name string, s community.Signal, heard func(community.Update)) (community.Reply, error) {
	h.invoked = append(h.invoked, name)
	for i := range 100 {
		heard(community.Update{Progress: community.Progress{Message: fmt.Sprint(i, " %")}})
		heard(community.Update{Output: []byte("not the result")})
	}
	if name == "oven.heat" {
		return community.Reply{}, community.Explain(community.ErrInvalid, "the input: /properties/heat: too hot")
	}
	return community.Reply{Data: s.Data}, nil
}

// rules allow to look, and text; the oven has to be asked for, and the rest is denied.
func rules(t *testing.T) permission.Chain {
	t.Helper()
	cfg := permission.Config{Preset: "none", Allow: permission.Rules("find_members", "invoke_capability(text.*)"), Deny: permission.Rules("invoke_capability(disk.*)")}
	p, err := cfg.Policy()
	if err != nil {
		t.Fatal(err)
	}
	return permission.Chain{{Name: "ann", Policy: p}}
}

func run(t *testing.T, h *house, guard, shown tool.Guard, name, args string) llm.ToolResult {
	t.Helper()
	set := tool.NewSet(tool.SetConfig{Guard: guard, Ask: func(context.Context, tool.Decision) tool.Answer { return tool.Answer{Allow: true} }}, peer.Tools(h, self, shown, noTool)...)
	return set.Run(t.Context(), []llm.ToolCall{{ID: "1", Name: name, Args: json.RawMessage(args)}})[0]
}

func TestModelIsShownOnlyWhatItMayInvoke(t *testing.T) {
	guard := rules(t)
	for args, want := range map[string]string{
		`{}`:                        `"provides":["oven.heat","text.count"]`,
		`{"provides":"text.count"}`: `"capability":{"description":"does text.count","input_schema":{"type":"object"}}`,
		`{"provides":"disk.wipe"}`:  `[]`,
	} {
		got := run(t, &house{}, guard, guard, "find_members", args)
		if got.IsError || !strings.Contains(got.Text, want) || strings.Contains(got.Text, "wipe") {
			t.Errorf("%s: got %s, want %s", args, got.Text, want)
		}
	}
	if got := run(t, &house{}, guard, nil, "find_members", `{}`); strings.Contains(got.Text, "provides") {
		t.Errorf("nobody guards: it is shown %s", got.Text)
	}
	if got := run(t, &house{}, guard, permission.Chain{}, "find_members", `{}`); strings.Contains(got.Text, "provides") {
		t.Errorf("nothing is permitted: it is shown %s", got.Text)
	}
}

func TestModelFindsMembersByLabelsOfTheirNode(t *testing.T) {
	guard := rules(t)
	for args, want := range map[string]string{
		`{"where":["room"]}`: "kitchen", `{"where":["room=kitchen"]}`: "kitchen", `{"where":["room=cellar"]}`: "[]", `{"where":["room=kitchen","gpu"]}`: "[]",
		`{"where":["Room"]}`: "is no label",
	} {
		got := run(t, &house{}, guard, guard, "find_members", args)
		if got.IsError != (want == "is no label") || !strings.Contains(got.Text, want) {
			t.Errorf("%s: got %+v, want %s", args, got, want)
		}
	}
}

func TestModelReadsWhatIsWrongWithItsInput(t *testing.T) {
	h, guard := &house{}, rules(t)
	if got := run(t, h, guard, guard, "invoke_capability", `{"capability":"oven.heat","data":"{}"}`); !got.IsError || !strings.Contains(got.Text, "/properties/heat: too hot") {
		t.Errorf("got %+v", got)
	}
	if got := run(t, h, guard, guard, "invoke_capability", `{"capability":"disk.wipe","data":"{}"}`); !got.IsError || len(h.invoked) != 1 {
		t.Errorf("what is denied: got %+v, invoked %v", got, h.invoked)
	}
}

// What is heard before the result is for who watches the agent, and little of it.
func noTool(string) string { return "" }

func TestProgressOfACallIsNotTheModels(t *testing.T) {
	h, guard := &house{}, rules(t)
	var told []community.Progress
	set := tool.NewSet(tool.SetConfig{Guard: guard, Progress: func(c llm.ToolCall, p community.Progress) {
		if c.ID != "7" || c.Name != "invoke_capability" {
			t.Errorf("progress of the call %+v", c)
		}
		told = append(told, p)
	}}, peer.Tools(h, self, guard, func(c string) string { return map[string]string{"text.spawn": "replicate_agent"}[c] })...)
	got := set.Run(t.Context(), []llm.ToolCall{{ID: "7", Name: "invoke_capability", Args: json.RawMessage(`{"capability":"text.count","data":"1"}`)}})[0]
	if got.IsError || got.Text != "1" {
		t.Errorf("the model reads %+v", got)
	}
	if len(told) != 1 || told[0].Message != "0 %" {
		t.Errorf("told at once: %+v, want the first alone", told)
	}
}
