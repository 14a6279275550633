package step

import (
	"context"
	"errors"

	"symbio/agent/llm"
)

// Session is what Generate and GenerateText ask. Put it around steps by With.
type Session struct {
	Model llm.Model
	// System is the system prompt. Default: none.
	System string
	// Used is called with the cost of each answer, on the goroutine of the step; steps that run at
	// the same time call it concurrently. Default: not called.
	Used func(llm.Usage)
}

// errNoModel says what to do.
var errNoModel = errors.New("there is no model in the context: put the step in step.With(step.Session{Model: model}, …)")

// GenerateText is the step that a model does: its text is the answer to the prompt that is made of
// the input. It asks the Session of the context, which remembers nothing
// between runs. An answer that was cut is llm.ErrCut, one that the provider's rules forbade
// llm.ErrRefused.
func GenerateText[In any](prompt func(In) string) Step[In, string] {
	return Func(func(ctx context.Context, in In) (string, error) {
		return ask(ctx, prompt(in), func(s Session, r llm.Request) (string, llm.Usage, error) {
			got, err := llm.Collect(s.Model.Stream(ctx, r), nil)
			switch {
			case err != nil:
			case got.Stop == llm.StopFilter:
				err = &llm.Error{Model: s.Model.Name(), Err: llm.ErrRefused}
			case got.Stop == llm.StopLength:
				err = &llm.Error{Model: s.Model.Name(), Detail: "at the limit of its length", Err: llm.ErrCut}
			}
			return got.Message.Text, got.Usage, err
		})
	})
}

// Generate is the step by which a model makes an Out, as llm.FormFor describes it. An answer that does not fit is
// sent back once with what is wrong; llm.ErrUnfit is a
// second one. Otherwise as GenerateText.
func Generate[In, Out any](prompt func(In) string) Step[In, Out] {
	return Func(func(ctx context.Context, in In) (Out, error) {
		return ask(ctx, prompt(in), func(s Session, r llm.Request) (Out, llm.Usage, error) {
			g, err := llm.GenerateFrom[Out](ctx, s.Model, r)
			return g.Value, g.Usage, err
		})
	})
}

// ask has the model of the context answer a prompt.
func ask[Out any](ctx context.Context, prompt string, answer func(Session, llm.Request) (Out, llm.Usage, error)) (out Out, err error) {
	s, _ := lookup[Session](ctx)
	if s.Model == nil {
		return out, errNoModel
	}
	got, usage, err := answer(s, llm.Request{System: s.System, Messages: []llm.Message{{Role: llm.User, Text: prompt}}})
	if s.Used != nil {
		s.Used(usage)
	}
	switch {
	case ctx.Err() != nil:
		return out, context.Cause(ctx)
	case err != nil:
		return out, err
	}
	return got, nil
}
