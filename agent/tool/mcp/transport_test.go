package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestHeadersGoOnlyToTheirServer(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request went elsewhere, with the key %q", r.Header.Get("X-Key"))
	}))
	defer elsewhere.Close()
	server := sdk.NewServer(&sdk.Implementation{Name: "s"}, nil)
	server.AddTool(&sdk.Tool{Name: "a", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "hi"}}}, nil
		})
	find := func(*http.Request) *sdk.Server { return server }
	for _, c := range []struct {
		kind    string
		handler http.Handler
	}{
		{HTTP, sdk.NewStreamableHTTPHandler(find, nil)},
		{SSE, sdk.NewSSEHandler(find, nil)},
	} {
		t.Run(c.kind, func(t *testing.T) {
			there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Key") != "k" {
					http.Error(w, "no key", http.StatusUnauthorized)
					return
				}
				c.handler.ServeHTTP(w, r)
			}))
			defer there.Close()
			defer there.CloseClientConnections() // streams of sessions that the SDK keeps
			t.Run("well", func(t *testing.T) {
				m, ctx := run(t, Config{HTTP: there.Client().Transport,
					Servers: []Server{{Name: "s", Type: c.kind, URL: there.URL, Headers: map[string]string{"X-Key": "k"}}}})
				one, err := m.Tool(ctx, "s", "a")
				if err != nil {
					t.Fatal(err)
				}
				if a, err := one.Call(ctx, nil, ignore); err != nil || a.Text != "hi" {
					t.Errorf("got %+v, %v", a, err)
				}
			})
			m, ctx := run(t, Config{Servers: []Server{{Name: "s", Type: c.kind, URL: there.URL}}})
			if _, err := m.Tool(ctx, "s", "a"); !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), "Unauthorized") {
				t.Errorf("without its key: got %v", err)
			}
			away := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
			defer away.Close()
			m, ctx = run(t, Config{Servers: []Server{{Name: "s", Type: c.kind, URL: away.URL, Headers: map[string]string{"X-Key": "k"}}}})
			if _, err := m.Tool(ctx, "s", "a"); !errors.Is(err, ErrNotReady) {
				t.Errorf("sent elsewhere: got %v", err)
			}
		})
	}
}

func TestServerThatNamesAnotherPlaceForItsMessagesIsRefused(t *testing.T) {
	to, err := url.Parse("https://a.example/mcp")
	if err != nil {
		t.Fatal(err)
	}
	o := &originTransport{to: to, headers: map[string]string{"X-Key": "k"}}
	for _, other := range []string{"https://b.example/mcp", "http://a.example/mcp", "https://a.example:8443/mcp",
		"https://a.example.b.example/"} {
		r := httptest.NewRequest(http.MethodPost, other, nil)
		if _, err := o.RoundTrip(r); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: got %v", other, err)
		}
	}
}

func TestOnlyLinesThatCanBeMessagesAreRead(t *testing.T) {
	const said = "Server 1.0\n\n  {\"jsonrpc\": \"2.0\"}\r\nbye\n{\"level\":\"info\"}\n[2]\n[[[\n[INFO] ready\n[{\"jsonrpc\":\"2.0\"}]\n{\"jsonrpc\":\"2.0\",\n{\"jsonrpc\": \"2.0\", \"id\": 3}"
	dropped := 0
	got, err := io.ReadAll(&messageReader{r: bufio.NewReaderSize(strings.NewReader(said), 16), dropped: func([]byte) { dropped++ }})
	if want := "{\"jsonrpc\": \"2.0\"}\n[{\"jsonrpc\":\"2.0\"}]\n{\"jsonrpc\": \"2.0\", \"id\": 3}\n"; err != nil || string(got) != want || dropped != 7 {
		t.Errorf("got %q, %v, %d lines dropped; want %q, 7", got, err, dropped, want)
	}
	if _, err := io.ReadAll(&messageReader{r: bufio.NewReader(endless{})}); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("an endless line: got %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '{'
	}
	return len(p), nil
}

func TestBeginAndTheEndOfStandardErrorAreKept(t *testing.T) {
	s := &tail{}
	for _, text := range []string{"first\n", strings.Repeat("x", 3*maxStderr), "\x1b[31m", "last"} {
		if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	got := s.String()
	if !strings.HasPrefix(got, "first\n") || !strings.HasSuffix(got, "last") || !strings.Contains(got, "[…]") || len(got) > maxStderr+20 ||
		strings.Contains(got, "\x1b") {
		t.Errorf("got %d bytes: %.20q … %q", len(got), got, got[max(0, len(got)-20):])
	}
}
