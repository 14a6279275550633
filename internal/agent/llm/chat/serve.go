package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"symbio/agent/llm"
)

// ErrRequest is returned for an input that is not a valid request.
var ErrRequest = errors.New("not a request to a model")

// Serve serves one call of the capability with a model. It passes the lines of the answer to emit,
// which may block until the caller has read them; if emit fails, the model is stopped. An error of
// the model is in the reply. The returned error is ErrRequest, emit's, or the cause of ctx.
func Serve(ctx context.Context, m llm.Model, data []byte, emit func(line []byte) error) ([]byte, error) {
	r, err := decode(data)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	got, err := llm.Collect(m.Stream(ctx, r), func(c llm.Chunk) {
		if c.Text == "" && c.Thought == "" {
			return
		}
		text, err := json.Marshal(line{c.Text, c.Thought})
		if err == nil {
			err = emit(append(text, '\n'))
		}
		if err != nil {
			stop(err)
		}
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return json.Marshal(reply{Error: failureOf(err)})
	}
	out := reply{Text: got.Message.Text, Calls: got.Message.Calls, Thinking: got.Message.Thinking, Stop: got.Stop}
	if got.Usage != (llm.Usage{}) {
		out.Usage = &got.Usage
	}
	return json.Marshal(out)
}

// efforts are the values of llm.Request.Effort.
var efforts = []string{"", "low", "medium", "high"}

// decode decodes a request. The schema of the capability was checked before, if it came from
// another node.
func decode(data []byte) (llm.Request, error) {
	var q request
	if err := json.Unmarshal(data, &q); err != nil {
		return llm.Request{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if len(q.Messages) == 0 || len(q.Messages) > maxMessages || len(q.Tools) > maxTools || q.Thinking < 0 || q.MaxTokens < 0 || !slices.Contains(efforts, q.Effort) {
		return llm.Request{}, fmt.Errorf("%w: want 1 to %d messages, at most %d tools, and an effort of low, medium or high", ErrRequest, maxMessages, maxTools)
	}
	options := q.Request
	options.Messages = nil // models that take no images are asked without them
	if err := options.Check(); err != nil {
		return llm.Request{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return q.Request, nil
}

// The thoughts of an answer are stored with the name that the model has here before the one that it has
// there. So they are only sent to that model, and what a peer sends cannot become a thought of another model.

// received returns the thoughts of an answer of the model that is called name here. Those that are too large
// are left out.
func received(thoughts []llm.Thinking, name string) []llm.Thinking {
	thoughts = slices.DeleteFunc(thoughts, func(t llm.Thinking) bool { return len(t.Raw) > llm.MaxRaw })
	for i := range thoughts {
		thoughts[i].Model = name + " " + thoughts[i].Model
	}
	return thoughts
}

// ownThinking returns the thoughts of the model that is called name here, with the name that they have there.
func ownThinking(thoughts []llm.Thinking, name string) (own []llm.Thinking) {
	for _, t := range thoughts {
		var ok bool
		if t.Model, ok = strings.CutPrefix(t.Model, name+" "); ok {
			own = append(own, t)
		}
	}
	return own
}

// encode encodes a request of the model that is called name here. If it has more than most bytes, it replaces images by descriptions; 0 =
// no limit.
func encode(model, name string, r llm.Request, most int) ([]byte, error) {
	data, err := write(model, name, r)
	if err != nil || most <= 0 || len(data) <= most || !r.HasImages() {
		return data, err
	}
	bare, err := write(model, name, r.WithoutImages())
	if err != nil {
		return nil, err
	}
	r.Messages = llm.FitImages(r.Messages, llm.MaxImages, max(0, most-len(bare))/4*3-imageOverhead) // base64 has four for three
	return write(model, name, r)
}

// imageOverhead is an upper bound of the bytes that MaxImages images need in a request beyond their
// data and their descriptions.
const imageOverhead = 2 << 10

func write(model, name string, r llm.Request) ([]byte, error) {
	q := request{model, r}
	q.Messages = slices.Clone(r.Messages)
	for i := range q.Messages {
		q.Messages[i].Thinking = ownThinking(q.Messages[i].Thinking, name)
	}
	q.Thinking, q.MaxTokens = max(0, r.Thinking), max(0, r.MaxTokens)
	if len(q.Messages) == 0 {
		q.Messages = []llm.Message{{Role: llm.User}}
	}
	return json.Marshal(q)
}
