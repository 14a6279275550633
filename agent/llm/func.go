package llm

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Func is a Model that is a Go function. The text of its answer is yielded as one chunk. A call
// without an id, or with an id that is in use, gets a new one. An empty Stop becomes StopTools if
// there are calls, else StopEnd. If the function returns an error, the text and calls of the
// Response are yielded before it. The function is not called after ctx has ended.
type Func func(ctx context.Context, r Request) (Response, error)

// Name is "func".
func (Func) Name() string { return "func" }

// Stream calls the function.
func (f Func) Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(Chunk{}, fmt.Errorf("model func: %w", err))
			return
		}
		got, err := f(ctx, r)
		if got.Message.Text != "" && !yield(Chunk{Text: got.Message.Text}, nil) {
			return
		}
		ids := NewCallIDs(r.Messages)
		for _, c := range got.Message.Calls {
			c.ID, c.Args = ids.Reserve(c.ID), Args(string(c.Args))
			if !yield(Chunk{Call: &c}, nil) {
				return
			}
		}
		if err != nil {
			yield(Chunk{}, err)
			return
		}
		switch {
		case got.Stop != "":
		case len(got.Message.Calls) > 0:
			got.Stop = StopTools
		default:
			got.Stop = StopEnd
		}
		yield(Chunk{Usage: &got.Usage, Stop: got.Stop}, nil)
	}
}

// ErrStopped is what emit returns when the reader of an answer has stopped the iteration.
var ErrStopped = errors.New("stopped")

// Emitted returns the answer that ask emits: its chunks, then its error. ask must return the error of emit.
func Emitted(ask func(emit func(Chunk) error) error) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		err := ask(func(c Chunk) error {
			if !yield(c, nil) {
				return ErrStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrStopped) {
			yield(Chunk{}, err)
		}
	}
}

// EstimateUsage estimates the usage of a request and its answer as one token for four bytes, the
// usual ratio for English text. It is for models that do not count tokens.
func EstimateUsage(r Request, answer Message) Usage {
	input := len(r.System)
	for _, m := range r.Messages {
		input += m.size()
	}
	for _, t := range r.Tools {
		input += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return Usage{Input: (input + 3) / 4, Output: (answer.size() + 3) / 4}
}

// size returns the number of bytes of text in a message.
func (m Message) size() int {
	n := len(m.Text)
	for _, c := range m.Calls {
		n += len(c.Name) + len(c.Args)
	}
	for _, r := range m.Results {
		n += len(r.Text)
	}
	return n
}

var _ Model = Func(nil)
