package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Model is a language model, or something that behaves like one.
type Model interface {
	// Name returns the name for people and for the event log, such as "openai:gpt-x".
	Name() string
	// Stream asks the model and yields its answer piece by piece. Nothing is asked before the
	// iteration starts; iterating twice asks twice. After an error it yields nothing more: an error
	// of this package's list (see Error), or ctx's when ctx ended. Stopping the iteration or ending
	// ctx ends the request at once. It may be called concurrently. The Request is not written to.
	Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error]
}

// Request is the whole input of a model for one turn. It is also the wire format between nodes
// (package chat).
type Request struct {
	System   string     `json:"system,omitempty"`
	Messages []Message  `json:"messages"`
	Tools    []ToolSpec `json:"tools,omitempty"`
	// Output asks for an answer that is JSON with that schema, as text. Not every server enforces
	// it; Generate validates the answer. nil = any text.
	Output *Output `json:"output,omitempty"`
	// Thinking is how many tokens the model may think before it answers, if the wire supports it. 0
	// = as the model is configured; negative = no thinking, except for models of other nodes, which
	// use their own configuration.
	Thinking int `json:"thinking,omitempty"`
	// Effort says how much the model thinks before it answers: low, medium or high, if the wire
	// supports it. "" = as the model is configured. A wire that has only one of Effort and Thinking
	// derives it from the other.
	Effort string `json:"effort,omitempty"`
	// MaxTokens is the longest answer in tokens, including thoughts; a longer one is cut, with
	// StopLength. 0 = as the model is configured.
	MaxTokens int `json:"max_tokens,omitempty"`
	// Temperature is how much chance there is in the answer, from 0 to MaxTemperature; nil = as the
	// model does by itself. Models that refuse any are asked without it, as are Anthropic's models
	// while they think; there more than 1 counts as 1.
	Temperature *float64 `json:"temperature,omitempty"`
	// StopWords end the answer, with StopEnd, before the first of them that the model would write: at
	// most 4. They are not a part of it.
	StopWords []string `json:"stop_words,omitempty"`
	// ToolChoice says whether the model calls a tool; "" = as it does by itself. Models of Anthropic do
	// not think before a forced call. Ollama cannot force one: that is ErrInvalid.
	ToolChoice ToolChoice `json:"tool_choice,omitempty"`
}

// ToolChoice is one of the constants, or the name of the one tool that the model has to call.
type ToolChoice string

// The choices that name no tool.
const (
	ChoiceAuto     ToolChoice = "auto"     // the model decides
	ChoiceNone     ToolChoice = "none"     // no tool is called
	ChoiceRequired ToolChoice = "required" // some tool is called
)

// ForcesCall reports whether the answer has to have a call.
func (c ToolChoice) ForcesCall() bool { return c != "" && c != ChoiceAuto && c != ChoiceNone }

// Output is the JSON schema of an answer.
type Output struct {
	Name   string          `json:"name"`   // letters, digits, _ and -
	Schema json.RawMessage `json:"schema"` // a JSON schema, of an object
}

// Role is the author of a message.
type Role string

// The roles. Tool messages carry the results of the calls of the assistant message before them.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// Message is one entry of a conversation.
type Message struct {
	Role    Role         `json:"role"`
	Text    string       `json:"text,omitempty"`
	Images  []Image      `json:"images,omitempty"`  // User only; they come before the text
	Calls   []ToolCall   `json:"calls,omitempty"`   // Assistant only
	Results []ToolResult `json:"results,omitempty"` // Tool only, in the order of the calls
	// Thinking are the model's thoughts before the answer, Assistant only. They stay in the
	// history, because providers require that their own thoughts are sent back unchanged. Other
	// models do not get them.
	Thinking []Thinking `json:"thinking,omitempty"`
}

