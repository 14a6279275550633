package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"symbio/agent/llm"
)

// maxLine limits a line of a streamed answer, in bytes, and maxAnswer all of them, and so the memory that another node can
// use here.
const (
	maxLine   = 1 << 20
	maxAnswer = 8 << 20
)

// Provider is a node that offers a model.
type Provider struct {
	// Node is its name, for people.
	Node string
	// Model is what the node calls the model.
	Model string
	// Call invokes the capability there. During Call it passes the output to heard, in arbitrary
	// pieces. Errors with a known meaning are *llm.Error.
	Call func(ctx context.Context, data []byte, heard func([]byte)) ([]byte, error)
}

// Config sets up a Model.
type Config struct {
	// Name is what the model is called here, such as peer:kitchen/qwen3.
	Name string
	// Find returns the nodes that offer the model now, in the order in which to ask them.
	Find func() []Provider
	// MaxRequest is the largest request in bytes; images that do not fit are replaced by
	// descriptions. Default: no limit.
	MaxRequest int
}

// Model is a model of another node. It is safe for concurrent use.
type Model struct{ cfg Config }

// New returns a Model. It makes no call.
func New(cfg Config) *Model { return &Model{cfg} }

// Name is the configured name.
func (m *Model) Name() string { return m.cfg.Name }

// Stream asks the nodes that offer the model, one after the other, until one answers.
func (m *Model) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return llm.Emitted(func(emit func(llm.Chunk) error) error { return m.ask(ctx, r, emit) })
}

// ask asks the providers in order until one answers, or fails in a way that another node cannot
// help with.
func (m *Model) ask(ctx context.Context, r llm.Request, emit func(llm.Chunk) error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("model %s: %w", m.cfg.Name, ctx.Err())
	}
	providers := m.cfg.Find()
	if len(providers) == 0 {
		return &llm.Error{Model: m.cfg.Name, Detail: "no connected node offers it as " + Capability + "; `symbio agents models` lists what there is", Err: llm.ErrNoModel}
	}
	var failed error
	for _, p := range providers {
		began := false
		err := m.askNode(ctx, p, r, func(c llm.Chunk) error { began = true; return emit(c) })
		if err == nil || began || ctx.Err() != nil || errors.Is(err, llm.ErrStopped) || !canFailOver(err) {
			return err
		}
		failed = err
	}
	return failed
}

// canFailOver reports whether another node may succeed after this error.
func canFailOver(err error) bool {
	return errors.Is(err, llm.ErrRateLimited) || errors.Is(err, llm.ErrUnavailable) || errors.Is(err, llm.ErrDenied) || errors.Is(err, llm.ErrNoModel) ||
		errors.Is(err, llm.ErrAuth) || errors.Is(err, llm.ErrQuota) || errors.Is(err, llm.ErrTimeout)
}

// answerReader reads the streamed output of one call. It needs no lock, because Provider.Call
// delivers output in the goroutine of the call.
type answerReader struct {
	emit   func(llm.Chunk) error
	ctx    context.Context
	stop   context.CancelFunc
	rest   []byte // of a line that is not whole
	text   strings.Builder
	size   int // of texts and thoughts
	failed error
}

// askNode asks one node. It returns an error of package llm, or the cause of the context.
func (m *Model) askNode(parent context.Context, p Provider, r llm.Request, emit func(llm.Chunk) error) error {
	data, err := encode(p.Model, m.cfg.Name, r, m.cfg.MaxRequest)
	if err != nil {
		return fmt.Errorf("model %s: encoding the request: %w", m.cfg.Name, err)
	}
	ctx, stop := context.WithCancel(parent)
	defer stop()
	h := &answerReader{emit: emit, ctx: ctx, stop: stop}
	got, err := p.Call(ctx, data, h.write)
	var e *llm.Error
	switch {
	case h.failed != nil:
		if errors.Is(h.failed, llm.ErrMalformed) {
			return &llm.Error{Model: m.cfg.Name, Detail: "node " + p.Node + " says what is no answer", Err: llm.ErrMalformed}
		}
		return h.failed
	case parent.Err() != nil:
		return fmt.Errorf("model %s: %w", m.cfg.Name, parent.Err())
	case errors.As(err, &e):
		return &llm.Error{Model: m.cfg.Name, RetryAfter: e.RetryAfter, Detail: e.Detail, Err: e.Err}
	case err != nil:
		return &llm.Error{Model: m.cfg.Name, Detail: printable("node " + p.Node + ": " + err.Error()), Err: llm.ErrUnavailable}
	}
	return m.end(got, p, r, h)
}

