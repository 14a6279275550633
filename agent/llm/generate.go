package llm

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"symbio/internal/security/visible"
)

// Generation is a value that a model produced.
type Generation[T any] struct {
	Value T
	Usage Usage // of all requests for it
}

// Generate asks a model for a T. The prompts are joined to one message. The answer is validated by
// the JSON schema of T (see FormFor) on this side, because many servers do not enforce a schema.
// An answer that does not fit is sent back once with the problem.
//
// Errors are *Error with ErrUnfit if the second answer does not fit either, ErrRefused if the model
// refused, ErrCut if the answer reached the limit of its length; otherwise the errors of Model.Stream.
// If T has no schema, the model is not asked.
func Generate[T any](ctx context.Context, m Model, prompt ...string) (T, error) {
	g, err := GenerateFrom[T](ctx, m, Request{Messages: []Message{{Role: User, Text: strings.Join(prompt, "\n\n")}}})
	return g.Value, err
}

// GenerateFrom is like Generate, for a whole Request with a system prompt, images or earlier
// messages, and it returns the usage. The request's Output, Tools and ToolChoice are ignored. The usage is also
// set if there is an error.
func GenerateFrom[T any](ctx context.Context, m Model, r Request) (g Generation[T], err error) {
	f, read, err := FormFor[T]()
	if err != nil {
		return g, err
	}
	r.Output, r.Tools, r.ToolChoice = f.Output(), nil, ""
	var text string
	var wrong error
	for range 2 {
		if wrong != nil {
			r.Messages = append(slices.Clip(r.Messages), Message{Role: Assistant, Text: cmp.Or(strings.TrimSpace(text), "(nothing)")},
				Message{Role: User, Text: f.Correction(wrong)})
		}
		if text, err = g.ask(ctx, m, r); err != nil {
			return g, err
		}
		if g.Value, wrong = read(text); wrong == nil {
			return g, nil
		}
	}
	return g, &Error{Model: m.Name(), Detail: wrong.Error(), Err: ErrUnfit}
}

// ask asks the model once and adds the usage.
func (g *Generation[T]) ask(ctx context.Context, m Model, r Request) (string, error) {
	got, err := Collect(m.Stream(ctx, r), nil)
	g.Usage = g.Usage.Add(got.Usage)
	switch {
	case err != nil:
		return "", err
	case got.Stop == StopFilter:
		return "", &Error{Model: m.Name(), Detail: shorten(got.Message.Text), Err: ErrRefused}
	case got.Stop == StopLength:
		return "", &Error{Model: m.Name(), Detail: "at the limit of its length", Err: ErrCut}
	}
	return got.Message.Text, nil
}

// shorten returns a message on one line and at most 600 bytes long: validation errors may quote
// schemas and values.
func shorten(s string) string {
	const most = 600
	return visible.Truncate(strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " "), most)
}