// Thinking is one block of a model's thoughts.
type Thinking struct {
	// Model is the name of the model that produced it; only that model gets it back.
	Model string `json:"model"`
	Text  string `json:"text,omitempty"`
	// Signature proves to the provider that the text is the model's own. Sealed is a block that
	// only the provider can read; it has no text.
	Signature string `json:"signature,omitempty"`
	Sealed    string `json:"sealed,omitempty"`
	// Raw is what the server sent in a format of its own, as a JSON object of at most MaxRaw bytes. It
	// belongs to the call CallID, or to the message if that is empty. The wire of Model decides which
	// parts it sends back, because a peer may have written it.
	Raw    json.RawMessage `json:"raw,omitempty"`
	CallID string          `json:"call_id,omitempty"`
	// AfterText and AfterCalls are its position in the message: after that many bytes of the text
	// and that many calls.
	AfterText  int `json:"after_text,omitempty"`
	AfterCalls int `json:"after_calls,omitempty"`
}

// MaxRaw is the largest Thinking.Raw in bytes. Larger ones are not kept.
const MaxRaw = 1 << 20

// ToolCall is a model's request to run a tool.
type ToolCall struct {
	// ID is unique within the conversation; the call's result names it.
	ID string `json:"id"`
	// Name is as the model wrote it: it may be empty.
	Name string `json:"name"`
	// Args are the arguments as the model wrote them. They are untrusted input. They are always
	// valid JSON, but not always an object: see Args.
	Args json.RawMessage `json:"args"`
}

// ToolResult is the result of a call. A failure is a result, too: the model reads it and can react.
type ToolResult struct {
	CallID  string `json:"call_id"`
	Name    string `json:"name"`
	Text    string `json:"text"`
	IsError bool   `json:"is_error,omitempty"`
	// Images are images for the model. Wires whose results cannot contain images send them in a
	// message after the results.
	Images []Image `json:"images,omitempty"`
}

// ToolSpec describes a tool to a model.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // JSON schema of the arguments, an object
}

// Chunk is a piece of a streamed answer. Any of its fields may be set.
type Chunk struct {
	Text string // more of the answer's text
	// Thought is more text of the model's thoughts, for people. It is not part of the answer.
	Thought  string
	Thinking *Thinking // a whole block of thoughts, to be kept in the history
	Call     *ToolCall // a whole call; fragments are joined before they are yielded
	Usage    *Usage    // at most once, near the end
	Stop     Stop      // set on the last chunk, and on no other
	// Retry reports that the request failed and is repeated. No part of the answer was yielded before.
	Retry *Retry
}

// Retry describes a request that failed before any part of its answer was yielded, and is repeated.
type Retry struct {
	// Model is the name of the model that failed, Next of the one that is asked now: the same, or
	// another of a list.
	Model, Next string
	// Attempt counts the failures of Model in this turn, from 1.
	Attempt int
	// Wait is the pause before the next request.
	Wait time.Duration
	Err  error
}

// Stop is the reason why an answer ended.
type Stop string

// Why answers end.
const (
	StopEnd    Stop = "end"        // the model is done
	StopTools  Stop = "tool_calls" // it waits for the results of its calls
	StopLength Stop = "length"     // the limit on its output cut it; half-written calls are not yielded
	StopFilter Stop = "filter"     // it was refused or filtered
)

// Usage is the token count of one or more requests, as the server reports it.
type Usage struct {
	Input  int `json:"input"` // all of the input, what was cached too
	Output int `json:"output"`
	// CacheRead and CacheWrite are the parts of Input that were read from the provider's cache, and
	// written to it.
	CacheRead  int `json:"cache_read,omitempty"`
	CacheWrite int `json:"cache_write,omitempty"`
	// Reasoning is the part of Output that was thoughts, as far as the server reports it.
	Reasoning int `json:"reasoning,omitempty"`
	// Cost is the cost by the configured prices, in their currency; nil = not known.
	Cost *float64 `json:"cost,omitempty"`
	// Model is the name of the model that was asked; "" = the name of the Model to which the request went.
	Model string `json:"model,omitempty"`
}

// Add returns the sum. Its cost is known only if both costs are; the zero Usage counts as known.
func (u Usage) Add(o Usage) Usage {
	sum := Usage{Input: u.Input + o.Input, Output: u.Output + o.Output, CacheRead: u.CacheRead + o.CacheRead,
		CacheWrite: u.CacheWrite + o.CacheWrite, Reasoning: u.Reasoning + o.Reasoning}
	switch {
	case u == Usage{}:
		sum.Cost = o.Cost
	case o == Usage{}:
		sum.Cost = u.Cost
	case u.Cost != nil && o.Cost != nil:
		total := *u.Cost + *o.Cost
		sum.Cost = &total
	}
	return sum
}

