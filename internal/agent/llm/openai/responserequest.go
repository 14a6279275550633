package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/wire"
)

// The types of the request body of POST responses.
type (
	responseRequest struct {
		Model        string            `json:"model"`
		Instructions string            `json:"instructions,omitempty"`
		Input        []any             `json:"input"` // items, and json.RawMessage for items of the server's own
		Tools        []responseTool    `json:"tools,omitempty"`
		Text         *responseText     `json:"text,omitempty"`
		Reasoning    *thinkingSettings `json:"reasoning,omitempty"`
		Include      []string          `json:"include,omitempty"`
		MaxTokens    int               `json:"max_output_tokens,omitempty"`
		commonFields
		// Store is false: the server keeps nothing, and the request has the whole conversation.
		Store  bool `json:"store"`
		Stream bool `json:"stream"`
	}
	// item is a message, a call (function_call) or its result (function_call_output).
	item struct {
		Type string `json:"type,omitempty"`
		Role string `json:"role,omitempty"`
		// Content and Output are a string or a []responsePart.
		Content any `json:"content,omitempty"`
		// Phase is what the server said of the message, such as commentary.
		Phase     string `json:"phase,omitempty"`
		CallID    string `json:"call_id,omitempty"`
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments,omitempty"`
		Output    any    `json:"output,omitempty"`
	}
	responsePart struct {
		Type   string `json:"type"`
		Text   string `json:"text,omitempty"`
		Image  string `json:"image_url,omitempty"`
		Detail string `json:"detail,omitempty"`
	}
	responseTool struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
		// Strict is always sent, because the server's default is true.
		Strict bool `json:"strict"`
	}
	responseText struct {
		Format responseFormat `json:"format"`
	}
	responseFormat struct {
		Type   string          `json:"type"`
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
		Strict bool            `json:"strict"`
	}
	thinkingSettings struct {
		Effort  string `json:"effort,omitempty"`
		Summary string `json:"summary,omitempty"`
	}
)

// minResponseTokens is the least max_output_tokens that the server takes.
const minResponseTokens = 16

// encodeResponse encodes a request to the Responses API.
func (t target) encodeResponse(r llm.Request) ([]byte, error) {
	w := responseRequest{Model: t.model, Instructions: t.system(r), Input: []any{}, Stream: true, commonFields: t.common(r)}
	if r.MaxTokens > 0 {
		w.MaxTokens = max(r.MaxTokens, minResponseTokens)
	}
	if t.sent&summary != 0 {
		w.Reasoning = &thinkingSettings{t.effort, "auto"}
	} else if t.effort != "" {
		w.Reasoning = &thinkingSettings{t.effort, ""}
	}
	if t.sent&encrypted != 0 {
		w.Include = []string{"reasoning.encrypted_content"}
	}
	if r.Output != nil && t.sent&schema != 0 {
		w.Text = &responseText{responseFormat{"json_schema", r.Output.Name, r.Output.Schema, t.sent&strictSchema != 0 && strict(r.Output.Schema)}}
	}
	for _, m := range r.Messages {
		w.Input = append(w.Input, t.items(m)...)
	}
	for _, tool := range r.Tools {
		parameters := wire.Schema(tool.Schema)
		w.Tools = append(w.Tools, responseTool{"function", tool.Name, tool.Description, parameters, t.sent&strictSchema != 0 && strict(parameters)})
	}
	return wire.Encode(w)
}

// items returns the items of a message.
func (t target) items(m llm.Message) (list []any) {
	switch m.Role {
	case llm.Tool:
		for _, r := range m.Results {
			text := r.Text
			if r.IsError {
				text = "error: " + text // the API has no field for a failed call
			}
			list = append(list, item{Type: "function_call_output", CallID: responseCallID(r.CallID), Output: responseContent(text, r.Images)})
		}
		return list
	case llm.Assistant:
		return t.assistantItems(m)
	}
	return append(list, item{Role: "user", Content: responseContent(m.Text, m.Images)})
}

// assistantItems returns the items of a message of the model in their original order: the server verifies
// that a thought is followed by the item that it was followed by. Thoughts at the end, whose item was cut
// off, are left out.
func (t target) assistantItems(m llm.Message) []any {
	l := itemList{m: m}
	for _, th := range m.Thinking {
		var own outputItem
		if th.Model != t.own || t.sent&ownFields == 0 || json.Unmarshal(th.Raw, &own) != nil {
			continue
		}
		l.upTo(th.AfterText, th.AfterCalls)
		switch {
		case own.Type == "message":
			l.phase = own.Phase
		case own.Type == "reasoning" && own.Encrypted != "":
			l.items = append(l.items, th.Raw)
		}
	}
	l.upTo(len(m.Text), len(m.Calls))
	return l.items[:l.end]
}

// itemList collects the items of a message of the model.
type itemList struct {
	m     llm.Message
	items []any
	// text and calls are the bytes of the text and the calls that are in items. phase is the phase of the next
	// text; end is the number of items up to the last that is no thought.
	text, calls int
	phase       string
	end         int
}

// upTo appends the text up to byte b and the calls up to number c that are not in the list yet. It clamps
// both, so that a position outside of the message cannot panic.
func (l *itemList) upTo(b, c int) {
	b, c = min(max(b, l.text), len(l.m.Text)), min(max(c, l.calls), len(l.m.Calls))
	if b == l.text && c == l.calls {
		return
	}
	if b > l.text {
		l.items = append(l.items, item{Role: "assistant", Content: l.m.Text[l.text:b], Phase: l.phase})
		l.phase = ""
	}
	for _, call := range l.m.Calls[l.calls:c] {
		l.items = append(l.items, item{Type: "function_call", CallID: responseCallID(call.ID), Name: call.Name, Arguments: string(llm.Object(call.Args))})
	}
	l.text, l.calls, l.end = b, c, len(l.items)
}

// responseContent returns a text, or a list of parts if there are images.
func responseContent(text string, images []llm.Image) any {
	if len(images) == 0 {
		return text
	}
	var parts []responsePart
	for _, i := range imageParts(images) {
		parts = append(parts, responsePart{Type: "input_image", Image: i.Image.URL, Detail: "auto"})
	}
	if text != "" {
		parts = append(parts, responsePart{Type: "input_text", Text: text})
	}
	return parts
}

// responseCallID returns an id that the API takes. It refuses ids of other providers above 64 bytes; they
// become a hash of 96 bits, so that call and result still match.
func responseCallID(id string) string {
	if len(id) <= 64 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:12])
}
