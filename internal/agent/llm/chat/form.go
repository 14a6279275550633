package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"symbio/agent/llm"
	"symbio/internal/security/visible"
)

// Capability is the name under which a node offers its models.
const Capability = "model.chat"

const (
	maxMessages = 4000 // of a conversation: an agent remembers a few hundred
	maxTools    = 512
)

// request is the input of the capability, a wire format between nodes.
type request struct {
	Model string `json:"model,omitempty"`
	llm.Request
}

// reply is the output of the capability: an answer or an error. It repeats the whole streamed text,
// so that lost output is noticed.
type reply struct {
	Text     string         `json:"text,omitempty"`
	Calls    []llm.ToolCall `json:"calls,omitempty"`
	Thinking []llm.Thinking `json:"thinking,omitempty"`
	Usage    *llm.Usage     `json:"usage,omitempty"`
	Stop     llm.Stop       `json:"stop,omitempty"`
	Error    *failure       `json:"error,omitempty"`
}

// failure is an error of a model on the wire. Kind is one of kinds.
type failure struct {
	Kind       string `json:"kind"`
	Detail     string `json:"detail,omitempty"`
	RetryAfter int64  `json:"retry_after_ms,omitempty"`
}

// line is a line of the streamed output: a piece of text or of a thought.
type line struct {
	Text    string `json:"text,omitempty"`
	Thought string `json:"thought,omitempty"`
}

// kinds maps the errors of models to their names on the wire between nodes. tell is true if the
// server's detail is about the request and may be sent to the caller. Other details may name hosts
// of the provider's network and stay on this node.
var kinds = []struct {
	name string
	err  error
	tell bool
}{
	{"auth", llm.ErrAuth, false}, {"quota", llm.ErrQuota, false}, {"rate_limited", llm.ErrRateLimited, false},
	{"context_length", llm.ErrContextLength, true}, {"refused", llm.ErrRefused, true}, {"no_model", llm.ErrNoModel, false},
	{"invalid", llm.ErrInvalid, true}, {"unavailable", llm.ErrUnavailable, false}, {"timeout", llm.ErrTimeout, false},
	{"cut", llm.ErrCut, false}, {"malformed", llm.ErrMalformed, false}, {"denied", llm.ErrDenied, false},
}

// failureOf returns an error as it may be sent to the calling node.
func failureOf(err error) *failure {
	f := &failure{Kind: "unavailable"}
	var e *llm.Error
	if !errors.As(err, &e) {
		return f
	}
	for _, k := range kinds {
		if errors.Is(e, k.err) {
			f.Kind = k.name
			if k.tell {
				f.Detail = e.Detail
			}
		}
	}
	f.RetryAfter = e.RetryAfter.Milliseconds()
	return f
}

// error returns a received failure as an error of the local model with that name.
func (f *failure) error(model string) *llm.Error {
	e := &llm.Error{Model: model, Detail: printable(f.Detail), Err: llm.ErrUnavailable}
	for _, k := range kinds {
		if k.name == f.Kind {
			e.Err = k.err
		}
	}
	if ms := min(f.RetryAfter, int64(24*time.Hour/time.Millisecond)); ms > 0 {
		e.RetryAfter = time.Duration(ms) * time.Millisecond
	}
	return e
}

// printable returns a text of another node as one line of at most 400 bytes.
func printable(s string) string { return visible.Line(s, 400) }

// Schemas returns the JSON schemas of the capability's input and output. The input's model is one
// of models; without one it is the first.
func Schemas(models []string) (input, output json.RawMessage, err error) {
	names, err := json.Marshal(models)
	if err != nil || len(models) == 0 {
		return nil, nil, errors.Join(errors.New("no model is offered"), err)
	}
	return json.RawMessage(fmt.Sprintf(inputSchema, names, maxMessages, maxTools)), json.RawMessage(outputSchema), nil
}

const inputSchema = `{"type":"object","required":["messages"],"additionalProperties":false,"properties":{` +
	`"model":{"enum":%s},"system":{"type":"string"},"thinking":{"type":"integer","minimum":0,"maximum":100000},"effort":{"enum":["","low","medium","high"]},` +
	`"max_tokens":{"type":"integer","minimum":0,"maximum":10000000},"temperature":{"type":"number","minimum":0,"maximum":2},` +
	`"stop_words":{"type":"array","maxItems":4,"items":{"type":"string","minLength":1,"maxLength":256}},"tool_choice":{"type":"string","maxLength":256},"messages":{"type":"array","minItems":1,"maxItems":%d,"items":{"type":"object","required":["role"],"properties":{` +
	`"role":{"enum":["user","assistant","tool"]},"text":{"type":"string"},` +
	`"images":{"type":"array","maxItems":20,"items":{"type":"object","required":["type","data"],"properties":{"type":{"type":"string"},"data":{"type":"string"}}}},` +
	`"calls":{"type":"array","maxItems":512,"items":{"type":"object","required":["id","name"],"properties":{"id":{"type":"string"},"name":{"type":"string"},"args":{}}}},` +
	`"results":{"type":"array","maxItems":512,"items":{"type":"object","required":["call_id"],"properties":{"call_id":{"type":"string"},"name":{"type":"string"},"text":{"type":"string"},"is_error":{"type":"boolean"},"images":{"type":"array","maxItems":20}}}},` +
	`"thinking":{"type":"array","maxItems":512,"items":{"type":"object"}}}}},` +
	`"tools":{"type":"array","maxItems":%d,"items":{"type":"object","required":["name"],"additionalProperties":false,"properties":{"name":{"type":"string","maxLength":256},"description":{"type":"string"},"schema":{"type":"object"}}}},` +
	`"output":{"type":"object","required":["name","schema"],"additionalProperties":false,"properties":{"name":{"type":"string","maxLength":64},"schema":{"type":"object"}}}}}`

const outputSchema = `{"type":"object","properties":{"text":{"type":"string"},"stop":{"enum":["end","tool_calls","length","filter"]},` +
	`"calls":{"type":"array","items":{"type":"object","required":["id","name","args"]}},"thinking":{"type":"array"},` +
	`"usage":{"type":"object"},"error":{"type":"object","required":["kind"]}}}`

// Offered returns the models that a capability offers, from the schema of its input. It returns
// none if the capability is not model.chat. Names from another node that cannot be printed are
// dropped.
func Offered(input json.RawMessage) []string {
	var s struct {
		Properties struct {
			Model    struct{ Enum []string } `json:"model"`
			Messages json.RawMessage         `json:"messages"`
		} `json:"properties"`
	}
	if json.Unmarshal(input, &s) != nil || s.Properties.Messages == nil {
		return nil
	}
	return slices.DeleteFunc(s.Properties.Model.Enum, func(n string) bool { return n == "" || len(n) > 256 || printable(n) != n })
}
