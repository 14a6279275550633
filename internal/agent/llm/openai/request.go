package openai

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/wire"
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
		MaxCompletion int    `json:"max_completion_tokens,omitempty"`
		Effort        string `json:"reasoning_effort,omitempty"`
		commonFields
		StopWords []string `json:"stop,omitempty"`
	}
	// commonFields are fields that both APIs have.
	commonFields struct {
		Temperature *float64 `json:"temperature,omitempty"`
		// Choice is a word, or an object that names a tool.
		Choice any `json:"tool_choice,omitempty"`
	}
	wireChoice struct {
		Type     string    `json:"type"`
		Name     string    `json:"name,omitempty"` // in the Responses API
		Function *wireName `json:"function,omitempty"`
	}
	wireName struct {
		Name string `json:"name"`
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
		// more are fields of the server's own; see fields.
		more map[string]json.RawMessage
	}
	wireCall struct {
		ID       string       `json:"id"`
		Type     string       `json:"type"`
		Function wireFunction `json:"function"`
		more     map[string]json.RawMessage
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

// MarshalJSON adds the fields of the server's own.
func (m wireMessage) MarshalJSON() ([]byte, error) {
	type plain wireMessage
	return withFields(plain(m), m.more)
}

// MarshalJSON adds the fields of the server's own.
func (c wireCall) MarshalJSON() ([]byte, error) {
	type plain wireCall
	return withFields(plain(c), c.more)
}

// target is the model that a request is for, and how its server is asked.
type target struct {
	// model is the server's name of the model; own is its name on this side, by which it recognizes its own
	// thoughts.
	model, own string
	// sent are the parts of the request.
	sent parts
	// effort is the word for it that the server knows; "" = the server's default.
	effort string
}

// encode encodes a request to chat completions.
func (t target) encode(r llm.Request) ([]byte, error) {
	w := wireRequest{Model: t.model, Messages: []wireMessage{}, Stream: true, Effort: t.effort, commonFields: t.common(r), StopWords: r.StopWords}
	if t.sent&streamOptions != 0 {
		w.StreamOptions = &wireOptions{IncludeUsage: true}
	}
	if w.MaxTokens = r.MaxTokens; t.sent&maxTokens == 0 {
		w.MaxTokens, w.MaxCompletion = 0, r.MaxTokens
	}
	if r.Output != nil && t.sent&schema != 0 {
		w.Format = &wireFormat{"json_schema", wireSchema{r.Output.Name, r.Output.Schema, t.sent&strictSchema != 0 && strict(r.Output.Schema)}}
	}
	if system := t.system(r); system != "" {
		w.Messages = append(w.Messages, wireMessage{Role: "system", Content: system})
	}
	for _, m := range r.Messages {
		w.Messages = t.appendMessage(w.Messages, m)
	}
	for _, tool := range r.Tools {
		w.Tools = append(w.Tools, wireTool{Type: "function", Function: wireSpec{tool.Name, tool.Description, wire.Schema(tool.Schema)}})
	}
	return wire.Encode(w)
}

// common returns the fields that both APIs have. The server refuses a choice without tools.
func (t target) common(r llm.Request) (f commonFields) {
	if t.sent&temperature != 0 {
		f.Temperature = r.Temperature
	}
	switch c := r.ToolChoice; {
	case c == "" || len(r.Tools) == 0:
	case c == llm.ChoiceAuto || c == llm.ChoiceNone || c == llm.ChoiceRequired:
		f.Choice = c
	case t.sent&responses != 0:
		f.Choice = wireChoice{Type: "function", Name: string(c)}
	default:
		f.Choice = wireChoice{Type: "function", Function: &wireName{string(c)}}
	}
	return f
}

// system returns the system prompt. It describes the schema of the answer if the server does not take it.
func (t target) system(r llm.Request) string {
	system := r.System
	if r.Output != nil && t.sent&schema == 0 {
		system += "\n\n" + r.Output.Instruction()
	}
	return strings.TrimSpace(system)
}

// appendMessage appends one message, or one for each result of a tool.
func (t target) appendMessage(to []wireMessage, m llm.Message) []wireMessage {
	switch m.Role {
	case llm.Tool:
		return appendResults(to, m.Results)
	case llm.Assistant:
		return append(to, t.assistant(m))
	}
	return append(to, wireMessage{Role: "user", Content: content(m.Text, m.Images)})
}

// assistant returns a message of the model with what the server sent in fields of its own.
func (t target) assistant(m llm.Message) wireMessage {
	w := wireMessage{Role: "assistant", Content: m.Text}
	if m.Text == "" && len(m.Calls) > 0 {
		// OpenAI writes a message that has only calls with null.
		w.Content = nil
	}
	signed := false
	for _, c := range m.Calls {
		call := wireCall{ID: c.ID, Type: "function", Function: wireFunction{c.Name, string(llm.Object(c.Args))}}
		if t.sent&ownFields != 0 {
			call.more = sentBack(m, t.own, c.ID)
			delete(call.more, "content")
			signed = signed || len(call.more) > 0
		}
		w.ToolCalls = append(w.ToolCalls, call)
	}
	if t.sent&ownFields != 0 {
		w.more = sentBack(m, t.own, "")
		w.addThoughts(m.Text)
	}
	if len(m.Calls) > 0 {
		t.fill(&w, signed)
	}
	return w
}

// fill adds placeholders to a message with calls, for fields that the server requires and that the message
// does not have, because another model wrote it.
func (t target) fill(w *wireMessage, signed bool) {
	if t.sent&fillSignature != 0 && !signed {
		// The first call of a message has the signature. This is Google's own word for "of another model".
		w.ToolCalls[0].more = map[string]json.RawMessage{"extra_content": json.RawMessage(`{"google":{"thought_signature":"skip_thought_signature_validator"}}`)}
	}
	if t.sent&fillReasoning != 0 && w.more["reasoning_content"] == nil {
		if w.more == nil {
			w.more = map[string]json.RawMessage{}
		}
		w.more["reasoning_content"] = json.RawMessage(`" "`) // at Moonshot's, an empty text counts as missing
	}
}

// addThoughts puts the thoughts that came as parts of the content before the text, as Mistral wants them.
func (m *wireMessage) addThoughts(text string) {
	var list []json.RawMessage
	_ = json.Unmarshal(m.more["content"], &list) // most servers send none
	delete(m.more, "content")
	var parts []any
	for _, one := range list {
		if headOf(one).Type == "thinking" {
			parts = append(parts, one)
		}
	}
	if len(parts) > 0 {
		if text != "" {
			parts = append(parts, wirePart{Type: "text", Text: text})
		}
		m.Content = parts
	}
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
