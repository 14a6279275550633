package ollama

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/wire"
)

// MaxWindow is the largest window that a model gets without a configured one: memory grows with it, and
// many models allow far more than the machine has.
const MaxWindow = 32_768

// Config sets up a Model. Only Config.Model is required.
type Config struct {
	// Config holds what all wires have. Its BaseURL is where api/chat is; the default is this machine.
	wire.Config
	// Window is the context window in tokens. Default: what Ollama says of the model, up to MaxWindow.
	Window int
}

// dialect is the HTTP part of Ollama's API.
var dialect = wire.Dialect{
	Provider: "ollama",
	BaseURL:  "http://127.0.0.1:11434",
	// People know the address with the /v1 of the OpenAI-compatible API.
	Place: func(path string) string {
		return strings.TrimSuffix(strings.TrimSuffix(strings.TrimRight(path, "/"), "/v1"), "/api") + "/api"
	},
	Header: func(h http.Header, key string) {
		if key != "" {
			h.Set("Authorization", "Bearer "+key)
		}
	},
}

// Model is a model of an Ollama. It is safe for concurrent use.
type Model struct {
	server *wire.Server
	logger *slog.Logger
	// model is the server's name of the model; Name returns the name on this side.
	model string
	// window is the configured window; 0 = the model's.
	window int

	asking sync.Mutex // held while show asks
	shown  *details   // what Ollama says of the model; nil = not known yet; guarded by asking
	asked  time.Time  // the last time that show asked; guarded by asking

	mu sync.Mutex
	// noLevel and noThinking are set when the server has refused an effort, or thoughts; guarded by mu
	noLevel, noThinking bool
	warned              bool // of a request that does not fit; guarded by mu
}

// New returns a model. It does not connect. The error says which setting cannot be used.
func New(cfg Config) (*Model, error) {
	s, err := wire.Open(cfg.Config, dialect)
	if err != nil {
		return nil, err
	}
	if cfg.Window < 0 {
		return nil, errors.New("ollama: the window is negative")
	}
	m := &Model{server: s, logger: cfg.Logger, model: cfg.Model, window: cfg.Window}
	m.logger = cmp.Or(m.logger, slog.New(slog.DiscardHandler))
	return m, nil
}

// Name returns the configured name, by default ollama: and the server's name of the model.
func (m *Model) Name() string { return m.server.Name() }

// Stream sends the request and yields the answer in chunks. Errors are *llm.Error, or the error of ctx.
func (m *Model) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return m.server.Stream(func(emit func(llm.Chunk) error) error {
		x, err := m.ask(ctx, r)
		if err != nil {
			return err
		}
		defer x.Close()
		return x.Explain(x.ReadLines(&answer{server: m.server, in: x, ids: llm.NewCallIDs(r.Messages), emit: emit}))
	})
}

// ask sends the request without what the server has refused, and once more for each thing that it
// refuses now. Images for a model without vision are replaced by descriptions.
func (m *Model) ask(ctx context.Context, r llm.Request) (*wire.Exchange, error) {
	if err := m.server.Check(r); err != nil {
		return nil, err
	}
	if r.ToolChoice.ForcesCall() {
		return nil, m.server.Fail(llm.ErrInvalid, 0, "Ollama cannot force a call of a tool; use the tool choice auto, or a model of another provider")
	}
	known := m.show(ctx)
	if known.isBlind() {
		r = r.WithoutImages()
	}
	window := m.windowOf(known)
	m.warnIfTooLarge(r, window)
	for {
		level, think := m.thinkingForm()
		w := encode(m.model, m.Name(), window, r, level, think)
		body, err := wire.Encode(w)
		if err != nil {
			return nil, fmt.Errorf("model %s: encoding the request: %w", m.Name(), err)
		}
		x, err := m.server.Ask(ctx, "chat", body)
		var e *llm.Error
		if errors.As(err, &e) && errors.Is(e, llm.ErrNoModel) {
			e.Detail += "; get it with: ollama pull " + m.model
		}
		if refused, _ := wire.RefusesImages(err, r); refused {
			r = r.WithoutImages()
			continue
		}
		if tool, _ := llm.RefusedTool(err, r.Tools); err == nil || tool != "" || !m.learn(e, w.Think) {
			return x, err
		}
	}
}

// thinkingForm returns whether the server takes levels of thinking, and thoughts at all.
func (m *Model) thinkingForm() (level, think bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.noLevel, !m.noThinking
}

// learn reports whether e refuses the form of thinking of a request, and stores that. Only models with
// levels take a word; models without thoughts refuse true.
func (m *Model) learn(e *llm.Error, think any) bool {
	if e == nil || !errors.Is(e, llm.ErrInvalid) || !strings.Contains(e.Detail, "think") {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, word := think.(string); word && !strings.Contains(e.Detail, "does not support thinking") {
		m.noLevel = true
		return true
	}
	m.noThinking = true
	return think != nil
}

// bytesPerToken is an estimate for English and code.
const bytesPerToken = 4

// warnIfTooLarge logs, once, that a request is most likely larger than the window.
func (m *Model) warnIfTooLarge(r llm.Request, window int) {
	size := len(r.System)
	for _, t := range r.Tools {
		size += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for _, msg := range r.Messages {
		size += len(msg.Text)
		for _, c := range msg.Calls {
			size += len(c.Name) + len(c.Args)
		}
		for _, res := range msg.Results {
			size += len(res.Text)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if window == 0 || size/bytesPerToken <= window || m.warned {
		return
	}
	m.warned = true
	m.logger.Warn("the request is larger than the model's context window; set a larger one with context_windows, or use another model", "model", m.Name(), "tokens", size/bytesPerToken, "window", window)
}

var (
	_ llm.Model    = (*Model)(nil)
	_ llm.Windower = (*Model)(nil)
)
