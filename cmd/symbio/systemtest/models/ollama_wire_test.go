//go:build system && linux

package models_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/ollama"
	"symbio/internal/agent/llm/wire"
)

// TestAimockIsUnderstoodAsOllama has a conversation by Ollama's own API with a server that this project did
// not write: two calls, their results, an answer.
func TestAimockIsUnderstoodAsOllama(t *testing.T) {
	mock := startAimock(t, openaiFixtures, "--chunk-size", "7")
	m, err := ollama.New(ollama.Config{Config: wire.Config{BaseURL: mock.BaseURL, Model: "qwen3"}})
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
	r.Messages = append(r.Messages, got.Message, llm.Message{Role: llm.Tool, Results: []llm.ToolResult{
		{CallID: got.Message.Calls[0].ID, Name: "weather", Text: "-3 °C"}, {CallID: got.Message.Calls[1].ID, Name: "clock", Text: "no such zone", IsError: true}}})
	end, err := llm.Collect(m.Stream(t.Context(), r), nil)
	if want := "It is -3 °C in Oslo, and nobody is surprised."; err != nil || end.Message.Text != want || end.Stop != llm.StopEnd {
		t.Fatalf("answer = %q, %s, %v; want %q", end.Message.Text, end.Stop, err, want)
	}
}
