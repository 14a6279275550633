package ollama

import (
	"encoding/json"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/wire"
)

// The types of the request body of POST api/chat.
type (
	wireRequest struct {
		Model    string        `json:"model"`
		Messages []wireMessage `json:"messages"`
		Tools    []wireTool    `json:"tools,omitempty"`
		// Format is the schema of the answer.
		Format json.RawMessage `json:"format,omitempty"`
		// Think is true, false, a level, or nil for the model's own default.
		Think   any         `json:"think,omitempty"`
		Options wireOptions `json:"options"`
		Stream  bool        `json:"stream"`
		// Truncate and Shift are false: a request that does not fit is an error, and neither its
		// beginning nor the answer's is dropped. Older servers do not know them.
		Truncate bool `json:"truncate"`
		Shift    bool `json:"shift"`
	}
	wireOptions struct {
		Window      int      `json:"num_ctx,omitempty"`
		MaxTokens   int      `json:"num_predict,omitempty"`
		Temperature *float64 `json:"temperature,omitempty"`
		StopWords   []string `json:"stop,omitempty"`
	}
	wireMessage struct {
		Role     string `json:"role"`
		Content  string `json:"content"`
		Thinking string `json:"thinking,omitempty"`
		// Images are written in base64, as encoding/json does with bytes.
		Images    [][]byte   `json:"images,omitempty"`
		ToolCalls []wireCall `json:"tool_calls,omitempty"`
		// ToolName and ToolCallID name the call of a result; older servers know only the name.
		ToolName   string `json:"tool_name,omitempty"`
		ToolCallID string `json:"tool_call_id,omitempty"`
	}
	wireCall struct {
		ID       string       `json:"id,omitempty"`
		Function wireFunction `json:"function"`
	}
	wireFunction struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
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

// encode encodes a request. own is the model's name on this side, by which it recognizes its own thoughts.
// level allows an effort in words, think any thoughts.
func encode(model, own string, window int, r llm.Request, level, think bool) wireRequest {
	w := wireRequest{Model: model, Messages: []wireMessage{}, Stream: true,
		Options: wireOptions{window, r.MaxTokens, r.Temperature, r.StopWords}, Think: thinking(r, level, think)}
	if r.Output != nil {
		w.Format = wire.Schema(r.Output.Schema)
	}
	if r.System != "" {
		w.Messages = append(w.Messages, wireMessage{Role: "system", Content: r.System})
	}
	for _, m := range r.Messages {
		w.Messages = appendMessage(w.Messages, m, own)
	}
	if r.ToolChoice == llm.ChoiceNone {
		r.Tools = nil // the API has no choice of tools
	}
	for _, t := range r.Tools {
		w.Tools = append(w.Tools, wireTool{"function", wireSpec{t.Name, t.Description, wire.Schema(t.Schema)}})
	}
	return w
}

// thinking returns the value of Think.
func thinking(r llm.Request, level, think bool) any {
	switch {
	case !think:
		return nil
	case r.Thinking < 0:
		return false
	case level && r.EffortLevel() != "":
		return r.EffortLevel()
	case r.ThinkingTokens() > 0:
		return true
	}
	return nil
}

// appendMessage appends one message, or one for each result of a tool.
func appendMessage(to []wireMessage, m llm.Message, own string) []wireMessage {
	if m.Role == llm.Tool {
		for _, r := range m.Results {
			text := r.Text
			if r.IsError {
				text = "error: " + text // the wire has no other place for it
			}
			to = append(to, wireMessage{Role: "tool", Content: text, Images: data(r.Images), ToolName: r.Name, ToolCallID: r.CallID})
		}
		return to
	}
	w := wireMessage{Role: string(m.Role), Content: m.Text, Images: data(m.Images)}
	for _, t := range m.Thinking {
		if t.Model == own {
			w.Thinking += t.Text
		}
	}
	for _, c := range m.Calls {
		w.ToolCalls = append(w.ToolCalls, wireCall{c.ID, wireFunction{c.Name, llm.Object(c.Args)}})
	}
	return append(to, w)
}

// data returns the bytes of images.
func data(images []llm.Image) (list [][]byte) {
	for _, i := range images {
		list = append(list, i.Data)
	}
	return list
}
