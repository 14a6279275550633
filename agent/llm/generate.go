package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"symbio/security/visible"
)

// Generated is a value that a model made.
type Generated[T any] struct {
	Value T
	Usage Usage // of all that was asked for it
}

// Generate asks a model for a T: the prompts, one behind the other, as one message. Its form is the JSON schema of T,
// see Form; the answer is held to it here, whatever the model was held to. An answer that does not fit is sent back
// once, with what is wrong.
//
// An *Error with ErrUnfit: the second answer did not fit either. ErrRefused: the model refused. ErrCut: its answer hit
// the limit on its length. Otherwise as Model.Stream; and nothing is asked when T has no schema.
func Generate[T any](ctx context.Context, m Model, prompt ...string) (T, error) {
	g, err := GenerateFrom[T](ctx, m, Request{Messages: []Message{{Role: User, Text: strings.Join(prompt, "\n\n")}}})
	return g.Value, err
}

// GenerateFrom is Generate for who has a system prompt, images or a conversation, and for who pays. The request's own
// Output and Tools are not used. With an error the usage is what was spent on it.
func GenerateFrom[T any](ctx context.Context, m Model, r Request) (Generated[T], error) {
	var g Generated[T]
	f, err := formOf(reflect.TypeFor[T]())
	if err != nil {
		return g, err
	}
	r.Output, r.Tools = f.output, nil
	text, err := g.ask(ctx, m, r)
	if err != nil {
		return g, err
	}
	wrong := f.decode(text, &g.Value)
	if wrong == nil {
		return g, nil
	}
	r.Messages = append(r.Messages[:len(r.Messages):len(r.Messages)], Message{Role: Assistant, Text: cmp.Or(strings.TrimSpace(text), "(nothing)")}, Message{Role: User, Text: repair(wrong, f.output)})
	if text, err = g.ask(ctx, m, r); err != nil {
		return g, err
	}
	if wrong = f.decode(text, &g.Value); wrong != nil {
		var zero T
		g.Value = zero
		return g, &Error{Model: m.Name(), Detail: wrong.Error(), Err: ErrUnfit}
	}
	return g, nil
}

// ask asks once and counts.
func (g *Generated[T]) ask(ctx context.Context, m Model, r Request) (string, error) {
	got, err := Collect(m.Stream(ctx, r), nil)
	g.Usage = g.Usage.Add(got.Usage)
	switch {
	case err != nil:
		return "", err
	case got.Stop == StopFilter:
		return "", &Error{Model: m.Name(), Detail: shortened(got.Message.Text), Err: ErrRefused}
	case got.Stop == StopLength:
		return "", &Error{Model: m.Name(), Detail: "at the limit of its length", Err: ErrCut}
	}
	return got.Message.Text, nil
}

// repair is what the model is told when its answer does not fit.
func repair(wrong error, o *Output) string {
	return fmt.Sprintf("That does not fit: %v.\nAnswer once more, whole and corrected. %s", wrong, o.Instruction())
}

// decode reads an answer as a value of the form's type.
func (f *form) decode(text string, into any) error {
	doc := bare(text)
	var instance any
	dec := json.NewDecoder(strings.NewReader(doc))
	if err := dec.Decode(&instance); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("there is no JSON in it")
		}
		return fmt.Errorf("it is not JSON: %s", shortened(err.Error()))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind the JSON document")
	}
	if err := f.resolved.Validate(instance); err != nil {
		return errors.New(shortened(err.Error()))
	}
	raw := []byte(doc)
	if f.wrapped {
		var box struct {
			Value json.RawMessage `json:"value"`
		}
		if err := json.Unmarshal(raw, &box); err != nil {
			return err
		}
		raw = box.Value
	}
	v := reflect.ValueOf(into).Elem()
	v.SetZero() // nothing of an answer that did not fit
	if err := json.Unmarshal(raw, into); err != nil {
		v.SetZero()
		return errors.New(shortened(err.Error()))
	}
	return nil
}

// bare is an answer without the code block that models like to put around it.
func bare(text string) string {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "```"); ok {
		if inner, ok = strings.CutSuffix(inner, "```"); ok {
			_, inner, _ = strings.Cut(inner, "\n")
			return strings.TrimSpace(inner)
		}
	}
	return text
}

// shortened is a message on one line that is not too long: schemas and values may be in it.
func shortened(s string) string {
	const most = 600
	return visible.Truncate(strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " "), most)
}
