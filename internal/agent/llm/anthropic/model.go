package anthropic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/wire"
)

// defaultBaseURL is Anthropic's own service.
const defaultBaseURL = "https://api.anthropic.com"

// version is the value of the anthropic-version header. The wire format of this package belongs to
// it.
const version = "2023-06-01"

const (
	// defaultTokens is the longest answer: far more than an agent writes in a turn, and what most
	// models allow. A model that allows fewer says so, and is asked for those.
	defaultTokens = 16384
	// minThinking is the smallest number of tokens that the wire takes for thinking.
	minThinking = 1024
)

// Config sets up a Model. Only Config.Model is required.
type Config struct {
	// Config holds what all wires have. Its BaseURL is where v1/messages is; the /v1 may be left
	// out. The default is Anthropic's own service.
	wire.Config
	// MaxTokens is the longest answer, in tokens. Default 16384.
	MaxTokens int
	// Thinking is how many tokens the model may think before it answers, where a request does not
	// say. Less than 1024 count as 1024. Default 0: it does not.
	Thinking int
}

// dialect is the HTTP part of the Messages API: its paths, its headers and its name.
var dialect = wire.Dialect{
	Provider: "anthropic",
	BaseURL:  defaultBaseURL,
	Place: func(path string) string {
		if path = strings.TrimRight(path, "/"); strings.HasSuffix(path, "/v1") {
			return path
		}
		return path + "/v1"
	},
	Header: func(h http.Header, key string) {
		h.Set("Anthropic-Version", version)
		if key != "" {
			h.Set("X-Api-Key", key)
		}
	},
}

// Model is a model behind a Messages server. It is safe for concurrent use.
type Model struct {
	server *wire.Server
	// model is the server's name of the model; Name returns the name on this side.
	model string
	// tokens is the longest answer, without its thoughts.
	tokens int
	// thinking is the budget of thinking tokens for requests that do not say; 0 = none.
	thinking int

	mu       sync.Mutex
	refusals refusals // guarded by mu
}

// New returns a model. It does not connect. The error says which setting cannot be used.
func New(cfg Config) (*Model, error) {
	s, err := wire.Open(cfg.Config, dialect)
	if err != nil {
		return nil, err
	}
	if cfg.MaxTokens < 0 || cfg.Thinking < 0 {
		return nil, errors.New("anthropic: a number of tokens is negative")
	}
	return &Model{server: s, model: cfg.Model, tokens: cmp.Or(cfg.MaxTokens, defaultTokens), thinking: cfg.Thinking}, nil
}

// Name returns the configured name, by default anthropic: and the server's name of the model.
func (m *Model) Name() string { return m.server.Name() }

// Stream sends the request and yields the answer in chunks. Errors are *llm.Error, or the error of ctx.
func (m *Model) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return m.server.Stream(func(emit func(llm.Chunk) error) error {
		x, w, err := m.ask(ctx, r)
		if err != nil {
			return err
		}
		defer x.Close()
		a := &answer{server: m.server, in: x, ids: llm.NewCallIDs(r.Messages), emit: emit}
		if r.Output != nil && w.Choice != nil && w.Choice.Name == outputToolName(r.Output) {
			a.outputTool = w.Choice.Name
		}
		return x.Explain(x.Read(a))
	})
}

// ask sends the request in a form that the server accepts, and returns that, too. Parts that the server
// refuses (a form of thinking, a number of tokens, the images, thoughts of the history) are left out,
// and the request is sent again.
func (m *Model) ask(ctx context.Context, r llm.Request) (*wire.Exchange, *wireRequest, error) {
	if err := m.server.Check(r); err != nil {
		return nil, nil, err
	}
	if r.Thinking == 0 && r.Effort == "" {
		r.Thinking = m.thinking
	}
	for thoughts := true; ; {
		w := m.target().build(r)
		body, err := wire.Encode(w)
		if err != nil {
			return nil, nil, fmt.Errorf("model %s: encoding the request: %w", m.Name(), err)
		}
		x, err := m.server.Ask(ctx, "messages", body, w.headers()...)
		if err == nil {
			return x, w, nil
		}
		if refused, _ := wire.RefusesImages(err, r); refused {
			// An unreadable image stays in the history, so it would fail every later request, too.
			r = r.WithoutImages()
			continue
		}
		if thoughts && refusesThoughts(err) {
			r, thoughts = withoutThoughts(r), false
			continue
		}
		if tool, _ := llm.RefusedTool(err, r.Tools); tool != "" || !m.learn(err, w) {
			return nil, nil, err
		}
	}
}

// target returns what the next request is encoded for.
func (m *Model) target() target {
	m.mu.Lock()
	defer m.mu.Unlock()
	return target{model: m.model, own: m.Name(), tokens: m.tokens, adaptive: m.refusals.isAdaptive(m.model), refusals: m.refusals}
}

// learn is refusals.learn for the refusals of the model.
func (m *Model) learn(err error, w *wireRequest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refusals.learn(err, w)
}

// refusesThoughts reports whether a server refuses the request because of thoughts in its history.
func refusesThoughts(err error) bool {
	var e *llm.Error
	return errors.As(err, &e) && errors.Is(e, llm.ErrInvalid) && foreignThoughts().MatchString(e.Detail)
}

// withoutThoughts returns r without the thoughts of its history. r is not changed.
func withoutThoughts(r llm.Request) llm.Request {
	r.Messages = slices.Clone(r.Messages)
	for i := range r.Messages {
		r.Messages[i].Thinking = nil
	}
	return r
}

// Models asks a server for the names of its models, in its order. It asks once and does not wait
// longer than cfg.Connect for a connection and cfg.FirstToken for the answer. cfg.Model is not
// used.
func Models(ctx context.Context, cfg Config) ([]string, error) {
	return wire.Models(ctx, cfg.Config, dialect)
}

var _ llm.Model = (*Model)(nil)
