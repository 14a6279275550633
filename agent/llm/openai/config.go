package openai

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"symbio/agent/llm"
)

// DefaultBaseURL is OpenAI's own service.
const DefaultBaseURL = "https://api.openai.com/v1"

// Config sets up a Model. Only Model is required.
type Config struct {
	// BaseURL is where chat/completions is, such as http://127.0.0.1:11434/v1. One without a path
	// gets /v1. Default DefaultBaseURL.
	BaseURL string
	// Model is the name the server knows the model by.
	Model string
	// Name is what Model.Name returns. Default "openai:" and Model.
	Name string
	// Key is sent as a bearer token. Servers on one's own machine need none.
	Key llm.Secret
	// HTTP does the requests: proxies, certificates and tests are its business. Its redirect policy
	// is not used. Default: a client of its own, without a proxy.
	HTTP *http.Client
	// Connect limits getting a connection. Default 10s: far more than a reachable server takes.
	Connect time.Duration
	// FirstToken limits the time from the connection to the first piece of the answer, or to the
	// whole of one that is not streamed. Default 3m: a local server may load the model first.
	FirstToken time.Duration
	// Stall limits the time between two pieces. Keep-alive comments do not count as pieces. Default
	// 90s: reasoning models pause.
	Stall time.Duration
	// MaxRetries is how often a request is repeated after a refused or broken connection, a 408, a 429
	// or a 5xx. Default 3; negative is never.
	MaxRetries int
	// BackOff is the wait before the first repetition; it doubles each time, and a random part of up
	// to a half is taken off. A server's Retry-After wins. Default 500ms.
	BackOff time.Duration
	// MaxBackOff is the longest wait. A server that asks for more gets no further request: the caller
	// learns how long. Default 20s: people wait no longer without being told.
	MaxBackOff time.Duration
	// Logger receives repetitions (Info) and finished requests (Debug), never a text or a key.
	// Default: silent.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&c.Connect, 10*time.Second)
	set(&c.FirstToken, 3*time.Minute)
	set(&c.Stall, 90*time.Second)
	set(&c.BackOff, 500*time.Millisecond)
	set(&c.MaxBackOff, 20*time.Second)
	if c.MaxRetries == 0 {
		c.MaxRetries = 3
	}
	if c.BaseURL == "" {
		c.BaseURL = DefaultBaseURL
	}
	if c.Name == "" {
		c.Name = "openai:" + c.Model
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// client returns the client to use: the given one, but without redirects.
func (c Config) client() *http.Client {
	var own http.Client
	if c.HTTP != nil {
		own = *c.HTTP
	} else {
		own.Transport = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: c.Connect}).DialContext,
			TLSHandshakeTimeout: c.Connect,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 16, // agents of one node that talk to one server at once
			IdleConnTimeout:     90 * time.Second,
		}
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// base checks BaseURL. Its errors do not repeat it, because people paste keys into URLs.
func (c Config) base() (*url.URL, error) {
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, errors.New("the base URL must look like http://HOST:PORT/v1")
	case u.User != nil:
		return nil, errors.New("the base URL holds a user or password; pass the key on its own")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1"
	}
	u.Fragment = ""
	return u, nil
}

// checkKey refuses a key that no header can carry, before net/http does with the key in hand.
func (c Config) checkKey() error {
	for _, r := range c.Key.Reveal() {
		if r <= ' ' || r > '~' {
			return errors.New("the key has a character in it that no key has")
		}
	}
	return nil
}

// plaintext reports whether the key would cross a network unencrypted.
func (c Config) plaintext(u *url.URL) bool {
	if c.Key.Empty() || u.Scheme == "https" || u.Hostname() == "localhost" {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return err != nil || !addr.IsLoopback()
}

// New returns a model. It does not connect. The error says which setting cannot be used.
func New(cfg Config) (*Model, error) {
	if cfg.Model == "" {
		return nil, errors.New("openai: no model named")
	}
	m, err := open(cfg)
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	if m.cfg.plaintext(m.base) {
		m.cfg.Logger.Warn("the model's key is sent unencrypted", "model", m.cfg.Name, "host", m.base.Host)
	}
	return m, nil
}

func open(cfg Config) (*Model, error) {
	cfg = cfg.withDefaults()
	u, err := cfg.base()
	if err != nil {
		return nil, err
	}
	if err := cfg.checkKey(); err != nil {
		return nil, err
	}
	return &Model{cfg: cfg, base: u, client: cfg.client()}, nil
}
