package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"symbio/internal/security/permission/endpoint"
)

// Config sets up a Fetcher. The zero value works.
type Config struct {
	// Resolver resolves host names. Default: the system's resolver.
	Resolver *net.Resolver
	// Timeout limits a call. Default: 60 s, enough for a slow page.
	Timeout time.Duration
	// MaxBody limits the bytes of a body, after decompression. Default: 5 MiB.
	MaxBody int64
	// TLS is for tests with certificates of their own. Default: the system's root certificates.
	TLS *tls.Config
}

// Limits of a request. Phases have limits of their own so that an unreachable server fails fast.
const (
	// maxRedirects limits the redirects within a host.
	maxRedirects = 5
	// connectTimeout limits the connection to one address, and again the TLS handshake.
	connectTimeout = 10 * time.Second
	// answerTimeout limits the time from the sent request to the header of the response.
	answerTimeout = 30 * time.Second
	// maxHeader limits the header of a response, in bytes.
	maxHeader = 64 << 10
)

// page is the response to a request, after redirects.
type page struct {
	// url is the URL that the response is from, after redirects.
	url *url.URL
	// status is the status line's text, such as "404 Not Found". ok is true for a status below 300.
	status string
	ok     bool
	// kind is the Content-Type header, as the server wrote it.
	kind string
	// body has at most Config.MaxBody bytes; cut is true if there were more.
	body []byte
	cut  bool
	// redirect is the URL of another host that the server redirects to; then there is no body.
	redirect string
}

var (
	errForbidden = errors.New("the address may not be reached")
	errDowngrade = errors.New("the server redirects from https to http, which is not followed")
	errRedirects = fmt.Errorf("more than %d redirects", maxRedirects)
)

// Fetcher gets web pages. It is safe for concurrent use: calls share nothing but the configuration.
type Fetcher struct{ cfg Config }

// New returns a Fetcher with defaults for the unset fields of cfg.
func New(cfg Config) *Fetcher {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 60 * time.Second
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = 5 << 20
	}
	return &Fetcher{cfg}
}

// get makes a request. Each connection, also after a redirect, must be allowed by reach; nil allows
// public addresses only. A status of 400 or more is no error, because its body often says what is
// wrong. It returns the cause of ctx, errForbidden for an address that is not allowed,
// errDowngrade, errRedirects, or an error of the connection.
func (f *Fetcher) get(ctx context.Context, address string, reach *endpoint.AllowList) (*page, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.cfg.Timeout, fmt.Errorf("it took longer than %v", f.cfg.Timeout))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "symbio")
	r.Header.Set("Accept", "text/markdown, text/html;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.1")
	// No proxy, no kept connections, no cookies: a call shares nothing with another one.
	transport := f.transport(reach)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: follow}
	answer, err := client.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, plain(err)
	}
	defer answer.Body.Close()
	p := &page{url: answer.Request.URL, status: answer.Status, ok: answer.StatusCode < 300, kind: answer.Header.Get("Content-Type")}
	// follow has returned http.ErrUseLastResponse, so the response is the redirect itself.
	if to, err := answer.Location(); err == nil && answer.StatusCode >= 300 && answer.StatusCode < 400 {
		p.redirect = to.String()
		return p, nil
	}
	// One byte more than the limit tells a page that is cut from one that just fits.
	p.body, err = io.ReadAll(io.LimitReader(answer.Body, f.cfg.MaxBody+1))
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("the answer broke off: %w", err)
	}
	if int64(len(p.body)) > f.cfg.MaxBody {
		p.body, p.cut = p.body[:f.cfg.MaxBody], true
	}
	return p, nil
}

// transport returns a transport for a single call. Connections are not shared, because each call
// has its own permissions. The address is checked after name resolution, right before connecting,
// so that a name that resolves to another address the second time cannot get around the check.
func (f *Fetcher) transport(reach *endpoint.AllowList) *http.Transport {
	dialer := &net.Dialer{Timeout: connectTimeout, Resolver: f.cfg.Resolver}
	// ControlContext is called for each address after name resolution and right before connect. The
	// HTTP client has no other way to open a connection.
	dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || !reach.Allows(to) {
			return fmt.Errorf("%w: %s", errForbidden, address)
		}
		return nil
	}
	return &http.Transport{
		// A proxy would get the URL, and only the proxy's own address would be checked.
		Proxy:                  nil,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        f.cfg.TLS,
		TLSHandshakeTimeout:    connectTimeout,
		ResponseHeaderTimeout:  answerTimeout,
		MaxResponseHeaderBytes: maxHeader,
		DisableKeepAlives:      true,
		ForceAttemptHTTP2:      true,
	}
}

// follow follows redirects within a host. A redirect to another host is returned to the model,
// which needs a permission for it. It returns errDowngrade for a step from https to http, and
// errRedirects for more than maxRedirects.
func follow(next *http.Request, before []*http.Request) error {
	last := before[len(before)-1].URL
	switch {
	case last.Scheme == "https" && next.URL.Scheme != "https":
		return errDowngrade
	case len(before) > maxRedirects:
		return errRedirects
	case !sameHost(last, next.URL):
		return http.ErrUseLastResponse
	}
	// net/http adds the header itself.
	next.Header.Del("Referer")
	return nil
}

// sameHost reports whether two URLs are of the same host. A step from http to https on the default
// ports counts as the same. A URL with a user name never does: a redirect must not add credentials.
func sameHost(a, b *url.URL) bool {
	port := func(u *url.URL) string {
		if p := u.Port(); p != "" && p != "80" && p != "443" {
			return p
		}
		return ""
	}
	return strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b) && b.User == nil
}

// plain returns an error without the request's URL, which the reader knows.
func plain(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
