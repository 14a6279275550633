package anthropic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	"symbio/agent/llm"
	"symbio/agent/llm/wire"
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
	// serverMax is the limit of the server for an answer with its thoughts, learned from its
	// errors; 0 = not known.
	serverMax atomic.Int64
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

// Stream sends the request and yields the answer in chunks. Errors are *llm.Error, or those of ctx.
// Requests are repeated as package retry says, and only before the first chunk.
func (m *Model) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return m.server.Stream(ctx, func(emit func(llm.Chunk) error) error {
		x, err := m.ask(ctx, r)
		if err != nil {
			return err
		}
		defer x.Close()
		a := &answer{server: m.server, ids: llm.NewCallIDs(r.Messages), emit: emit}
		if r.Output != nil {
			a.outputTool = outputToolName(r.Output)
		}
		return x.Explain(x.Read(a))
	})
}

// ask sends the request with at most as many tokens as the server accepts. If the server refuses
// the number and names its limit, ask sends the request once more with that. If the server refuses
// the images, ask replaces them by descriptions.
func (m *Model) ask(ctx context.Context, r llm.Request) (*wire.Exchange, error) {
	if err := r.CheckImages(); err != nil {
		return nil, m.server.Fail(llm.ErrInvalid, 0, strings.TrimPrefix(err.Error(), llm.ErrInvalid.Error()+": "))
	}
	if r.Thinking == 0 {
		r.Thinking = m.thinking
	}
	for {
		most := m.serverMax.Load()
		body, err := encode(m.model, m.Name(), m.tokens, int(most), r)
		if err != nil {
			return nil, fmt.Errorf("model %s: encoding the request: %w", m.Name(), err)
		}
		x, err := m.server.Ask(ctx, "messages", body)
		if refused, _ := wire.RefusesImages(err); refused && r.HasImages() {
			// An unreadable image stays in the history, so it would fail every later request, too.
			r = r.WithoutImages()
			continue
		}
		// Each repetition lowers the limit, so the loop ends.
		if err == nil || !m.learnServerMax(err, most) {
			return x, err
		}
	}
}

// maxTokensError matches a server's error about too large a max_tokens, and its limit.
var maxTokensError = regexp.MustCompile(`max_tokens: \d+ > (\d+)`)

// learnServerMax reports whether err names a limit below before, the limit that the request was
// made with (0 = none), and stores it for later requests.
func (m *Model) learnServerMax(err error, before int64) bool {
	var e *llm.Error
	if !errors.As(err, &e) || !errors.Is(e, llm.ErrInvalid) {
		return false
	}
	said := maxTokensError.FindStringSubmatch(e.Detail)
	if said == nil {
		return false
	}
	n, err := strconv.ParseInt(said[1], 10, 64)
	if err != nil || n <= 0 || before > 0 && n >= before {
		return false
	}
	m.serverMax.Store(n)
	return true
}

// Models asks a server for the names of its models, in its order. It asks once and does not wait
// longer than cfg.Connect for a connection and cfg.FirstToken for the answer. cfg.Model is not
// used.
func Models(ctx context.Context, cfg Config) ([]string, error) {
	return wire.Models(ctx, cfg.Config, dialect)
}

var _ llm.Model = (*Model)(nil)