// Response is a whole answer.
type Response struct {
	Message Message
	Usage   Usage
	Stop    Stop
}

// Collect reads a stream to its end. each, if not nil, is called with every chunk. If there is an
// error, the Response has what came before it. A stream that ends without a Stop is ErrCut: half an
// answer must not be taken for a whole one.
func Collect(stream iter.Seq2[Chunk, error], each func(Chunk)) (Response, error) {
	var c collector // one value, since each of those that a loop like this writes to would be allocated by itself
	c.Message.Role = Assistant
	for chunk, err := range stream {
		if err != nil {
			c.err = err
			break
		}
		if each != nil {
			each(chunk)
		}
		c.add(chunk)
	}
	if c.rest != nil {
		c.Message.Text = c.rest.String()
	}
	if c.err == nil && c.Stop == "" {
		c.err = fmt.Errorf("collecting an answer: %w", ErrCut)
	}
	return c.Response, c.err
}

// collector builds a Response from chunks.
type collector struct {
	Response
	rest *strings.Builder // the whole text, when it came in several pieces
	err  error
}

func (c *collector) add(chunk Chunk) {
	switch {
	case chunk.Text == "":
	case c.rest != nil:
		c.rest.WriteString(chunk.Text)
	case c.Message.Text == "":
		c.Message.Text = chunk.Text
	default:
		c.rest = new(strings.Builder)
		c.rest.WriteString(c.Message.Text)
		c.rest.WriteString(chunk.Text)
	}
	if chunk.Thinking != nil {
		c.Message.Thinking = append(c.Message.Thinking, *chunk.Thinking)
	}
	if chunk.Call != nil {
		c.Message.Calls = append(c.Message.Calls, *chunk.Call)
	}
	if chunk.Usage != nil {
		c.Usage = *chunk.Usage
	}
	if chunk.Stop != "" {
		c.Stop = chunk.Stop
	}
}

// Args returns the arguments that a model wrote as valid JSON. Empty text becomes an empty object.
// Text that is not JSON becomes a JSON string, so that every call can be stored and shown, and the
// tool's decoder can tell the model what is wrong.
func Args(written string) json.RawMessage {
	t := strings.TrimSpace(written)
	if t == "" || t == "null" {
		return json.RawMessage("{}")
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(t)); err == nil {
		return b.Bytes()
	}
	quoted, err := json.Marshal(written)
	if err != nil {
		return json.RawMessage("{}") // cannot happen: every string can be marshalled
	}
	return quoted
}

// Object returns a call's arguments as an object for a request. Several servers refuse the whole
// conversation for anything else, so other JSON is wrapped in an object.
func Object(args json.RawMessage) json.RawMessage {
	trimmed := bytes.TrimSpace(args)
	if len(trimmed) == 0 {
		return json.RawMessage("{}")
	}
	if trimmed[0] == '{' && json.Valid(trimmed) {
		return trimmed
	}
	if !json.Valid(trimmed) {
		trimmed = Args(string(trimmed))
	}
	return json.RawMessage(`{"not_an_object":` + string(trimmed) + `}`)
}

// CallIDs assigns unique ids to the calls of an answer: the requested id if no call of the
// conversation has it, else "c1", "c2" and so on. The same conversation always gets the same ids,
// so that recordings match. It is not safe for concurrent use.
type CallIDs struct {
	used map[string]bool
	next int
}

// NewCallIDs returns the ids for an answer to these messages.
func NewCallIDs(messages []Message) *CallIDs {
	ids := &CallIDs{used: map[string]bool{}, next: 1}
	for _, m := range messages {
		for _, c := range m.Calls {
			ids.used[c.ID] = true
			ids.next++
		}
	}
	return ids
}

// Reserve returns an unused id and marks it as used. If want is empty, it chooses one.
func (c *CallIDs) Reserve(want string) string {
	for want == "" || c.used[want] {
		want = fmt.Sprintf("c%d", c.next)
		c.next++
	}
	c.used[want] = true
	return want
}