// write handles a piece of the call's output and emits the complete lines. After an error it
// ignores the rest.
func (h *answerReader) write(piece []byte) {
	if h.failed != nil || h.ctx.Err() != nil {
		return
	}
	h.rest = append(h.rest, piece...)
	for {
		one, rest, whole := bytes.Cut(h.rest, []byte("\n"))
		if !whole {
			break
		}
		h.rest = rest
		var l line
		if len(one) > maxLine || json.Unmarshal(one, &l) != nil {
			h.fail(llm.ErrMalformed)
			return
		}
		if l.Text == "" && l.Thought == "" {
			continue
		}
		if h.size += len(l.Text) + len(l.Thought); h.size > maxAnswer {
			h.fail(llm.ErrMalformed)
			return
		}
		h.text.WriteString(l.Text)
		if err := h.emit(llm.Chunk{Text: l.Text, Thought: l.Thought}); err != nil {
			h.fail(err)
			return
		}
		if h.ctx.Err() != nil {
			return // although there is more
		}
	}
	if len(h.rest) > maxLine {
		h.fail(llm.ErrMalformed)
	}
}

// fail stores the first error and stops the call.
func (h *answerReader) fail(err error) {
	h.failed = err
	h.stop()
}

// end checks the reply and emits the parts in addition to the streamed text. The reply must begin
// with that text; otherwise the other node is faulty or lies, and the answer is refused.
func (m *Model) end(data []byte, p Provider, r llm.Request, h *answerReader) error {
	bad := func(why string) error {
		return &llm.Error{Model: m.cfg.Name, Detail: "node " + p.Node + ": " + why, Err: llm.ErrMalformed}
	}
	var got reply
	if err := json.Unmarshal(data, &got); err != nil {
		return bad("the reply is not JSON as expected")
	}
	if got.Error != nil {
		return got.Error.error(m.cfg.Name)
	}
	more, follows := strings.CutPrefix(got.Text, h.text.String())
	if !follows {
		return bad("the reply does not begin with the text that was streamed before")
	}
	var chunks []llm.Chunk
	if more != "" {
		chunks = append(chunks, llm.Chunk{Text: more})
	}
	thoughts := received(got.Thinking, m.cfg.Name)
	for i := range thoughts {
		chunks = append(chunks, llm.Chunk{Thinking: &thoughts[i]})
	}
	ids := llm.NewCallIDs(r.Messages)
	for _, c := range got.Calls {
		chunks = append(chunks, llm.Chunk{Call: &llm.ToolCall{ID: ids.Reserve(c.ID), Name: c.Name, Args: llm.Args(string(c.Args))}})
	}
	switch {
	case got.Stop == llm.StopEnd, got.Stop == llm.StopLength, got.Stop == llm.StopFilter:
	case got.Stop == llm.StopTools && len(got.Calls) > 0:
	case got.Stop == "":
		return &llm.Error{Model: m.cfg.Name, Detail: "node " + p.Node + " does not say why the answer ended", Err: llm.ErrCut}
	default:
		return bad("an unknown reason for the end")
	}
	for _, c := range append(chunks, llm.Chunk{Usage: sanitize(got.Usage), Stop: got.Stop}) {
		if err := h.emit(c); err != nil {
			return err
		}
	}
	return nil
}

// sanitize returns u with impossible values removed, because another node reports it.
func sanitize(u *llm.Usage) *llm.Usage {
	if u == nil {
		return nil
	}
	for _, n := range []*int{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &u.Reasoning} {
		*n = min(max(*n, 0), 1<<40)
	}
	if u.Cost != nil && !(*u.Cost >= 0) {
		u.Cost = nil
	}
	u.Model = "" // the name here says which node was asked
	return u
}

var _ llm.Model = (*Model)(nil)
