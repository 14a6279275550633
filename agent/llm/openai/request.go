package openai

import (
	"bytes"
	"encoding/json"

	"symbio/agent/llm"
)

// The request, as the wire has it.
type (
	wireRequest struct {
		Model         string        `json:"model"`
		Messages      []wireMessage `json:"messages"`
		Tools         []wireTool    `json:"tools,omitempty"`
		Stream        bool          `json:"stream"`
		StreamOptions *wireOptions  `json:"stream_options,omitempty"`
	}
	wireOptions struct {
		IncludeUsage bool `json:"include_usage"`
	}
	wireMessage struct {
		Role       string     `json:"role"`
		Content    *string    `json:"content"` // null beside calls when there is no text, as OpenAI's own answers have it
		ToolCalls  []wireCall `json:"tool_calls,omitempty"`
		ToolCallID string     `json:"tool_call_id,omitempty"`
	}
	wireCall struct {
		ID       string       `json:"id"`
		Type     string       `json:"type"`
		Function wireFunction `json:"function"`
	}
	wireFunction struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	wireTool struct {
		Type     string   `json:"type"`
		Function wireSpec `json:"function"`
	}
	wireSpec struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
)

// encode writes a request. usage asks the server to count tokens.
func encode(model string, r llm.Request, usage bool) ([]byte, error) {
	w := wireRequest{Model: model, Messages: []wireMessage{}, Stream: true}
	if usage {
		w.StreamOptions = &wireOptions{IncludeUsage: true}
	}
	if r.System != "" {
		w.Messages = append(w.Messages, wireMessage{Role: "system", Content: &r.System})
	}
	for _, m := range r.Messages {
		w.Messages = appendMessage(w.Messages, m)
	}
	for _, t := range r.Tools {
		schema := t.Schema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		w.Tools = append(w.Tools, wireTool{Type: "function", Function: wireSpec{t.Name, t.Description, schema}})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(w)
	return b.Bytes(), err
}

// appendMessage appends one message, or one for each result.
func appendMessage(to []wireMessage, m llm.Message) []wireMessage {
	switch m.Role {
	case llm.Tool:
		for _, r := range m.Results {
			text := r.Text
			if r.IsError {
				text = "error: " + text // the wire has no other way to say so
			}
			to = append(to, wireMessage{Role: "tool", Content: &text, ToolCallID: r.CallID})
		}
		return to
	case llm.Assistant:
		w := wireMessage{Role: "assistant", Content: &m.Text}
		for _, c := range m.Calls {
			w.ToolCalls = append(w.ToolCalls, wireCall{c.ID, "function", wireFunction{c.Name, arguments(c.Args)}})
		}
		if m.Text == "" && len(m.Calls) > 0 {
			w.Content = nil
		}
		return append(to, w)
	}
	return append(to, wireMessage{Role: "user", Content: &m.Text})
}

// arguments are a call's arguments as the server gets them back. What the model wrote wrongly is put
// into an object: several servers decode it, and refuse the whole conversation when it is none.
func arguments(args json.RawMessage) string {
	trimmed := bytes.TrimSpace(args)
	if len(trimmed) == 0 {
		return "{}"
	}
	if trimmed[0] == '{' && json.Valid(trimmed) {
		return string(trimmed)
	}
	if !json.Valid(trimmed) {
		trimmed = llm.Args(string(trimmed))
	}
	return `{"not_an_object":` + string(trimmed) + `}`
}
