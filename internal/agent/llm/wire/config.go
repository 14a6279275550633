package wire

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"symbio/agent/llm"
)

// Config sets up a model behind a server. Only Model is required.
type Config struct {
	// BaseURL is where the server is, such as http://127.0.0.1:11434/v1. Default: the provider's
	// own service.
	BaseURL string
	// Model is the name the server knows the model by.
	Model string
	// Name is what the model is called here. Default: the provider, a colon, and Model.
	Name string
	// Key is the API key. Servers on the same machine usually need none.
	Key llm.Secret
	// KeyName is where people set the key, such as OPENAI_API_KEY: the error of a refused one names
	// it.
	KeyName string
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
	// Memory bounds the answers that are read at the same time. Default: no bound beside the one of each answer.
	Memory *Memory
	// Logger receives finished requests (Debug), never a text or a key.
	// Default: silent.
	Logger *slog.Logger
}

// withDefaults fills in what is not set.
func (c Config) withDefaults(d Dialect) Config {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&c.Connect, 10*time.Second)
	set(&c.FirstToken, 3*time.Minute)
	set(&c.Stall, 90*time.Second)
	c.BaseURL = cmp.Or(c.BaseURL, d.BaseURL)
	c.Name = cmp.Or(c.Name, d.Provider+":"+c.Model)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
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
		return nil, errors.New("the base URL contains a user or password; pass the key separately")
	}
	u.Fragment = ""
	return u, nil
}

// checkKey refuses a key that no header can carry, before net/http does with the key in hand.
func (c Config) checkKey() error {
	for _, r := range c.Key.Reveal() {
		if r <= ' ' || r > '~' {
			return errors.New("the key contains a character that cannot be in a key")
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
