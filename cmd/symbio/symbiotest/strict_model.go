//go:build linux

package symbiotest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// ModelCall is a call of a tool in an answer of the model, or in a history that it is sent.
type ModelCall struct {
	ID, Name string
	Args     json.RawMessage
}

// modelResult is the result of a call in a history.
type modelResult struct{ ID, Text string }

// ModelMessage is a message of a history, whatever the wire.
type ModelMessage struct {
	Role, Text string
	Calls      []ModelCall
	Results    []modelResult
}

// ModelAnswer is what the model says to a history.
type ModelAnswer struct {
	Text  string
	Calls []ModelCall
}

// modelUsage are the tokens of answers.
type modelUsage struct{ Calls, Input, Output int64 }

// StrictModel is a server of models that outlives the nodes. It speaks the wires of OpenAI and of
// Anthropic, refuses what those servers refuse, and answers by the history alone.
type StrictModel struct {
	*httptest.Server
	Answer func(history []ModelMessage) ModelAnswer
	pause  time.Duration // between the two halves of an answer

	Mu         sync.Mutex
	Requests   int                       // guarded by mu
	Violations []string                  // guarded by mu
	Tokens     int                       // of the answers that were sent to their end; guarded by mu
	Reported   map[string]modelUsage     // the same, by the first word of the first message; guarded by mu
	Histories  map[string][]ModelMessage // the latest, by the first word of the first message; guarded by mu
	OnRequest  func(n int)               // called without the lock; nil = nothing
}

func NewStrictModel(t *testing.T, answer func([]ModelMessage) ModelAnswer) *StrictModel {
	m := &StrictModel{Answer: answer, pause: 4 * time.Millisecond, Histories: map[string][]ModelMessage{}, Reported: map[string]modelUsage{}}
	m.Server = httptest.NewServer(m)
	t.Cleanup(func() {
		m.CloseClientConnections()
		m.Close()
	})
	return m
}

// ServeHTTP implements http.Handler.
func (m *StrictModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the node was killed
	}
	wire := modelWire(openAIWire{})
	if strings.HasSuffix(r.URL.Path, "/messages") {
		wire = anthropicWire{}
	}
	history, err := wire.read(body)
	if err == nil {
		err = checkHistory(history)
	}
	m.Mu.Lock()
	m.Requests++
	n := m.Requests
	if err != nil {
		m.Violations = append(m.Violations, fmt.Sprintf("%v\n%s", err, body))
	} else {
		word, _, _ := strings.Cut(history[0].Text, " ")
		m.Histories[word] = history
	}
	m.Mu.Unlock()
	if m.OnRequest != nil {
		m.OnRequest(n)
	}
	if err != nil {
		http.Error(w, `{"error":{"type":"invalid_request_error","message":"`+strings.ReplaceAll(err.Error(), `"`, `'`)+`"}}`, http.StatusBadRequest)
		return
	}
	input, output := len(body)/8, 7
	w.Header().Set("Content-Type", "text/event-stream")
	first, rest := wire.write(m.Answer(history), input, output)
	if _, err := io.WriteString(w, first); err != nil {
		return
	}
	w.(http.Flusher).Flush()
	select {
	case <-time.After(m.pause):
	case <-r.Context().Done():
		return
	}
	m.Mu.Lock()
	m.Tokens += input + output // before the last bytes, since they may arrive at once
	word, _, _ := strings.Cut(history[0].Text, " ")
	sum := m.Reported[word]
	m.Reported[word] = modelUsage{sum.Calls + 1, sum.Input + int64(input), sum.Output + int64(output)}
	m.Mu.Unlock()
	_, _ = io.WriteString(w, rest) // the node may have been killed
}

// modelWire reads the requests of a wire and writes its answers, as the server of its maker does. write
// returns the two halves of the stream.
type modelWire interface {
	read(body []byte) ([]ModelMessage, error)
	write(a ModelAnswer, input, output int) (first, rest string)
}

