package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// ErrNoLogin is returned by Login for a server that asks for none.
var ErrNoLogin = errors.New("the server asks for no login")

// Login is what a person's login at a server left: the client that was registered there, and the
// tokens. It is secret.
type Login struct {
	// URL is the server's. Tokens are sent to this URL alone, and to TokenURL.
	URL          string           `json:"url"`
	ClientID     string           `json:"client_id"`
	ClientSecret string           `json:"client_secret,omitempty"`
	TokenURL     string           `json:"token_url"`
	AuthStyle    oauth2.AuthStyle `json:"auth_style"`
	Token        *oauth2.Token    `json:"token"`
}

// Logins keeps one Login for each URL. A private.Book is one. Find and Remove return fs.ErrNotExist
// for an unknown URL.
type Logins interface {
	Find(url string) (Login, error)
	Put(Login) error
	Remove(url string) error
}

const (
	// tokenTimeout limits a request to the server that gives tokens.
	tokenTimeout = 30 * time.Second
	// maxToken limits its answer, in bytes.
	maxToken = 1 << 20
	// maxCode limits the code and the state that a browser brings back, in bytes.
	maxCode = 8 << 10
)

// Login lets a person log in at a server by OAuth 2.1, with PKCE and a client that is registered for
// this login, and keeps the tokens in Config.Logins. show is called with the address that the person
// opens in a browser on this machine, which leads back to a port on loopback; its context ends when
// nobody waits for the person any more, and has no deadline but the one of ctx. Login blocks until the
// person has come back, or ctx ends. It returns ErrUnknown for an unknown server, and ErrNoLogin if
// the server answers without one.
func (m *Manager) Login(ctx context.Context, name string, show func(ctx context.Context, address string)) error {
	s, err := m.find(name)
	switch {
	case err != nil:
		return err
	case s.entry.Problem != "":
		return fmt.Errorf("%w: %s: %s", ErrNotReady, s.entry.Name, s.entry.Problem)
	case m.cfg.Logins == nil || s.entry.Type != HTTP:
		return fmt.Errorf("%w: only servers with a url and the type http have one, and %s is of the type %s", ErrNoLogin, s.entry.Name, s.entry.Type)
	}
	from, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("a port for the way back from the browser: %w", err)
	}
	back := &callback{codes: make(chan *auth.AuthorizationResult, 1)}
	server := &http.Server{Handler: back, ReadTimeout: tokenTimeout, MaxHeaderBytes: 4 * maxCode}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(from) }) // ends with Close
	defer serving.Wait()
	defer server.Close()
	redirect, done := "http://"+from.Addr().String()+"/callback", false
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "symbio", RedirectURIs: []string{redirect}, GrantTypes: []string{"authorization_code", "refresh_token"},
			ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: "none",
		}},
		RedirectURL: redirect, RequestRefreshToken: true, Client: m.tokenClient(s.entry.URL),
		AuthorizationCodeFetcher: func(ctx context.Context, a *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			if err := back.expect(a.URL); err != nil {
				return nil, err
			}
			show(ctx, a.URL)
			return back.wait(ctx)
		},
		NewTokenSource: func(_ context.Context, c *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
			done = true
			err := m.cfg.Logins.Put(Login{URL: s.entry.URL, ClientID: c.ClientID, ClientSecret: c.ClientSecret, TokenURL: c.Endpoint.TokenURL,
				AuthStyle: c.Endpoint.AuthStyle, Token: t})
			return oauth2.StaticTokenSource(t), err
		},
	})
	if err != nil {
		return err
	}
	session, err := s.client().Connect(ctx, m.streamable(s.entry, handler), nil)
	if err != nil {
		return fmt.Errorf("the login at %s: %s", s.entry.Name, shortError(cause(ctx, err)))
	}
	if err := session.Close(); err != nil {
		m.cfg.Logger.Debug("closing the session of a login", "server", s.entry.Name, "err", err)
	}
	if !done {
		return fmt.Errorf("%w: %s", ErrNoLogin, s.entry.Name)
	}
	return nil
}

// Logout forgets the tokens of a server. The server itself is not told. It returns ErrUnknown for an
// unknown server, and fs.ErrNotExist if there was no login.
func (m *Manager) Logout(name string) error {
	s, err := m.find(name)
	if err != nil {
		return err
	}
	if m.cfg.Logins == nil {
		return ErrNoLogin
	}
	return m.cfg.Logins.Remove(s.entry.URL)
}

