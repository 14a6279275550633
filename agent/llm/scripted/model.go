package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"
	"unicode/utf8"

	"symbio/agent/llm"
)

const (
	pieces   = 4    // a text is streamed in so many chunks, so that who reads it must join them
	maxCalls = 1000 // more calls in one answer are a mistake in the script
)

// Model answers from a Script. It keeps nothing between requests.
type Model struct {
	script *Script
}

// New returns a model that answers from the script.
func New(s *Script) *Model { return &Model{s} }

// Name is "scripted:" and the script's name.
func (m *Model) Name() string { return "scripted:" + m.script.name }

// Stream answers with the first turn that fits. It fails with a *DriftError when none does, with
// what a template did wrong, with the fault that the turn asks for, or with ctx's error. A script reads texts: of images
// it is told in words.
func (m *Model) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		chunks, err := m.answer(ctx, r.WithoutImages())
		for _, c := range chunks {
			if ctx.Err() != nil {
				break
			}
			if !yield(c, nil) {
				return
			}
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("model %s: %w", m.Name(), ctx.Err())
		}
		if err != nil {
			yield(llm.Chunk{}, err)
		}
	}
}

// answer renders the whole answer, and the error that follows it if the turn asks for one.
func (m *Model) answer(ctx context.Context, r llm.Request) ([]llm.Chunk, error) {
	sc := newScene(r)
	t, groups := m.script.pick(sc)
	if t == nil {
		return nil, m.script.drift(sc)
	}
	chunks, err := t.render(newRun(ctx, m.script, sc, t.Match.seen(sc), groups))
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, fmt.Errorf("script %s: turn %s: %w", m.script.name, t.Name, err)
	}
	if err := t.stall(ctx); err != nil {
		return nil, err
	}
	return chunks, t.fault(m.Name())
}

// pick returns the first turn that fits, with its named groups.
func (s *Script) pick(sc *scene) (*turn, map[string]any) {
	for i := range s.turns {
		if groups, diffs := s.turns[i].Match.fits(sc); len(diffs) == 0 {
			return &s.turns[i], groups
		}
	}
	return nil, nil
}

func (t *turn) render(r *run) ([]llm.Chunk, error) {
	text, err := r.render(&t.Text)
	if err != nil {
		return nil, err
	}
	chunks := split(text)
	written := len(text)
	ids := llm.NewCallIDs(r.data.scene.request.Messages)
	calls := 0
	for i := range t.Calls {
		err := r.renderCall(&t.Calls[i], func(name string, args json.RawMessage) error {
			if calls++; calls > maxCalls {
				return fmt.Errorf("more than %d calls", maxCalls)
			}
			if err := r.spend(len(args)); err != nil {
				return err
			}
			written += len(name) + len(args)
			chunks = append(chunks, llm.Chunk{Call: &llm.ToolCall{ID: ids.Take(""), Name: name, Args: args}})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if t.Error != nil || t.Cut || t.Malformed {
		return chunks, nil
	}
	return append(chunks, llm.Chunk{Usage: t.usage(r.data.scene.request, written), Stop: t.stop(calls)}), nil
}

// split cuts a text into a few pieces at character boundaries.
func split(text string) []llm.Chunk {
	var chunks []llm.Chunk
	for n := pieces; n > 0 && text != ""; n-- {
		end := (len(text) + n - 1) / n
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end++
		}
		chunks = append(chunks, llm.Chunk{Text: text[:end]})
		text = text[end:]
	}
	return chunks
}

func (t *turn) stop(calls int) llm.Stop {
	switch {
	case t.Stop != "":
		return t.Stop
	case calls > 0:
		return llm.StopTools
	}
	return llm.StopEnd
}

// usage is what the script says, or a token for each four bytes.
func (t *turn) usage(r llm.Request, written int) *llm.Usage {
	if t.Usage != nil {
		return &llm.Usage{Input: t.Usage.Input, Output: t.Usage.Output}
	}
	read := len(r.System)
	for _, m := range r.Messages {
		read += len(m.Text)
		for _, c := range m.Calls {
			read += len(c.Name) + len(c.Args)
		}
		for _, res := range m.Results {
			read += len(res.Text)
		}
	}
	for _, s := range r.Tools {
		read += len(s.Name) + len(s.Description) + len(s.Schema)
	}
	return &llm.Usage{Input: (read + 3) / 4, Output: (written + 3) / 4}
}

// stall waits as long as the turn says, or until nobody waits any more.
func (t *turn) stall(ctx context.Context) error {
	if t.Stall == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(time.Duration(t.Stall))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fault is the error that the turn asks for.
func (t *turn) fault(model string) error {
	e := &llm.Error{Model: model, Detail: "turn " + t.Name + " of the script says so"}
	switch {
	case t.Error != nil:
		e.Status, e.RetryAfter, e.Err = t.Error.Status, time.Duration(t.Error.RetryAfter), llm.StatusError(t.Error.Status)
		if t.Error.Message != "" {
			e.Detail = t.Error.Message
		}
	case t.Cut:
		e.Err = llm.ErrCut
	case t.Malformed:
		e.Err = llm.ErrMalformed
	default:
		return nil
	}
	return e
}

var _ llm.Model = (*Model)(nil)
