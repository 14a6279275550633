package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"symbio/agent/llm"
	"symbio/internal/security/visible"
)

// EngineConfig sets up an Engine.
type EngineConfig struct {
	// Provider is searxng, brave or tavily. Default: searxng.
	Provider string
	// URL is the address of the service, such as http://127.0.0.1:8888 or
	// https://search.example/searxng. It comes from the configuration and not from a model, so it
	// may be on this machine or in the local network. Default: the provider's; SearXNG has none.
	URL string
	// Key opens the service. SearXNG has none. It is sent to URL only, and is removed from what the
	// service answers.
	Key llm.Secret
	// Timeout limits a search. Default: 30 s, because a service waits some seconds for its sources.
	Timeout time.Duration
	// MaxBody limits the bytes of a response. Default: 2 MiB; a page of results has about 50 KiB.
	MaxBody int64
}

// engineAPI is the HTTP API of a provider.
type engineAPI struct {
	// name is what people call the provider, keyVar the variable with its key, "" = it has none.
	name, keyVar string
	// url is the default URL, path the path of searches below it.
	url, path string
	// request returns the request for one page. It adds the key.
	request func(ctx context.Context, at url.URL, key llm.Secret, query string, page int) (*http.Request, error)
	// forbidden says what to do about the status 403.
	forbidden string
}

// engineAPIs returns the providers by their names in the configuration.
func engineAPIs() map[string]engineAPI {
	return map[string]engineAPI{"searxng": searxng(), "brave": brave(), "tavily": tavily()}
}

// KeyVariable returns the environment variable that has the key of a provider; "" if the provider
// has no key or is unknown.
func KeyVariable(provider string) string { return engineAPIs()[provider].keyVar }

// Engine is a Searcher that asks a service over HTTP. It follows no redirects and uses no proxy, so
// that queries and the key go only where the configuration says.
type Engine struct {
	// cfg has its defaults set.
	cfg EngineConfig
	api engineAPI
	// at is the URL of searches.
	at *url.URL
	// client follows no redirects. Its connections are not kept.
	client *http.Client
}