// checkHistory returns an error if a server of models would refuse the history: results of one turn are
// one message here, of the role tool.
func checkHistory(all []ModelMessage) error {
	if len(all) == 0 || all[0].Role != "user" {
		return fmt.Errorf("the first message is not of the user")
	}
	if last := all[len(all)-1].Role; last == "assistant" {
		return fmt.Errorf("the last message is of the assistant")
	}
	ids := map[string]bool{}
	var open []ModelCall
	for i, m := range all {
		if i > 0 && (m.Role == "assistant") == (all[i-1].Role == "assistant") && !(all[i-1].Role == "tool" && m.Role == "user") {
			return fmt.Errorf("messages %d and %d are of the roles %s and %s", i, i+1, all[i-1].Role, m.Role)
		}
		if strings.TrimSpace(m.Text) == "" && len(m.Calls)+len(m.Results) == 0 {
			return fmt.Errorf("message %d, of the role %s, is empty", i+1, m.Role)
		}
		if !slices.EqualFunc(open, m.Results, func(c ModelCall, r modelResult) bool { return c.ID == r.ID }) {
			return fmt.Errorf("message %d has the results %v after the calls %v", i+1, m.Results, open)
		}
		for _, c := range m.Calls {
			if ids[c.ID] || c.ID == "" {
				return fmt.Errorf("message %d: the id %q is empty or not new", i+1, c.ID)
			}
			ids[c.ID] = true
			if args := map[string]any{}; json.Unmarshal(c.Args, &args) != nil {
				return fmt.Errorf("message %d: the arguments %s are no object", i+1, c.Args)
			}
		}
		open = m.Calls
	}
	return nil
}

// openAIWire is POST chat/completions.
type openAIWire struct{}

