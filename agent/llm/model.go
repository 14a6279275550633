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
	// Name is for people and the event log, such as "openai:gpt-x".
	Name() string
	// Stream asks the model and yields its answer piece by piece. Nothing is asked before the
	// iteration starts; iterating twice asks twice. After an error it yields nothing more: an error
	// of this package's list (see Error), or ctx's when ctx ended. Stopping the iteration or ending
	// ctx ends the request at once. It may be called concurrently. The Request is not written to.
	Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error]
}

// Request is everything a model is given for one turn.
type Request struct {
	System   string     `json:"system,omitempty"`
	Messages []Message  `json:"messages"`
	Tools    []ToolSpec `json:"tools,omitempty"`
	// Output asks for an answer that is JSON of that form, as text. A model that cannot be held to it answers as
	// it likes: see Generate. nil = text.
	Output *Output `json:"output,omitempty"`
	// Thinking is how many tokens the model may think before it answers, where the wire has that. 0 = as the model
	// was set up; below 0 = none, as far as this side says: another node's model is as it was set up there.
	Thinking int `json:"thinking,omitempty"`
	// MaxTokens is how long the answer may be, thoughts included, in tokens; a longer one is cut, with StopLength. 0 = as
	// the model was set up.
	MaxTokens int `json:"max_tokens,omitempty"`
}

// Output is the form of an answer.
type Output struct {
	Name   string          `json:"name"`   // letters, digits, _ and -
	Schema json.RawMessage `json:"schema"` // a JSON schema, of an object
}

// Role is who said something.
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
	// Thinking is what the model thought on the way to the answer, Assistant only. It stays in the history: the model
	// that thought it gets it back, unchanged; another does not.
	Thinking []Thinking `json:"thinking,omitempty"`
}

// Thinking is one block of a model's thoughts.
type Thinking struct {
	// Model is whose it is: only the model of that name is given it again.
	Model string `json:"model"`
	Text  string `json:"text,omitempty"`
	// Signature proves to the provider that the text is the model's own. Sealed is a block that only the provider
	// can read; it has no text.
	Signature string `json:"signature,omitempty"`
	Sealed    string `json:"sealed,omitempty"`
	// AfterText and AfterCalls are where in the message it stands: behind so many bytes of its text, and so many of
	// its calls.
	AfterText  int `json:"after_text,omitempty"`
	AfterCalls int `json:"after_calls,omitempty"`
}

// ToolCall is a model's wish to have a tool run.
type ToolCall struct {
	// ID is unique within the conversation; the call's result names it.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Args is what the model wrote: hostile until decoded. It is always valid JSON, but need not be
	// an object: see Args.
	Args json.RawMessage `json:"args"`
}

// ToolResult is what came of a call. A failure is a result too: the model reads it.
type ToolResult struct {
	CallID  string `json:"call_id"`
	Name    string `json:"name"`
	Text    string `json:"text"`
	IsError bool   `json:"is_error,omitempty"`
	// Images are what the tool shows. A wire that has no place for them in a result carries them behind the results.
	Images []Image `json:"images,omitempty"`
}

// ToolSpec is how a tool is described to a model.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // JSON schema of the arguments, an object
}

// Chunk is a piece of an answer. Any of its fields may be set.
type Chunk struct {
	Text string // more of the answer's text
	// Thought is more of what the model thinks, for people. It is no part of the answer.
	Thought  string
	Thinking *Thinking // a whole block of thoughts, to be kept in the history
	Call     *ToolCall // a whole call; fragments are joined before they are yielded
	Usage    *Usage    // at most once, near the end
	Stop     Stop      // set on the last chunk, and on no other
	// Retry says that the request failed and is made again. Nothing of the answer was yielded before.
	Retry *Retry
}

// Retry is a request that failed before anything of its answer was yielded, and is made again.
type Retry struct {
	// Model is the name of the model that failed, Next of the one that is asked now: the same, or another of a list.
	Model, Next string
	// Attempt counts the failures of Model in this turn, from 1.
	Attempt int
	// Wait is how long it waits before that.
	Wait time.Duration
	Err  error
}

// Stop is why an answer ended.
type Stop string

// Why answers end.
const (
	StopEnd    Stop = "end"        // the model is done
	StopTools  Stop = "tool_calls" // it waits for the results of its calls
	StopLength Stop = "length"     // the limit on its output cut it; half-written calls are not yielded
	StopFilter Stop = "filter"     // it was refused or filtered
)

// Usage counts tokens, as the server counts them.
type Usage struct {
	Input  int `json:"input"` // all of the input, what was cached too
	Output int `json:"output"`
	// CacheRead and CacheWrite are the parts of Input that were read from the provider's cache, and written to it.
	CacheRead  int `json:"cache_read,omitempty"`
	CacheWrite int `json:"cache_write,omitempty"`
	// Cost is what the configured prices make of it, in their currency; nil = not known.
	Cost *float64 `json:"cost,omitempty"`
}

// Add returns the sum. Its cost is known only when both are; of nothing it is known.
func (u Usage) Add(o Usage) Usage {
	sum := Usage{Input: u.Input + o.Input, Output: u.Output + o.Output, CacheRead: u.CacheRead + o.CacheRead, CacheWrite: u.CacheWrite + o.CacheWrite}
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

// Collect reads a stream to its end. each, if not nil, sees every chunk as it comes. With an error
// the Response holds what came before it. A stream that ends without saying why it stopped is
// ErrCut: half an answer must not pass for a whole one.
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

// collector puts an answer together.
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

// Args turns what a model wrote as a call's arguments into JSON. Nothing at all becomes an empty
// object. What is not JSON becomes a JSON string of it, so that a call can always be stored and
// shown, and the tool's decoder can tell the model what it wrote.
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

// Object is a call's arguments as servers want them back: an object. Several refuse the whole conversation for
// anything else, so what a model wrote wrongly is put into one.
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

// CallIDs hands out ids for the calls of an answer: the one that is wanted if no call of the
// conversation has it, else "c1", "c2" and so on, counted on from the calls so far. The same
// conversation gets the same ids. One goroutine uses it.
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

// Take returns an id that no call has yet, and remembers it. An empty want takes any.
func (c *CallIDs) Take(want string) string {
	for want == "" || c.used[want] {
		want = fmt.Sprintf("c%d", c.next)
		c.next++
	}
	c.used[want] = true
	return want
}
