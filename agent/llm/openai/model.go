package openai

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"

	"symbio/agent/llm"
	"symbio/agent/llm/wire"
)

// defaultBaseURL is OpenAI's own service.
const defaultBaseURL = "https://api.openai.com/v1"

// Config sets up a Model. Its BaseURL is where chat/completions is; one without a path gets /v1.
type Config = wire.Config

// dialect is the HTTP part of the chat-completions API: its paths, its headers and its name.
var dialect = wire.Dialect{
	Provider: "openai",
	BaseURL:  defaultBaseURL,
	Place: func(path string) string {
		if strings.Trim(path, "/") == "" {
			return "/v1"
		}
		return path
	},
	Header: func(h http.Header, key string) {
		if key != "" {
			h.Set("Authorization", "Bearer "+key)
		}
	},
}

// Model is a model behind a chat-completions server. It is safe for concurrent use. It remembers
// which parts of the API the server does not support.
type Model struct {
	server *wire.Server
	// model is the server's name of the model; Name returns the name on this side.
	model string
	// noStreamOptions is set when the server has refused stream_options, noResponseFormat when it
	// has refused response_format, and noImages when it has refused all images. They are never
	// reset: a changed server needs a new Model.
	noStreamOptions, noResponseFormat, noImages atomic.Bool
	// useMaxCompletionTokens is set when the server wants max_completion_tokens instead of
	// max_tokens, as OpenAI's reasoning models do.
	useMaxCompletionTokens atomic.Bool
}

// New returns a model. It does not connect. The error says which setting cannot be used.
func New(cfg Config) (*Model, error) {
	s, err := wire.Open(cfg, dialect)
	if err != nil {
		return nil, err
	}
	return &Model{server: s, model: cfg.Model}, nil
}

// Name returns the configured name, by default openai: and the server's name of the model.
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
		return x.Explain(x.Read(&answer{server: m.server, ids: llm.NewCallIDs(r.Messages), emit: emit}))
	})
}

// ask sends the request without the parts that the server does not support, and repeats it once for
// each part that it finds unsupported. Images that the server refuses are replaced by descriptions.
func (m *Model) ask(ctx context.Context, r llm.Request) (*wire.Exchange, error) {
	if err := r.CheckImages(); err != nil {
		return nil, m.server.Fail(llm.ErrInvalid, 0, strings.TrimPrefix(err.Error(), llm.ErrInvalid.Error()+": "))
	}
	if m.noImages.Load() {
		r = r.WithoutImages()
	}
	// blind is set when the error says that the server refuses all images.
	blind := false
	for {
		sent := optionalParts{!m.noStreamOptions.Load(), !m.noResponseFormat.Load(), m.useMaxCompletionTokens.Load()}
		body, err := encode(m.model, r, sent.streamOptions, sent.responseFormat, sent.maxCompletionTokens)
		if err != nil {
			return nil, fmt.Errorf("model %s: encoding the request: %w", m.Name(), err)
		}
		x, err := m.server.Ask(ctx, "chat/completions", body)
		if refused, always := wire.RefusesImages(err); refused && r.HasImages() {
			r, blind = r.WithoutImages(), always
			continue
		}
		if err == nil && blind {
			// Stored only now: the request without images succeeded, so the images were the reason.
			m.noImages.Store(true)
		}
		if err == nil || !m.dropUnsupported(err, r, sent) {
			return x, err
		}
	}
}

// optionalParts says which parts that a server may not support one request had.
type optionalParts struct{ streamOptions, responseFormat, maxCompletionTokens bool }

// dropUnsupported reports whether the server refused an optional part of the request, and leaves it
// out from now on. sent are the parts of the refused request: other requests of the same model may
// have been refused at the same time. These parts are stream_options (without it usage is unknown), response_format
// (the system prompt then describes the schema), and max_tokens (which reasoning models call
// max_completion_tokens). Each part is dropped once, so ask repeats a request at most three times
// for this reason.
func (m *Model) dropUnsupported(err error, r llm.Request, sent optionalParts) bool {
	var e *llm.Error
	if !errors.As(err, &e) || !errors.Is(e, llm.ErrInvalid) {
		return false
	}
	if strings.Contains(e.Detail, "stream_options") {
		m.noStreamOptions.Store(true)
		return sent.streamOptions
	}
	if r.MaxTokens > 0 && strings.Contains(e.Detail, "max_completion_tokens") {
		m.useMaxCompletionTokens.Store(true)
		return !sent.maxCompletionTokens
	}
	if r.Output != nil && (strings.Contains(e.Detail, "response_format") || strings.Contains(e.Detail, "json_schema")) {
		m.noResponseFormat.Store(true)
		return sent.responseFormat
	}
	return false
}

// Models asks a server for the names of its models, in its order. It asks once and does not wait
// longer than cfg.Connect for a connection and cfg.FirstToken for the answer. cfg.Model is not used.
func Models(ctx context.Context, cfg Config) ([]string, error) {
	return wire.Models(ctx, cfg, dialect)
}

var _ llm.Model = (*Model)(nil)