type openAICall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func (openAIWire) read(body []byte) (all []ModelMessage, err error) {
	var r struct {
		Messages []struct {
			Role, Content string
			ToolCalls     []openAICall `json:"tool_calls"`
			ToolCallID    string       `json:"tool_call_id"`
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	for i, m := range r.Messages {
		one := ModelMessage{Role: m.Role, Text: m.Content}
		for _, c := range m.ToolCalls {
			one.Calls = append(one.Calls, ModelCall{c.ID, c.Function.Name, json.RawMessage(c.Function.Arguments)})
		}
		switch {
		case m.Role == "system" && i == 0:
		case m.Role == "tool":
			if n := len(all) - 1; n < 0 || all[n].Role != "tool" {
				all = append(all, ModelMessage{Role: "tool"})
			}
			last := &all[len(all)-1]
			last.Results = append(last.Results, modelResult{m.ToolCallID, m.Content})
		case m.Role == "user" || m.Role == "assistant":
			all = append(all, one)
		default:
			return nil, fmt.Errorf("message %d has the role %q", i+1, m.Role)
		}
	}
	return all, nil
}

func (openAIWire) write(a ModelAnswer, input, output int) (first, rest string) {
	type delta struct {
		Role      string       `json:"role,omitempty"`
		Content   string       `json:"content,omitempty"`
		ToolCalls []openAICall `json:"tool_calls,omitempty"`
	}
	event := func(d delta, finish any, usage any) string {
		return "data: " + ToJSON(map[string]any{"id": "1", "object": "chat.completion.chunk", "model": "m", "choices": []any{map[string]any{"index": 0, "delta": d, "finish_reason": finish}}, "usage": usage}) + "\n\n"
	}
	first = event(delta{Role: "assistant", Content: a.Text}, nil, nil)
	finish := "stop"
	for i, c := range a.Calls {
		wire := openAICall{Index: i, ID: c.ID, Type: "function"}
		wire.Function.Name, wire.Function.Arguments = c.Name, string(c.Args)
		rest += event(delta{ToolCalls: []openAICall{wire}}, nil, nil)
		finish = "tool_calls"
	}
	rest += event(delta{}, finish, map[string]int{"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output})
	return first, rest + "data: [DONE]\n\n"
}

// anthropicWire is POST v1/messages.
type anthropicWire struct{}

var anthropicID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

type anthropicBlock struct {
	Type, Text, ID, Name string
	Input                json.RawMessage
	ToolUseID            string `json:"tool_use_id"`
	Content              anthropicBlocks
}

// anthropicBlocks is a content: blocks, or a text.
type anthropicBlocks []anthropicBlock

func (b *anthropicBlocks) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*b = anthropicBlocks{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(raw, (*[]anthropicBlock)(b))
}

// read keeps the order of blocks as the server demands it: results come first, and texts are not empty.
func (anthropicWire) read(body []byte) (all []ModelMessage, err error) {
	var r struct {
		MaxTokens int `json:"max_tokens"`
		Messages  []struct {
			Role    string
			Content anthropicBlocks
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	for i, m := range r.Messages {
		if i > 0 && m.Role == r.Messages[i-1].Role {
			return nil, fmt.Errorf("messages %d and %d are both of the role %s", i, i+1, m.Role)
		}
		results, one := ModelMessage{Role: "tool"}, ModelMessage{Role: m.Role}
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				if strings.TrimSpace(b.Text) == "" {
					return nil, fmt.Errorf("message %d has an empty text", i+1)
				}
				one.Text += b.Text
			case "tool_use":
				if m.Role != "assistant" || !anthropicID.MatchString(b.ID) {
					return nil, fmt.Errorf("message %d has the call %q", i+1, b.ID)
				}
				one.Calls = append(one.Calls, ModelCall{b.ID, b.Name, b.Input})
			case "tool_result":
				if m.Role != "user" || one.Text != "" {
					return nil, fmt.Errorf("message %d has the result %q behind a text, or of the assistant", i+1, b.ToolUseID)
				}
				text := ""
				for _, c := range b.Content {
					text += c.Text
				}
				results.Results = append(results.Results, modelResult{b.ToolUseID, text})
			default:
				return nil, fmt.Errorf("message %d has a block of the type %q", i+1, b.Type)
			}
		}
		if len(results.Results) > 0 {
			all = append(all, results)
		}
		if one.Text != "" || len(one.Calls) > 0 || len(results.Results) == 0 {
			all = append(all, one)
		}
	}
	if r.MaxTokens <= 0 {
		return nil, fmt.Errorf("max_tokens is %d", r.MaxTokens)
	}
	return all, nil
}

func (anthropicWire) write(a ModelAnswer, input, output int) (first, rest string) {
	event := func(kind string, fields map[string]any) string {
		fields["type"] = kind
		return "event: " + kind + "\ndata: " + ToJSON(fields) + "\n\n"
	}
	first = event("message_start", map[string]any{"message": map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []any{}, "usage": map[string]int{"input_tokens": input, "output_tokens": 1}}})
	text := event("content_block_start", map[string]any{"index": 0, "content_block": map[string]any{"type": "text", "text": ""}}) +
		event("content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": "text_delta", "text": cmp.Or(a.Text, "I go on.")}}) +
		event("content_block_stop", map[string]any{"index": 0})
	first += text
	stop := "end_turn"
	for i, c := range a.Calls {
		rest += event("content_block_start", map[string]any{"index": i + 1, "content_block": map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name, "input": map[string]any{}}}) +
			event("content_block_delta", map[string]any{"index": i + 1, "delta": map[string]any{"type": "input_json_delta", "partial_json": string(c.Args)}}) +
			event("content_block_stop", map[string]any{"index": i + 1})
		stop = "tool_use"
	}
	rest += event("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop}, "usage": map[string]int{"output_tokens": output}})
	return first, rest + event("message_stop", map[string]any{})
}

func ToJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // values of this file are maps of strings and numbers
	}
	return string(b)
}
