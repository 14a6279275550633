package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"symbio/agent/llm"
)

// Session is what Generate and GenerateText ask (spec: Session). Put it around steps by With.
type Session struct {
	Model llm.Model
	// System is the system prompt. Default: none.
	System string
}

// errNoModel says what to do.
var errNoModel = errors.New("there is no model in the context: put the step in step.With(step.Session{Model: model}, …)")

// GenerateText is the step that a model does: its text is the answer to the prompt that is made of the input (spec:
// GenerateText). It asks the Session of the context, which remembers nothing between runs. An answer that was cut is
// llm.ErrCut, one that the provider's rules forbade llm.ErrRefused.
func GenerateText[In any](prompt func(In) string) Step[In, string] {
	return Func(func(ctx context.Context, in In) (string, error) {
		s := Value[Session](ctx)
		return s.ask(ctx, []llm.Message{{Role: llm.User, Text: prompt(in)}})
	})
}

// ErrUnfit: the model answered, and not in the form of the output, twice.
var ErrUnfit = errors.New("the model's answer is not what was asked for")

// Generate is the step by which a model makes an Out: it is asked for JSON in the form of Out, as encoding/json reads it,
// in which a jsonschema tag describes a field (spec: Generate). An answer that does not fit is sent back once with what
// is wrong; ErrUnfit is a second one. Otherwise as GenerateText.
func Generate[In, Out any](prompt func(In) string) Step[In, Out] {
	f, wrong := formOf[Out]()
	return Func(func(ctx context.Context, in In) (out Out, err error) {
		if wrong != nil {
			return out, wrong
		}
		s := Value[Session](ctx)
		messages := []llm.Message{{Role: llm.User, Text: prompt(in) + "\n\nAnswer with one JSON document and nothing else. It has to fit this JSON schema:\n" + f.text}}
		var unfit error
		for range 2 {
			text, err := s.ask(ctx, messages)
			if err != nil {
				return out, err
			}
			made, err := f.read(text)
			if err == nil {
				return made, nil
			}
			unfit = err
			messages = append(messages, llm.Message{Role: llm.Assistant, Text: text},
				llm.Message{Role: llm.User, Text: "That does not fit: " + err.Error() + ". Answer once more, whole and corrected, with the JSON document alone."})
		}
		return out, fmt.Errorf("%w: %w", ErrUnfit, unfit)
	})
}

// ask asks once.
func (s Session) ask(ctx context.Context, messages []llm.Message) (string, error) {
	if s.Model == nil {
		return "", errNoModel
	}
	got, err := llm.Collect(s.Model.Stream(ctx, llm.Request{System: s.System, Messages: messages}), nil)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", err
	case got.Stop == llm.StopFilter:
		return "", &llm.Error{Model: s.Model.Name(), Err: llm.ErrRefused}
	case got.Stop == llm.StopLength:
		return "", &llm.Error{Model: s.Model.Name(), Detail: "at the limit of its length", Err: llm.ErrCut}
	}
	return got.Message.Text, nil
}

// form is the JSON schema of a type.
type form[T any] struct {
	text     string
	resolved *jsonschema.Resolved
}

func formOf[T any]() (f form[T], err error) {
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		return f, fmt.Errorf("the form of %T: %w", *new(T), err)
	}
	if f.resolved, err = schema.Resolve(nil); err != nil {
		return f, fmt.Errorf("the form of %T: %w", *new(T), err)
	}
	text, err := json.Marshal(schema)
	f.text = string(text)
	return f, err
}

// read is an answer as a T; models like to put it in a code block.
func (f form[T]) read(text string) (v T, err error) {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "```"); ok {
		_, inner, _ = strings.Cut(inner, "\n")
		text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(inner), "```"))
	}
	var instance any
	if err := json.Unmarshal([]byte(text), &instance); err != nil {
		return v, err
	}
	if err := f.resolved.Validate(instance); err != nil {
		return v, err
	}
	return v, json.Unmarshal([]byte(text), &v)
}
