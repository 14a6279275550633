package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"symbio/agent/llm"
)

// Dialect is what differs between the providers' HTTP APIs.
type Dialect struct {
	// Provider begins the names of its models.
	Provider string
	// BaseURL is the provider's own service.
	BaseURL string
	// Place turns the path of a base URL as people write it into the one that paths are joined to.
	Place func(path string) string
	// Header adds the provider's headers and the key to a request; key may be empty.
	Header func(h http.Header, key string)
}

// Server sends requests to a model's server. It is safe for concurrent use.
type Server struct {
	cfg     Config
	dialect Dialect
	// base is BaseURL with the path of Dialect.Place.
	base *url.URL
	// client does not follow redirects (Config.client).
	client *http.Client
}

// Open returns the server of a model. It does not connect. The error says which setting cannot be
// used.
func Open(cfg Config, d Dialect) (*Server, error) {
	if cfg.Model == "" {
		return nil, fmt.Errorf("%s: no model named", d.Provider)
	}
	s, err := open(cfg, d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Provider, err)
	}
	if s.cfg.plaintext(s.base) {
		s.cfg.Logger.Warn("the model's key is sent unencrypted", "model", s.cfg.Name, "host", s.base.Host)
	}
	return s, nil
}

// open is Open without the check of the model, for Models.
func open(cfg Config, d Dialect) (*Server, error) {
	cfg = cfg.withDefaults(d)
	u, err := cfg.base()
	if err != nil {
		return nil, err
	}
	u.Path = d.Place(u.Path)
	if err := cfg.checkKey(); err != nil {
		return nil, err
	}
	return &Server{cfg: cfg, dialect: d, base: u, client: cfg.client()}, nil
}

// Name is what the model is called here.
func (s *Server) Name() string { return s.cfg.Name }

// Check is llm.Request.Check, with an error of the model.
func (s *Server) Check(r llm.Request) error {
	if err := r.Check(); err != nil {
		return s.Fail(llm.ErrInvalid, 0, strings.TrimPrefix(err.Error(), llm.ErrInvalid.Error()+": "))
	}
	return nil
}

// Stream yields what once emits. once must return the error of emit.
func (s *Server) Stream(once func(emit func(llm.Chunk) error) error) iter.Seq2[llm.Chunk, error] {
	return llm.Emitted(func(emit func(llm.Chunk) error) error {
		begin := time.Now()
		err := once(emit)
		s.cfg.Logger.Debug("model answered", "model", s.cfg.Name, "took", time.Since(begin), "ok", err == nil)
		return err
	})
}

// Exchange is one HTTP request whose answer is being read. One goroutine uses it.
type Exchange struct {
	// Body is the answer. It is never nil.
	Body io.Reader

	server *Server
	parent context.Context // the caller's
	ctx    context.Context // the request's: ends with parent, or at a time limit
	phases *phaseTimer
	close  func() error // of Body
	// size is how many bytes the answer has, taken the bytes of the node's Memory, grown when it last grew.
	size, taken int
	grown       time.Time
}

// Ask sends a request: a POST of body to path, or a GET if body is nil. It returns when the server
// has begun a successful response. headers are names and values of more headers. The caller must close
// the Exchange. Errors are *llm.Error, or the context's.
func (s *Server) Ask(parent context.Context, path string, body []byte, headers ...string) (*Exchange, error) {
	x := s.begin(parent)
	req, err := s.request(x.ctx, path, body)
	if err != nil {
		x.Close()
		return nil, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		x.Close()
		return nil, x.Explain(s.unreachable(err))
	}
	x.Body, x.close = http.MaxBytesReader(nil, resp.Body, maxStream), resp.Body.Close
	if resp.StatusCode/100 != 2 {
		defer x.Close()
		return nil, x.Explain(s.refused(resp, req.URL))
	}
	return x, nil
}

// begin starts an exchange: its clock runs from here.
func (s *Server) begin(parent context.Context) *Exchange {
	ctx, cancel := context.WithCancelCause(parent)
	l := startPhaseTimer("connecting", s.cfg.Connect, cancel)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { l.set("waiting for the first token", s.cfg.FirstToken) },
	})
	return &Exchange{server: s, parent: parent, ctx: ctx, phases: l, Body: http.NoBody, close: http.NoBody.Close, grown: time.Now()}
}

// request builds the HTTP request. Its error does not quote the base URL, in which people paste
// keys.
func (s *Server) request(ctx context.Context, path string, body []byte) (*http.Request, error) {
	method := http.MethodPost
	if body == nil {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("model %s: the base URL cannot be used", s.cfg.Name)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	req.Header.Set("User-Agent", "symbio")
	s.dialect.Header(req.Header, s.cfg.Key.Reveal())
	return req, nil
}

// Close ends the exchange and its request. It may be called more than once.
func (x *Exchange) Close() {
	x.phases.stop()
	x.release()
	_ = x.close() // an answer that is not read to its end has nothing more to say
}

// Explain replaces an error of an exchange by its cause, if that is the end of the caller's context
// or a time limit.
func (x *Exchange) Explain(err error) error {
	if err == nil || errors.Is(err, llm.ErrStopped) {
		return err
	}
	if x.parent.Err() != nil {
		return fmt.Errorf("model %s: %w", x.server.cfg.Name, x.parent.Err())
	}
	var late *phaseTimeoutError
	if errors.As(context.Cause(x.ctx), &late) {
		return &llm.Error{Model: x.server.cfg.Name, Detail: late.Error(), Err: llm.ErrTimeout}
	}
	return err
}
