package openai

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/wire"
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

// Model is a model behind a server of OpenAI's APIs. It is safe for concurrent use. It remembers which parts
// of the API the server does not support. They are never reset: a changed server needs a new Model.
type Model struct {
	server *wire.Server
	// model is the server's name of the model; Name returns the name on this side.
	model string
	// parts are the parts of a request, as far as the server is known to take them.
	parts atomic.Uint32
	// efforts are the words for effort that the server has listed in a refusal; nil = none.
	efforts atomic.Pointer[[]string]
	// noImages is set when the server has refused all images.
	noImages atomic.Bool
}

// New returns a model. It does not connect. The error says which setting cannot be used.
func New(cfg Config) (*Model, error) {
	s, err := wire.Open(cfg, dialect)
	if err != nil {
		return nil, err
	}
	m := &Model{server: s, model: cfg.Model}
	m.parts.Store(uint32(usual))
	if isOpenAI(cfg.BaseURL) {
		m.parts.Store(uint32(usual | responses))
	}
	return m, nil
}

// isOpenAI reports whether a base URL is OpenAI's own service, or one of its regions.
func isOpenAI(base string) bool {
	u, err := url.Parse(base)
	return base == "" || err == nil && (u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".api.openai.com"))
}

// Name returns the configured name, by default openai: and the server's name of the model.
func (m *Model) Name() string { return m.server.Name() }

// Stream sends the request and yields the answer in chunks. Errors are *llm.Error, or the error of ctx.
func (m *Model) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return m.server.Stream(func(emit func(llm.Chunk) error) error {
		x, sent, err := m.ask(ctx, r)
		if err != nil {
			return err
		}
		defer x.Close()
		ids := llm.NewCallIDs(r.Messages)
		if sent&responses != 0 {
			return x.Explain(x.Read(&responseAnswer{server: m.server, in: x, ids: ids, emit: emit}))
		}
		return x.Explain(x.Read(&answer{server: m.server, in: x, ids: ids, emit: emit}))
	})
}

// ask sends the request without the parts that the server does not support, and repeats it once for
// each part that it finds unsupported. Images that the server refuses are replaced by descriptions. It
// returns the parts of the request that was answered.
func (m *Model) ask(ctx context.Context, r llm.Request) (*wire.Exchange, parts, error) {
	if err := m.server.Check(r); err != nil {
		return nil, 0, err
	}
	if m.noImages.Load() {
		r = r.WithoutImages()
	}
	// blind is set when the error says that the server refuses all images.
	blind := false
	var c changes
	for {
		t := m.target(r, c)
		x, err := m.send(ctx, r, t)
		if refused, always := wire.RefusesImages(err, r); refused {
			r, blind = r.WithoutImages(), always
			continue
		}
		if err == nil {
			// Stored only now: the request without images succeeded, so the images were the reason.
			m.noImages.CompareAndSwap(false, blind)
			return x, t.sent, nil
		}
		if !m.adapt(err, r.Tools, t, &c) {
			return nil, 0, err
		}
	}
}

// target returns how to send a request after these changes.
func (m *Model) target(r llm.Request, c changes) target {
	t := target{model: m.model, own: m.Name(), sent: (parts(m.parts.Load()) &^ c.once).of(r, m.Name())}
	if t.sent&effort == 0 {
		return t
	}
	if t.effort = effortOf(r); m.efforts.Load() != nil {
		t.effort = nearest(t.effort, *m.efforts.Load())
	}
	return t
}

// changes are those made for one request. dropped and added are its parts that were changed: each changes
// once each way, so that a request ends. once are the parts that only this request has dropped. other is set
// when another word for effort was tried.
type changes struct {
	dropped, added, once parts
	other                bool
}

// adapt changes the parts of requests to what an error says that the server takes. It reports whether there
// is a change.
func (m *Model) adapt(err error, tools []llm.ToolSpec, t target, c *changes) bool {
	if list := supportedEfforts(err, t); !c.other && nearest(t.effort, list) != t.effort {
		m.efforts.Store(&list)
		c.other = true
		return true
	}
	rule := refusedPart(err, tools, t.sent, *c)
	if rule == nil {
		return false
	}
	c.dropped, c.added = c.dropped|rule.drop, c.added|rule.add
	if rule.once {
		c.once |= rule.drop
		return true
	}
	// Other requests of the same model may be refused at the same time; each then changes the same bits.
	m.parts.And(^uint32(rule.drop))
	m.parts.Or(uint32(rule.add))
	return true
}

// send sends a request once.
func (m *Model) send(ctx context.Context, r llm.Request, t target) (*wire.Exchange, error) {
	path, encode := "chat/completions", t.encode
	if t.sent&responses != 0 {
		path, encode = "responses", t.encodeResponse
	}
	body, err := encode(r)
	if err != nil {
		return nil, fmt.Errorf("model %s: encoding the request: %w", m.Name(), err)
	}
	return m.server.Ask(ctx, path, body)
}

// Models asks a server for the names of its models, in its order. It asks once and does not wait
// longer than cfg.Connect for a connection and cfg.FirstToken for the answer. cfg.Model is not used.
func Models(ctx context.Context, cfg Config) ([]string, error) { return wire.Models(ctx, cfg, dialect) }

var _ llm.Model = (*Model)(nil)