// streamable returns the transport to an HTTP server.
func (m *Manager) streamable(s Server, login auth.OAuthHandler) *sdk.StreamableClientTransport {
	return &sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: m.client(s), MaxEventSize: maxMessage, MaxRetries: 2, OAuthHandler: login}
}

// tokenClient returns the client for requests about tokens of the server with that URL. They go to
// hosts that the server names, so they carry no headers of the entry, and reach this machine and its
// networks only if the server is there, too.
func (m *Manager) tokenClient(server string) *http.Client {
	return &http.Client{Transport: newTokenTransport(m.cfg.HTTP, server), Timeout: tokenTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("the server for logins sends elsewhere, which is refused")
	}}
}

// callback takes what the browser brings back. Requests that do not belong to the login are refused,
// so that a page in the browser cannot end it.
type callback struct {
	mu    sync.Mutex
	state string // of the login that is awaited; "" = none; guarded by mu
	// codes has room for one.
	codes chan *auth.AuthorizationResult
}

// expect begins to wait for the login with this address.
func (c *callback) expect(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Query().Get("state") == "" {
		return errors.New("the server names no address for the login")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = u.Query().Get("state")
	return nil
}

// wait returns the result of the login.
func (c *callback) wait(ctx context.Context) (*auth.AuthorizationResult, error) {
	select {
	case r := <-c.codes:
		if r.Code == "" {
			return nil, errors.New("it was refused in the browser")
		}
		return r, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	c.mu.Lock()
	fits := r.URL.Path == "/callback" && c.state != "" && q.Get("state") == c.state && len(q.Get("code")) <= maxCode
	if fits {
		c.state = ""
	}
	c.mu.Unlock()
	if !fits {
		http.Error(w, "This is no answer to a login that symbio waits for.", http.StatusBadRequest)
		return
	}
	c.codes <- &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "symbio has the answer. You can close this page.")
}

// storedLogin uses the login that is kept for a server. It asks no person: a running node has none.
type storedLogin struct {
	m *Manager
	s Server
	// mu lets one request renew the tokens at a time.
	mu *sync.Mutex
}

// TokenSource implements auth.OAuthHandler. Without a login it returns nil.
func (l storedLogin) TokenSource(context.Context) (oauth2.TokenSource, error) {
	if l.m.cfg.Logins == nil {
		return nil, nil
	}
	if _, err := l.m.cfg.Logins.Find(l.s.URL); err != nil {
		return nil, nil // the server answers that it needs one, if it does
	}
	return l, nil
}

// Token returns the access token, and renews it when it has expired. The login is read each time:
// another process may have renewed it, and a logout ends it at once.
func (l storedLogin) Token() (*oauth2.Token, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	login, err := l.m.cfg.Logins.Find(l.s.URL)
	if err != nil || login.Token == nil {
		return nil, l.needed("asks for a login")
	}
	if login.Token.Valid() {
		return login.Token, nil
	}
	c := oauth2.Config{ClientID: login.ClientID, ClientSecret: login.ClientSecret, Endpoint: oauth2.Endpoint{TokenURL: login.TokenURL, AuthStyle: login.AuthStyle}}
	ctx := context.WithValue(context.Background(), oauth2.HTTPClient, l.m.tokenClient(l.s.URL))
	t, err := c.TokenSource(ctx, login.Token).Token()
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", l.needed("no longer accepts the login"), shortError(err))
	}
	login.Token = t
	return t, l.m.cfg.Logins.Put(login)
}

// Authorize implements auth.OAuthHandler. It is called when the server has refused a request.
func (l storedLogin) Authorize(_ context.Context, _ *http.Request, resp *http.Response) error {
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode == http.StatusForbidden {
		return fmt.Errorf("the server %s refuses what the login is for (%s)", l.s.Name, resp.Status)
	}
	return l.needed("asks for a login (" + resp.Status + ")")
}

// needed returns the error that says how to log in.
func (l storedLogin) needed(why string) error {
	return fmt.Errorf("the server %s %s; log in with: symbio mcp login %s", l.s.Name, why, ServerPart(l.s.Name))
}