// NewEngine returns an Engine, or an error that says what is wrong with the provider or the URL. A
// missing key is no error here: Search reports it, so that a node starts without it.
func NewEngine(cfg EngineConfig) (*Engine, error) {
	api, ok := engineAPIs()[cmp.Or(cfg.Provider, "searxng")]
	if !ok {
		return nil, fmt.Errorf("provider: %q: want searxng, brave or tavily", cfg.Provider)
	}
	at, err := url.Parse(cmp.Or(cfg.URL, api.url))
	if err == nil {
		err = api.checkURL(at)
	}
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), 30*time.Second)
	cfg.MaxBody = cmp.Or(max(cfg.MaxBody, 0), 2<<20)
	// The default transport is not used, because it reads a proxy from the environment.
	transport := &http.Transport{
		// The environment must not choose where queries go.
		Proxy:                  nil,
		DialContext:            (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout:    connectTimeout,
		MaxResponseHeaderBytes: maxHeader,
		// Searches are rare, and without kept connections there is nothing to close.
		DisableKeepAlives: true,
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &Engine{cfg: cfg, api: api, at: at.JoinPath(api.path), client: client}, nil
}

// checkURL returns why searches cannot be sent to a URL.
func (api engineAPI) checkURL(at *url.URL) error {
	switch {
	case at.Scheme != "http" && at.Scheme != "https" || at.Host == "":
		return fmt.Errorf("%q: want http://HOST or https://HOST of a %s service", at, api.name)
	case at.RawQuery != "" || at.Fragment != "":
		return fmt.Errorf("%q: want it without ? and #", at)
	case api.keyVar != "" && at.Scheme == "http" && !isLoopback(at.Hostname()):
		return fmt.Errorf("%q: want https, because the key of %s is sent there", at, api.name)
	}
	return nil
}

// isLoopback reports whether host is this machine, by its name or address.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Search implements Searcher. It makes one request and returns the cause of ctx, that the service
// cannot be reached, or what is wrong with its response; each error says what a person can do. No
// error and no result has the key in it.
func (e *Engine) Search(ctx context.Context, query string, page int) (Found, error) {
	if e.api.keyVar != "" && e.cfg.Key.Empty() {
		return Found{}, fmt.Errorf("%s needs a key; set %s where the node is started", e.api.name, e.api.keyVar)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.cfg.Timeout, fmt.Errorf("the search took longer than %v", e.cfg.Timeout))
	defer cancel()
	body, err := e.ask(ctx, query, page)
	if err != nil {
		return Found{}, errors.New(e.cfg.Key.Scrub(visible.Truncate(err.Error(), 1000)))
	}
	var a engineAnswer
	if err := json.Unmarshal([]byte(e.cfg.Key.Scrub(string(body))), &a); err != nil {
		return Found{}, fmt.Errorf("%s did not answer with %s's JSON; check web.search", e.at.Host, e.api.name)
	}
	return a.found(), nil
}

// engineAnswer is what is used of a response, of all providers: SearXNG and Tavily have results and
// contents, Brave has them in web, with descriptions. Engines write null where they have no value.
type engineAnswer struct {
	Results []engineResult `json:"results"`
	Web     struct {
		Results []engineResult `json:"results"`
	} `json:"web"`
	// Unresponsive are SearXNG's pairs of the name of an engine and a reason.
	Unresponsive [][]any `json:"unresponsive_engines"`
}

// engineResult is one result of any provider.
type engineResult struct{ Title, URL, Content, Description string }

// found converts the response. It limits the number of results, because the service may return any
// number.
func (a engineAnswer) found() (f Found) {
	all := append(a.Results, a.Web.Results...)
	for _, r := range all[:min(len(all), 1000)] {
		f.Hits = append(f.Hits, Hit{Title: r.Title, URL: r.URL, Excerpt: cmp.Or(r.Content, r.Description)})
	}
	for _, pair := range a.Unresponsive[:min(len(a.Unresponsive), 100)] {
		if len(pair) > 0 {
			if engine, ok := pair[0].(string); ok {
				f.Missing = append(f.Missing, engine)
			}
		}
	}
	return f
}

// ask returns the body of the response.
func (e *Engine) ask(ctx context.Context, query string, page int) ([]byte, error) {
	r, err := e.api.request(ctx, *e.at, e.cfg.Key, query, page)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "symbio")
	r.Header.Set("Accept", "application/json")
	answer, err := e.client.Do(r)
	if err != nil {
		return nil, e.explainFailure(ctx, err)
	}
	defer answer.Body.Close()
	if err := e.check(answer); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, e.cfg.MaxBody+1))
	if err != nil {
		return nil, e.explainFailure(ctx, err)
	}
	// JSON that is cut cannot be parsed, so unlike a page it is an error.
	if int64(len(body)) > e.cfg.MaxBody {
		return nil, fmt.Errorf("%s answered with more than %d bytes", e.at.Host, e.cfg.MaxBody)
	}
	return body, nil
}

// check returns an error for a response that is not a result, with what a person can do about it.
func (e *Engine) check(answer *http.Response) error {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	switch code := answer.StatusCode; {
	case code == http.StatusUnauthorized && e.api.keyVar != "":
		return fmt.Errorf("%s refuses the key (401); check %s", e.at.Host, e.api.keyVar)
	case code == http.StatusForbidden:
		return fmt.Errorf("%s refuses it (403); %s", e.at.Host, e.api.forbidden)
	case code == http.StatusTooManyRequests:
		return fmt.Errorf("%s has had too many searches (429); try again later, or raise its limit", e.at.Host)
	case code >= 300 && code < 400:
		return fmt.Errorf("%s redirects to %s, which is not followed; write that into web.search.url if it is right", e.at.Host, answer.Header.Get("Location"))
	case code != http.StatusOK:
		return fmt.Errorf("%s answered %s", e.at.Host, answer.Status)
	case !strings.HasSuffix(kind, "json"):
		return fmt.Errorf("%s answered with %s in place of JSON; see that web.search.url is a %s service; %s", e.at.Host, kind, e.api.name, e.api.forbidden)
	}
	return nil
}

// explainFailure returns the cause of ctx if it has ended, else that the service could not be
// reached.
func (e *Engine) explainFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return fmt.Errorf("cannot reach %s: %w; check web.search.url, and that the service runs", e.at.Host, err)
}
