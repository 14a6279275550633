package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"symbio/agent/llm"
)

// Model is a model behind a chat-completions server.
type Model struct {
	cfg    Config
	base   *url.URL
	client *http.Client
	// plain is set when the server turned out not to know stream_options.
	plain atomic.Bool
}

// Name is the configured name.
func (m *Model) Name() string { return m.cfg.Name }

// Stream asks the server. Errors are *llm.Error, or ctx's.
func (m *Model) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		begin := time.Now()
		err := m.stream(ctx, r, func(c llm.Chunk) bool { return yield(c, nil) })
		m.cfg.Logger.Debug("model answered", "model", m.cfg.Name, "took", time.Since(begin), "ok", err == nil)
		if err != nil && !errors.Is(err, errStopped) {
			yield(llm.Chunk{}, err)
		}
	}
}

func (m *Model) stream(ctx context.Context, r llm.Request, emit func(llm.Chunk) bool) error {
	x, err := m.ask(ctx, r)
	if err != nil {
		return err
	}
	defer x.close()
	return x.explain(x.answer(llm.NewCallIDs(r.Messages), emit))
}

// errStopped means that nobody wants the rest of the answer.
var errStopped = errors.New("stopped")

// ask sends the request until the server begins to answer, or it makes no sense to go on.
func (m *Model) ask(ctx context.Context, r llm.Request) (*exchange, error) {
	for attempt := 0; ; attempt++ {
		x, err := m.send(ctx, r)
		if err == nil {
			return x, nil
		}
		var e *llm.Error
		if !errors.As(err, &e) {
			return nil, err
		}
		if m.forgetOptions(e) {
			attempt--
			continue
		}
		wait := m.backOff(attempt, e)
		if !repeatable(e) || attempt >= m.cfg.MaxRetries || e.RetryAfter > m.cfg.MaxBackOff || beyond(ctx, wait) {
			return nil, err
		}
		m.cfg.Logger.Info("model request repeated", "model", m.cfg.Name, "status", e.Status, "err", e.Err, "wait", wait)
		if err := sleep(ctx, wait); err != nil {
			return nil, m.ended(err)
		}
	}
}

// forgetOptions reports, once, that a server refused stream_options. Usage is then not counted.
func (m *Model) forgetOptions(e *llm.Error) bool {
	return errors.Is(e, llm.ErrInvalid) && strings.Contains(e.Detail, "stream_options") && m.plain.CompareAndSwap(false, true)
}

func repeatable(e *llm.Error) bool {
	return errors.Is(e, llm.ErrRateLimited) || errors.Is(e, llm.ErrUnavailable)
}

func (m *Model) backOff(attempt int, e *llm.Error) time.Duration {
	if e.RetryAfter > 0 {
		return e.RetryAfter
	}
	wait := m.cfg.MaxBackOff
	if attempt < 16 {
		wait = min(wait, m.cfg.BackOff<<attempt)
	}
	return wait - rand.N(wait/2+1)
}

// beyond reports whether ctx will have ended after the wait: its owner learns more from the error at
// hand than from a deadline.
func beyond(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < wait
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ended is the error for a request whose context ended.
func (m *Model) ended(err error) error { return fmt.Errorf("model %s: %w", m.cfg.Name, err) }

// exchange is one HTTP request whose answer is being read.
type exchange struct {
	model  *Model
	parent context.Context // the caller's
	ctx    context.Context // the request's: ends with parent, or at a time limit
	limit  *limit
	body   io.ReadCloser
}

// send does one HTTP request. It returns when the server has begun to answer with a success.
func (m *Model) send(parent context.Context, r llm.Request) (*exchange, error) {
	body, err := encode(m.cfg.Model, r, !m.plain.Load())
	if err != nil {
		return nil, fmt.Errorf("model %s: encoding the request: %w", m.cfg.Name, err)
	}
	x := m.begin(parent)
	req, err := m.request(x.ctx, http.MethodPost, "chat/completions", body)
	if err != nil {
		x.close()
		return nil, err
	}
	resp, err := m.client.Do(req)
	if err != nil {
		x.close()
		return nil, x.explain(m.unreachable(err))
	}
	x.body = resp.Body
	if resp.StatusCode/100 != 2 {
		defer x.close()
		return nil, x.explain(m.refused(resp))
	}
	return x, nil
}

// begin starts an exchange: its clock runs from here.
func (m *Model) begin(parent context.Context) *exchange {
	ctx, cancel := context.WithCancelCause(parent)
	l := startLimit("connecting", m.cfg.Connect, cancel)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { l.set("waiting for the first token", m.cfg.FirstToken) },
	})
	return &exchange{model: m, parent: parent, ctx: ctx, limit: l}
}

// close ends the exchange. It may be called more than once.
func (x *exchange) close() {
	x.limit.stop()
	if x.body != nil {
		_ = x.body.Close()
	}
}

func (m *Model) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, m.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("model %s: the base URL cannot be used", m.cfg.Name)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	req.Header.Set("User-Agent", "symbio")
	if !m.cfg.Key.Empty() {
		req.Header.Set("Authorization", "Bearer "+m.cfg.Key.Reveal())
	}
	return req, nil
}

// explain replaces what broke off an exchange by why: the caller's end, or a time limit.
func (x *exchange) explain(err error) error {
	if err == nil || errors.Is(err, errStopped) {
		return err
	}
	if x.parent.Err() != nil {
		return x.model.ended(x.parent.Err())
	}
	var late *lateError
	if errors.As(context.Cause(x.ctx), &late) {
		return &llm.Error{Model: x.model.cfg.Name, Detail: late.Error(), Err: llm.ErrTimeout}
	}
	return err
}

var _ llm.Model = (*Model)(nil)
