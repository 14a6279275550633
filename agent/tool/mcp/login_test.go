package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/internal/security/private"
)

// vendor is an MCP server behind a login, and the server for that login.
type vendor struct {
	*httptest.Server
	mu        sync.Mutex
	challenge string          // of PKCE, of the code that was given; guarded by mu
	valid     map[string]bool // access tokens; guarded by mu
	refreshes int             // guarded by mu
	expires   int             // seconds
}

func newVendor(t *testing.T) *vendor {
	t.Helper()
	v := &vendor{valid: map[string]bool{}, expires: 3600}
	server := sdk.NewServer(&sdk.Implementation{Name: "issues", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "count"},
		func(_ context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "7"}}}, nil, nil
		})
	tools := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, body any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body)
	}
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		ok := v.valid[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		v.mu.Unlock()
		if !ok {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+v.URL+`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		tools.ServeHTTP(w, r)
	})
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{"resource": v.URL + "/mcp", "authorization_servers": []string{v.URL}})
	})
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{
			"issuer": v.URL, "authorization_endpoint": v.URL + "/authorize", "token_endpoint": v.URL + "/token", "registration_endpoint": v.URL + "/register",
			"code_challenge_methods_supported": []string{"S256"}, "response_types_supported": []string{"code"}, "token_endpoint_auth_methods_supported": []string{"none"},
		})
	})
	mux.HandleFunc("/register", func(w http.ResponseWriter, r *http.Request) {
		var m map[string]any
		_ = json.NewDecoder(r.Body).Decode(&m)
		m["client_id"] = "client-1"
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(m)
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		v.mu.Lock()
		v.challenge = q.Get("code_challenge")
		v.mu.Unlock()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"code-1"}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		v.mu.Lock()
		defer v.mu.Unlock()
		sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
		token := "first"
		switch {
		case r.Form.Get("grant_type") == "authorization_code" && r.Form.Get("code") == "code-1" &&
			base64.RawURLEncoding.EncodeToString(sum[:]) == v.challenge:
		case r.Form.Get("grant_type") == "refresh_token" && r.Form.Get("refresh_token") == "refresh" &&
			r.Form.Get("client_id") == "client-1":
			v.refreshes++
			token = "renewed"
		default:
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		v.valid = map[string]bool{token: true}
		reply(w, map[string]any{"access_token": token, "token_type": "Bearer", "refresh_token": "refresh", "expires_in": v.expires})
	})
	v.Server = httptest.NewServer(mux)
	t.Cleanup(v.Close)
	return v
}

// browser opens an address and follows it back.
func browser(t *testing.T) func(context.Context, string) {
	return func(ctx context.Context, address string) {
		if at, limited := ctx.Deadline(); limited { // a person may need a minute, and more
			t.Errorf("the person has until %s, want as long as it takes", at)
		}
		if resp, err := http.Get(strings.Replace(address, "state=", "state=forged", 1)); err != nil ||
			resp.StatusCode != http.StatusBadRequest {
			t.Errorf("an answer to another login was taken: %v %v", resp, err)
		}
		resp, err := http.Get(address)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("back from the browser: %v %v", resp, err)
		}
	}
}

func TestLoginIsKeptRenewedAndForgotten(t *testing.T) {
	v := newVendor(t)
	book := private.Book[Login]{Dir: t.TempDir(), Key: func(l Login) string { return l.URL }}
	entry := Server{Name: "issues", Type: HTTP, URL: v.URL + "/mcp", Headers: map[string]string{"X-Key": "k"}}
	m, ctx := run(t, Config{Servers: []Server{entry}, Logins: book})
	if _, err := m.Tool(ctx, "issues", "count"); err == nil || !strings.Contains(err.Error(), "symbio mcp login issues") {
		t.Fatalf("without a login: %v", err)
	}
	if err := m.Login(ctx, "issues", browser(t)); err != nil {
		t.Fatal(err)
	}
	call := func() (string, error) {
		m, ctx := run(t, Config{Servers: []Server{entry}, Logins: book})
		one, err := m.Tool(ctx, "issues", "count")
		if err != nil {
			return "", err
		}
		a, err := one.Call(ctx, map[string]any{}, nil)
		return a.Text, err
	}
	if text, err := call(); text != "7" || err != nil {
		t.Fatalf("with a login: %q, %v", text, err)
	}
	login, err := book.Find(entry.URL)
	if err != nil || login.ClientID != "client-1" || login.Token.AccessToken != "first" {
		t.Fatalf("kept: %+v, %v", login, err)
	}
	login.Token.Expiry = time.Now().Add(-time.Hour)
	if err := book.Put(login); err != nil {
		t.Fatal(err)
	}
	if text, err := call(); text != "7" || err != nil || v.refreshes != 1 {
		t.Errorf("with an expired token: %q, %v, %d refreshes", text, err, v.refreshes)
	}
	if login, err := book.Find(entry.URL); err != nil || login.Token.AccessToken != "renewed" {
		t.Errorf("after a renewal: %+v, %v", login.Token, err)
	}
	if err := m.Logout("issues"); err != nil {
		t.Fatal(err)
	}
	if err := m.Logout("issues"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a second logout: %v", err)
	}
	if _, err := call(); err == nil || !strings.Contains(err.Error(), "symbio mcp login issues") {
		t.Errorf("after the logout: %v", err)
	}
}

// rerouted sends requests for one host to a server, and the others where they belong.
type rerouted struct {
	host string
	to   *httptest.Server
}

func (r rerouted) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host == r.host {
		req = req.Clone(req.Context())
		req.URL.Host = strings.TrimPrefix(r.to.URL, "http://")
	}
	return http.DefaultTransport.RoundTrip(req)
}

// A server elsewhere that asks for a login names addresses which symbio fetches: none of this machine or its networks.
func TestLoginFetchesNothingOfThisMachine(t *testing.T) {
	asked := false
	secret := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer secret.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(secret.URL, "http://"), ":")
	for _, host := range []string{"127.0.0.1", "localhost", "LOCALHOST.", "a.localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metadata" {
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(map[string]any{"resource": "http://mcp.example/mcp",
					"authorization_servers": []string{"http://" + host + ":" + port}})
				return
			}
			where := "http://mcp.example/metadata"
			if r.URL.Path == "/direct" {
				where = "http://" + host + ":" + port + "/metadata"
			}
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+where+`"`)
			w.WriteHeader(http.StatusUnauthorized)
		}))
		for _, path := range []string{"/mcp", "/direct"} {
			m, ctx := run(t, Config{HTTP: rerouted{"mcp.example", evil},
				Servers: []Server{{Name: "evil", Type: HTTP, URL: "http://mcp.example" + path}},
				Logins:  private.Book[Login]{Dir: t.TempDir(), Key: func(l Login) string { return l.URL }}})
			if err := m.Login(ctx, "evil",
				func(_ context.Context, address string) { t.Errorf("the person is sent to %s", address) }); err == nil {
				t.Errorf("%s of %s: the login succeeds", path, host)
			}
		}
		evil.Close()
	}
	if asked {
		t.Error("it was fetched")
	}
}

