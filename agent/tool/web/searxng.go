package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// SearXNGConfig sets up a SearXNG.
type SearXNGConfig struct {
	// URL is the address of the instance, such as http://127.0.0.1:8888 or
	// https://search.example/searxng. It comes from the configuration and not from a model, so it
	// may be on this machine or in the local network.
	URL string
	// Timeout limits a search. Default: 30 s, because the instance waits some seconds for each of
	// its engines.
	Timeout time.Duration
	// MaxBody limits the bytes of a response. Default: 2 MiB; a page of results has about 50 KiB.
	MaxBody int64
}

// SearXNG searches with an instance of SearXNG (docs.searxng.org/dev/search_api.html). The
// instance's settings must allow the JSON format. It follows no redirects and uses no proxy, so
// that queries go only where the configuration says.
type SearXNG struct {
	// cfg has its defaults set.
	cfg SearXNGConfig
	// at is the URL of the instance's search page.
	at *url.URL
	// client follows no redirects. Its connections are not kept.
	client *http.Client
}

// NewSearXNG returns a SearXNG, or an error that says what is wrong with the URL.
func NewSearXNG(cfg SearXNGConfig) (*SearXNG, error) {
	at, err := url.Parse(cfg.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the URL of the search: %w", err)
	case at.Scheme != "http" && at.Scheme != "https" || at.Host == "":
		return nil, fmt.Errorf("the URL of the search %q: want http://HOST or https://HOST of a SearXNG instance", cfg.URL)
	case at.RawQuery != "" || at.Fragment != "":
		return nil, fmt.Errorf("the URL of the search %q: want it without ? and #", cfg.URL)
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = 2 << 20
	}
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
	return &SearXNG{cfg: cfg, at: at.JoinPath("search"), client: client}, nil
}

// searxAnswer is the part of SearXNG's response that is used. Engines write null where they have no
// value.
type searxAnswer struct {
	Results []struct {
		URL     string `json:"url"`
		Title   string `json:"title"`
		Content string `json:"content"`
	} `json:"results"`
	// Unresponsive are pairs of the name of an engine and a reason.
	Unresponsive [][]any `json:"unresponsive_engines"`
}

// Search implements Searcher. It makes one request and returns the cause of ctx, that the instance
// cannot be reached, or what is wrong with its response; each error says what a person can do. One
// page has as many results as the instance is set to.
func (s *SearXNG) Search(ctx context.Context, query string, page int) (Found, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, fmt.Errorf("the search took longer than %v", s.cfg.Timeout))
	defer cancel()
	// A copy: s.at is shared by all searches.
	at := *s.at
	at.RawQuery = url.Values{"q": {query}, "format": {"json"}, "pageno": {strconv.Itoa(page)}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return Found{}, err
	}
	r.Header.Set("User-Agent", "symbio")
	r.Header.Set("Accept", "application/json")
	answer, err := s.client.Do(r)
	if err != nil {
		return Found{}, s.explainStatus(ctx, err)
	}
	defer answer.Body.Close()
	if err := s.check(answer); err != nil {
		return Found{}, err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, s.cfg.MaxBody+1))
	if err != nil {
		return Found{}, s.explainStatus(ctx, err)
	}
	// JSON that is cut cannot be parsed, so unlike a page it is an error.
	if int64(len(body)) > s.cfg.MaxBody {
		return Found{}, fmt.Errorf("%s answered with more than %d bytes", s.at.Host, s.cfg.MaxBody)
	}
	var said searxAnswer
	if err := json.Unmarshal(body, &said); err != nil {
		return Found{}, fmt.Errorf("%s did not answer with SearXNG's JSON; check web.search.url", s.at.Host)
	}
	return said.found(), nil
}

// found converts the response. It limits the number of results, because the instance may return any
// number.
func (a searxAnswer) found() Found {
	var f Found
	for _, r := range a.Results[:min(len(a.Results), 1000)] {
		f.Hits = append(f.Hits, Hit{Title: r.Title, URL: r.URL, Excerpt: r.Content})
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

// check returns an error for a response that is not a result, with what a person can do about it.
// 403 is what SearXNG answers if its settings do not allow the JSON format.
func (s *SearXNG) check(answer *http.Response) error {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	switch code := answer.StatusCode; {
	case code == http.StatusForbidden:
		return fmt.Errorf("%s refuses it (403); its settings.yml has to list json under search.formats", s.at.Host)
	case code == http.StatusTooManyRequests:
		return fmt.Errorf("%s has had too many searches (429); try again later, or set its limiter", s.at.Host)
	case code >= 300 && code < 400:
		return fmt.Errorf("%s redirects to %s, which is not followed; write that into web.search.url if it is right", s.at.Host, answer.Header.Get("Location"))
	case code != http.StatusOK:
		return fmt.Errorf("%s answered %s", s.at.Host, answer.Status)
	case !strings.HasSuffix(kind, "json"):
		return fmt.Errorf("%s answered with %s in place of JSON; see that web.search.url is a SearXNG instance, and its settings.yml lists json under search.formats", s.at.Host, kind)
	}
	return nil
}

// explainStatus returns the cause of ctx if it has ended, else that the instance could not be
// reached.
func (s *SearXNG) explainStatus(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return fmt.Errorf("cannot reach %s: %w; check web.search.url, and that the instance runs", s.at.Host, err)
}
