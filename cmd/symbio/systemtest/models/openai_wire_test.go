//go:build system && linux

package models_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/openai"
)

const openaiFixtures = `{"fixtures": [
	{"match": {"userMessage": "weather in Oslo", "hasToolResult": false}, "response": {"toolCalls": [
		{"name": "weather", "arguments": {"city": "Oslo", "unit": "celsius"}}, {"name": "clock", "arguments": {"zone": "Europe/Oslo"}}]}},
	{"match": {"userMessage": "weather in Oslo", "hasToolResult": true}, "response": {"content": "It is -3 °C in Oslo, and nobody is surprised."}}
]}`

// TestAimockIsUnderstood has a whole conversation with a server that nobody here wrote: two streamed
// calls, their results, an answer; then a request it has no fixture for.
func TestAimockIsUnderstood(t *testing.T) {
	mock := startAimock(t, openaiFixtures, "--chunk-size", "7")
	m, err := openai.New(openai.Config{BaseURL: mock.BaseURL, Model: "gpt-4o", Key: llm.NewSecret("sk-test-key")})
	if err != nil {
		t.Fatal(err)
	}
	r := llm.Request{
		System:   "be brief",
		Messages: []llm.Message{{Role: llm.User, Text: "What is the weather in Oslo?"}},
		Tools:    []llm.ToolSpec{{Name: "weather", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "clock"}},
	}
	got, err := llm.Collect(m.Stream(t.Context(), r), nil)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, c := range got.Message.Calls {
		said = append(said, c.Name+" "+string(c.Args))
	}
	if d := cmp.Diff([]string{`weather {"city":"Oslo","unit":"celsius"}`, `clock {"zone":"Europe/Oslo"}`}, said); d != "" || got.Stop != llm.StopTools {
		t.Fatalf("stop %s, calls (-want +got):\n%s", got.Stop, d)
	}
	if got.Usage.Input == 0 || got.Usage.Output == 0 {
		t.Errorf("usage = %+v, want the server's count", got.Usage)
	}

	r.Messages = append(r.Messages, got.Message, llm.Message{Role: llm.Tool, Results: []llm.ToolResult{
		{CallID: got.Message.Calls[0].ID, Name: "weather", Text: "-3 °C"},
		{CallID: got.Message.Calls[1].ID, Name: "clock", Text: "no such zone", IsError: true}}})
	pieces := 0
	end, err := llm.Collect(m.Stream(t.Context(), r), func(c llm.Chunk) {
		if c.Text != "" {
			pieces++
		}
	})
	if want := "It is -3 °C in Oslo, and nobody is surprised."; err != nil || end.Message.Text != want || end.Stop != llm.StopEnd {
		t.Fatalf("answer = %q, %s, %v; want %q", end.Message.Text, end.Stop, err, want)
	}
	if pieces < 5 {
		t.Errorf("the answer came in %d pieces, want a stream", pieces)
	}

	_, err = llm.Collect(m.Stream(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "something else"}}}), nil)
	if !errors.Is(err, llm.ErrInvalid) || !strings.Contains(err.Error(), "no fixture matched") {
		t.Errorf("error = %v, want that no fixture matched", err)
	}
	checkJournal(t, mock.Journal(), got.Message.Calls)

	models, err := openai.Models(t.Context(), openai.Config{BaseURL: mock.BaseURL})
	if err != nil || !slices.Contains(models, "gpt-4o") {
		t.Errorf("models = %v, %v; want gpt-4o among them", models, err)
	}
}

// checkJournal compares what the server says it got with what was sent.
func checkJournal(t *testing.T, journal []recorded, calls []llm.ToolCall) {
	t.Helper()
	if len(journal) != 3 {
		t.Fatalf("the server got %d requests, want 3", len(journal))
	}
	for i, want := range []struct{ messages, tools, status int }{{2, 2, 200}, {5, 2, 200}, {1, 0, 503}} {
		got := journal[i]
		if got.Path != "/v1/chat/completions" || !got.Body.Stream || got.Body.Model != "gpt-4o" {
			t.Errorf("request %d: %s, stream %v, model %s", i, got.Path, got.Body.Stream, got.Body.Model)
		}
		if len(got.Body.Messages) != want.messages || len(got.Body.Tools) != want.tools || got.Response.Status != want.status {
			t.Errorf("request %d: %d messages, %d tools, status %d; want %+v", i, len(got.Body.Messages), len(got.Body.Tools), got.Response.Status, want)
		}
	}
	var result struct {
		Role, Content string
		ToolCallID    string `json:"tool_call_id"`
	}
	if err := json.Unmarshal(journal[1].Body.Messages[4], &result); err != nil {
		t.Fatal(err)
	}
	if result.Role != "tool" || result.ToolCallID != calls[1].ID || result.Content != "error: no such zone" {
		t.Errorf("the last message of the second request is %+v", result)
	}
}