func TestLocalHosts(t *testing.T) {
	for host, want := range map[string]bool{
		"example.com": false, "203.0.113.7": false, "2001:db8::1": false, "localhost.example": false, "": false,
		"127.0.0.1": true, "127.9.9.9": true, "10.1.2.3": true, "172.16.0.1": true, "192.168.1.1": true, "169.254.169.254": true, "100.64.0.1": true, "0.0.0.0": true,
		"::1": true, "::": true, "fe80::1%eth0": true, "fd00::1": true, "::ffff:10.0.0.1": true, "localhost": true, "Localhost.": true, "x.localhost": true,
	} {
		if got := isLocalHost(host); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
	if err := dialPublic("tcp", "192.168.1.1:443", nil); err == nil {
		t.Error("a name that stands for a router is dialled")
	}
	if err := dialPublic("tcp", "203.0.113.7:443", nil); err != nil {
		t.Error(err)
	}
}

func TestLoginNeedsHTTPServer(t *testing.T) {
	m, ctx := run(t, Config{Servers: []Server{{Name: "a", Type: Stdio, Command: "x"}}, Logins: private.Book[Login]{}})
	if err := m.Login(ctx, "a", nil); !errors.Is(err, ErrNoLogin) {
		t.Error(err)
	}
	if err := m.Login(ctx, "b", nil); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}
