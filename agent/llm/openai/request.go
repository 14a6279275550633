package openai

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"symbio/agent/llm"
	"symbio/agent/llm/wire"
)

// The types of the request body of POST chat/completions.
type (
	wireRequest struct {
		Model    string        `json:"model"`
		Messages []wireMessage `json:"messages"`
		Tools    []wireTool    `json:"tools,omitempty"`
		Stream   bool          `json:"stream"`
		// StreamOptions asks for the usage in the last event; nil for servers that refuse the
		// field.
		StreamOptions *wireOptions `json:"stream_options,omitempty"`
		// Format is the schema of the answer; nil = free text.
		Format    *wireFormat `json:"response_format,omitempty"`
		MaxTokens int         `json:"max_tokens,omitempty"`
		// MaxCompletion replaces MaxTokens for reasoning models; at most one of the two is set.
		MaxCompletion int `json:"max_completion_tokens,omitempty"`
	}
	// wireFormat has the Type "json_schema".
	wireFormat struct {
		Type   string     `json:"type"`
		Schema wireSchema `json:"json_schema"`
	}
	wireSchema struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
		// Strict makes the server enforce the schema; see strict.
		Strict bool `json:"strict,omitempty"`
	}
	wireOptions struct {
		IncludeUsage bool `json:"include_usage"`
	}
	wireMessage struct {
		Role string `json:"role"`
		// Content is a string, a []wirePart, or nil. nil becomes null, which stands beside calls
		// without a text, as in OpenAI's own answers.
		Content   any        `json:"content"`
		ToolCalls []wireCall `json:"tool_calls,omitempty"`
		// ToolCallID names the call that a message of the role tool answers.
		ToolCallID string `json:"tool_call_id,omitempty"`
	}
	wireCall struct {
		ID       string       `json:"id"`
		Type     string       `json:"type"`
		Function wireFunction `json:"function"`
	}
	wireFunction struct {
		Name string `json:"name"`
		// Arguments are JSON inside of a JSON string.
		Arguments string `json:"arguments"`
	}
	wirePart struct {
		Type  string     `json:"type"`
		Text  string     `json:"text,omitempty"`
		Image *wireImage `json:"image_url,omitempty"`
	}
	wireImage struct {
		// URL is a data URL with the image in base64.
		URL string `json:"url"`
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

// encode encodes a request. usage asks the server to count tokens. form sends the schema of the
// answer as response_format; without it the system prompt describes the schema. completion uses the
// name max_completion_tokens, which reasoning models require.
func encode(model string, r llm.Request, usage, form, completion bool) ([]byte, error) {
	w := wireRequest{Model: model, Messages: []wireMessage{}, Stream: true}
	if usage {
		w.StreamOptions = &wireOptions{IncludeUsage: true}
	}
	if w.MaxTokens = r.MaxTokens; completion {
		w.MaxTokens, w.MaxCompletion = 0, r.MaxTokens
	}
	system := r.System
	switch {
	case r.Output != nil && form:
		w.Format = &wireFormat{"json_schema", wireSchema{r.Output.Name, r.Output.Schema, strict(r.Output.Schema)}}
	case r.Output != nil:
		system += "\n\n" + r.Output.Instruction()
	}
	if system != "" {
		w.Messages = append(w.Messages, wireMessage{Role: "system", Content: strings.TrimSpace(system)})
	}
	for _, m := range r.Messages {
		w.Messages = appendMessage(w.Messages, m)
	}
	for _, t := range r.Tools {
		w.Tools = append(w.Tools, wireTool{Type: "function", Function: wireSpec{t.Name, t.Description, wire.Schema(t.Schema)}})
	}
	return wire.Encode(w)
}

// appendMessage appends one message, or one for each result of a tool. Thoughts are not sent: this
// API has no field for them.
func appendMessage(to []wireMessage, m llm.Message) []wireMessage {
	switch m.Role {
	case llm.Tool:
		return appendResults(to, m.Results)
	case llm.Assistant:
		w := wireMessage{Role: "assistant", Content: m.Text}
		for _, c := range m.Calls {
			w.ToolCalls = append(w.ToolCalls, wireCall{c.ID, "function", wireFunction{c.Name, string(llm.Object(c.Args))}})
		}
		if m.Text == "" && len(m.Calls) > 0 {
			// OpenAI writes a message that has only calls with null.
			w.Content = nil
		}
		return append(to, w)
	}
	return append(to, wireMessage{Role: "user", Content: content(m.Text, m.Images)})
}

// appendResults appends a message for each result, and one more with all their images, because
// results cannot have images in this API.
func appendResults(to []wireMessage, results []llm.ToolResult) []wireMessage {
	var shown []wirePart
	for _, r := range results {
		text := r.Text
		if r.IsError {
			// The API has no field for a failed call.
			text = "error: " + text
		}
		to = append(to, wireMessage{Role: "tool", Content: text, ToolCallID: r.CallID})
		if len(r.Images) > 0 {
			shown = append(shown, wirePart{Type: "text", Text: "What " + r.Name + " shows (" + r.CallID + "):"})
			shown = append(shown, imageParts(r.Images)...)
		}
	}
	if len(shown) > 0 {
		to = append(to, wireMessage{Role: "user", Content: shown})
	}
	return to
}

// content returns a text, or a list of parts if there are images. A plain text is sent as such,
// because some servers do not accept lists.
func content(text string, images []llm.Image) any {
	if len(images) == 0 {
		return text
	}
	parts := imageParts(images)
	if text != "" {
		parts = append(parts, wirePart{Type: "text", Text: text})
	}
	return parts
}

// imageParts returns a part for each image, as a data URL: the server need not fetch anything.
func imageParts(images []llm.Image) (parts []wirePart) {
	for _, i := range images {
		parts = append(parts, wirePart{Type: "image_url", Image: &wireImage{"data:" + i.Type + ";base64," + base64.StdEncoding.EncodeToString(i.Data)}})
	}
	return parts
}

// strict reports whether OpenAI can enforce a schema. With strict set, OpenAI refuses every schema
// that has an object which allows other properties or has an optional one. Text that is no JSON is
// not strict.
func strict(schema json.RawMessage) bool {
	var s any
	return json.Unmarshal(schema, &s) == nil && allRequired(s)
}

// allRequired reports whether all objects in a schema, at any depth, require all their properties
// and forbid others. It also visits values that are no schemas, such as defaults and enums. That
// can only make the result false, and then the server does not enforce the schema.
func allRequired(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if !allRequired(e) {
				return false
			}
		}
	case map[string]any:
		if v["type"] == "object" || v["properties"] != nil {
			properties, _ := v["properties"].(map[string]any)
			required, _ := v["required"].([]any)
			if closed := v["additionalProperties"] == false; !closed || len(required) != len(properties) {
				return false
			}
		}
		for _, e := range v {
			if !allRequired(e) {
				return false
			}
		}
	}
	return true
}
