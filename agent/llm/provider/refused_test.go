package provider_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/llm/provider"
	"symbio/internal/agent/llm/retry"
)

// strictServer has both wires. It refuses tools with anyOf at the top, as the real ones do, and the tool mcp__s__never in any form, and
// answers with the number of tools.
func strictServer(t *testing.T, asked *int) *http.Client {
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		*asked++
		var q struct {
			Tools []struct {
				Name, Description string
				Schema            map[string]any `json:"input_schema"`
				Function          struct {
					Name       string
					Parameters map[string]any
				}
			}
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &q) != nil {
			t.Errorf("a request is %q, %v", body, err)
		}
		reply := func(status int, text string) (*http.Response, error) {
			kind := map[bool]string{true: "text/event-stream", false: "application/json"}[status == 200]
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
		}
		for i, tool := range q.Tools {
			switch {
			case tool.Schema["anyOf"] != nil || tool.Name == "mcp__s__never":
				return reply(400, fmt.Sprintf(`{"type":"error","error":{"type":"invalid_request_error","message":"tools.%d.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"}}`, i))
			case tool.Function.Parameters["anyOf"] != nil || tool.Function.Name == "mcp__s__never":
				return reply(400, fmt.Sprintf(`{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"Invalid schema for function '%s': schema must not have 'anyOf' at the top level.\"}}"}}}`, tool.Function.Name))
			}
		}
		if !bytes.Contains(body, []byte("may not be given together")) || !bytes.Contains(body, []byte("mcp__s__never. Do without")) {
			t.Errorf("the model is not told all: %s", body)
		}
		if strings.HasSuffix(r.URL.Path, "/messages") {
			return reply(200, fmt.Sprintf(`data: {"type":"message_start","message":{}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"%d tools"}}

data: {"type":"content_block_stop","index":0}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}

data: {"type":"message_stop"}

`, len(q.Tools)))
		}
		return reply(200, fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":\"%d tools\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", len(q.Tools)))
	})}
}

func TestRefusedToolDoesNotEndARequestOnAnyWire(t *testing.T) {
	odd := json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"],"description":"may not be given together"},{}]}`)
	r := llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "go"}}, Tools: []llm.ToolSpec{{Name: "Read"}, {Name: "mcp__s__image", Schema: odd}, {Name: "mcp__s__never", Schema: odd}, {Name: "Write"}}}
	for _, name := range []string{"openai:m", "anthropic:m"} {
		var book retry.Book
		for i, want := range []int{4, 1} {
			asked := 0
			// Each agent opens its model anew.
			m, err := provider.Config{OpenAIURL: "http://box:1", AnthropicURL: "http://box:1", OpenAIKey: llm.NewSecret("k"), AnthropicKey: llm.NewSecret("k"), HTTP: strictServer(t, &asked), Retry: retry.Config{Book: &book}}.OpenList(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			got, err := llm.Collect(m.Stream(t.Context(), r), func(c llm.Chunk) {
				if c.Retry != nil {
					told = append(told, c.Retry.Err.Error())
				}
			})
			if err != nil || got.Message.Text != "3 tools" || asked != want {
				t.Errorf("%s, agent %d: %q, %v, asked %d times; want 3 tools after %d", name, i+1, got.Message.Text, err, asked, want)
			}
			if len(told) != 1 || !strings.HasPrefix(told[0], "the tool mcp__s__never is left out, because the model's server does not take its description: model "+name+": the request was rejected (status 400): ") {
				t.Errorf("%s: the person is told %q", name, told)
			}
		}
	}
	if !slices.ContainsFunc(r.Tools, func(s llm.ToolSpec) bool { return string(s.Schema) == string(odd) }) {
		t.Error("the request was changed")
	}
}
