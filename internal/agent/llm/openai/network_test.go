package openai_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/openai"
	"symbio/internal/agent/llm/retry"
	"symbio/internal/community/waittest"
)

const whole = `data: {"choices":[{"delta":{"content":"Hello"}}]}` + "\n\n" + `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"

// slow is a server whose answer arrives over time, as the steps say. It honours the request's
// context as net/http does.
func slow(connect time.Duration, steps ...any) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		if err := pause(r.Context(), connect); err != nil {
			return nil, err
		}
		in, out := io.Pipe()
		go func() {
			for _, s := range steps {
				switch s := s.(type) {
				case string:
					_, _ = io.WriteString(out, s)
				case time.Duration:
					if err := pause(r.Context(), s); err != nil {
						_ = out.CloseWithError(err)
						return
					}
				case error:
					_ = out.CloseWithError(s)
					return
				}
			}
			_ = out.Close()
		}()
		return &http.Response{StatusCode: 200, Body: in}, nil
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func limits(c *openai.Config) {
	c.Connect, c.FirstToken, c.Stall = 10*time.Second, time.Minute, 20*time.Second
}

func TestPhasesHaveLimits(t *testing.T) {
	piece := `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n"
	finish := `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	for _, c := range []struct {
		name    string
		server  roundTrip
		want    error
		says    string
		after   time.Duration
		text    string
		skipped bool
	}{
		{"no connection", slow(time.Hour), llm.ErrTimeout, "connecting took more than 10s", 10 * time.Second, "", false},
		{"a stall", slow(0, piece, time.Hour), llm.ErrTimeout, "waiting for the next token took more than 20s", 20 * time.Second, "x", false},
		{"keep-alives only", slow(0, piece, 15*time.Second, ": ping\n\n", 15*time.Second, ": ping\n\n"), llm.ErrTimeout, "next token",
			20 * time.Second, "x", false},
		{"slow but steady", slow(0, piece, 15*time.Second, piece, 15*time.Second, piece, 15*time.Second, finish), nil, "", 45 * time.Second,
			"xxx", false},
		{"no end after the end", slow(0, piece, finish, time.Hour), nil, "", 2 * time.Second, "x", false},
		{"no end after [DONE]", slow(0, piece, "data: [DONE]\n\n", time.Hour), nil, "", 200 * time.Millisecond, "x", false},
		{"reset after the end", slow(0, piece, finish, errors.New("connection reset")), nil, "", 0, "x", false},
		{"reset in the middle", slow(0, piece, errors.New("connection reset")), llm.ErrCut, "connection reset", 0, "x", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := served(t, c.server, limits)
				begin := time.Now()
				got, err := llm.Collect(m.Stream(t.Context(), earlier), nil)
				if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("error = %v, want %v with %q", err, c.want, c.says)
				}
				if took := time.Since(begin); took != c.after || got.Message.Text != c.text {
					t.Errorf("got %q after %v, want %q after %v", got.Message.Text, took, c.text, c.after)
				}
			})
		})
	}
}

func TestFirstTokenHasItsOwnLimit(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server notices a client's end only then
		<-r.Context().Done()
	}))
	defer silent.Close()
	m := served(t, nil, func(c *openai.Config) {
		c.BaseURL, c.HTTP, c.FirstToken = silent.URL, silent.Client(), 50*time.Millisecond
	})
	_, err := llm.Collect(m.Stream(t.Context(), earlier), nil)
	if !errors.Is(err, llm.ErrTimeout) || !strings.Contains(err.Error(), "waiting for the first token took more than 50ms") {
		t.Errorf("error = %v, want a timeout of the first token", err)
	}
}

func TestCallersContextWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, server := range map[string]roundTrip{
			"while connecting": slow(time.Hour), "while waiting": slow(0, time.Hour), "while repeating": func(*http.Request) (*http.Response, error) {
				return reply(503, "", strings.NewReader("")), nil
			},
		} {
			m := retry.New(retry.Config{BackOff: time.Minute, MaxBackOff: time.Minute}, served(t, server))
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(3*time.Second, stop)
			begin := time.Now()
			_, err := llm.Collect(m.Stream(ctx, earlier), nil)
			if !errors.Is(err, context.Canceled) || time.Since(begin) != 3*time.Second {
				t.Errorf("%s: %v after %v, want canceled after 3s", name, err, time.Since(begin))
			}
		}
	})
}

func TestCancelledInTheMiddleYieldsNothingMore(t *testing.T) {
	m := served(t, func(*http.Request) (*http.Response, error) {
		return reply(200, "", strings.NewReader(whole+whole)), nil
	})
	ctx, stop := context.WithCancel(t.Context())
	got, err := llm.Collect(m.Stream(ctx, earlier), func(llm.Chunk) { stop() })
	if !errors.Is(err, context.Canceled) || got.Message.Text != "Hello" || got.Stop != "" {
		t.Errorf("got %+v, %v; want the first piece and canceled", got, err)
	}
}

func TestServerSaysWhenToComeBack(t *testing.T) {
	head := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	for _, c := range []struct {
		header http.Header
		status int
		body   string
		want   time.Duration
	}{
		{head("Retry-After", "7"), 429, "", 7 * time.Second},
		{head("Retry-After", "3600"), 429, "", time.Hour},
		{head("Retry-After", "1e300"), 503, "", 365 * 24 * time.Hour},
		{head("Retry-After-Ms", "250", "Retry-After", "9"), 429, "", 250 * time.Millisecond},
		{head("Retry-After", "Sat, 01 Jan 2000 00:00:10 GMT"), 503, "", 10 * time.Second},
		{head("Retry-After", "Fri, 31 Dec 1999 00:00:10 GMT"), 503, "", 0},
		{head("Retry-After", "-1"), 503, "", 0},
		{head("Retry-After", "soon"), 503, "", 0},
		{head("X-Ratelimit-Reset-Requests", "1s", "X-Ratelimit-Reset-Tokens", "6m0s"), 429, "", 6 * time.Minute},
		{head("X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "20ms", "X-Ratelimit-Remaining-Tokens", "9000",
			"X-Ratelimit-Reset-Tokens", "6m0s"), 429, "", 20 * time.Millisecond},
		{head("Anthropic-Ratelimit-Input-Tokens-Remaining", "0", "Anthropic-Ratelimit-Input-Tokens-Reset", "2000-01-01T00:00:30Z"), 429, "", 30 * time.Second},
		{nil, 429, `{"error":{"code":429,"message":"Quota exceeded","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"2.5s"}]}}`, 2500 * time.Millisecond},
		{nil, 429, `[{"error":{"code":429,"details":[{"retryDelay": "34s"}]}}]`, 34 * time.Second},
		{nil, 429, `{"error":{"message":"Rate limit reached for m: Limit 30000. Please try again in 20s. Visit us."}}`, 20 * time.Second},
		{nil, 429, `{"error":{"message":"Please try again in 6m0s."}}`, 6 * time.Minute},
		{nil, 429, `{"error":{"message":"Please try again in 1h2m3.5s."}}`, time.Hour + 2*time.Minute + 3500*time.Millisecond},
		{nil, 429, `{"error":{"message":"please retry after 350 milliseconds"}}`, 350 * time.Millisecond},
		{nil, 503, `{"error":{"message":"Overloaded. Try again in 2 minutes 5 seconds"}}`, 2*time.Minute + 5*time.Second},
		{nil, 429, `{"error":{"message":"try again in a while"}}`, 0},
		{nil, 429, `{"error":{"message":"try again in 99999999999999999999h"}}`, 0},
		{nil, 400, `{"error":{"message":"the text 'try again in 20s' is no number"}}`, 0},
	} {
		synctest.Test(t, func(t *testing.T) { // the bubble's clock begins on 2000-01-01
			asked := 0
			m := served(t, func(r *http.Request) (*http.Response, error) {
				asked++
				resp := reply(c.status, "", strings.NewReader(c.body))
				resp.Header = c.header
				return resp, nil
			})
			_, err := llm.Collect(m.Stream(t.Context(), earlier), nil)
			var e *llm.Error
			if !errors.As(err, &e) || e.RetryAfter != c.want || e.Status != c.status || asked != 1 {
				t.Errorf("%v %d %s: %v, wait %v, asked %d times; want %v, once", c.header, c.status, c.body, err, e.RetryAfter, asked, c.want)
			}
		})
	}
}

func TestWhatStandsInTheWayIsNamed(t *testing.T) {
	const nginx = "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body><center><h1>404 Not Found</h1></center></body></html>"
	for _, c := range []struct {
		base   string
		status int
		body   string
		kind   error
		says   string
		not    string
	}{
		{"http://h:1/api", 404, `{"detail":"Not Found"}`, llm.ErrInvalid, "nothing at http://h:1/api/chat/completions; the base URL probably has to end with /v1", "no such model"},
		{"http://h:1/v1", 404, "404 page not found", llm.ErrInvalid, "nothing at http://h:1/v1/chat/completions; check the base URL", "/v1 ma"},
		{"http://h:1/x?key=hush", 404, nginx, llm.ErrInvalid, "nothing at http://h:1/x/chat/completions;", "hush"},
		{"http://h:1/v1", 404, `{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}`, llm.ErrInvalid, "nothing at", ""},
		{"http://h:1/api", 200, `{"error":"Unexpected endpoint or method. (POST /api/chat/completions)"}`, llm.ErrInvalid, "the base URL probably has to end with /v1", ""},
		{"http://h:1/v1", 404, `{"error":{"message":"model \"m\" not found, try pulling it first"}}`, llm.ErrNoModel, "try pulling it first", ""},
		{"http://h:1/v1", 404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, llm.ErrNoModel, "deployment", ""},
		{"http://h:1/v1", 403, `<!DOCTYPE html><html lang="en"><head><title>Just a moment...</title><style>*{box-sizing:border-box}</style>`, llm.ErrInvalid, `the page "Just a moment..."`, "key"},
		{"http://h:1/v1", 403, `{"error":{"message":"not for this project"}}`, llm.ErrAuth, "the key was refused", ""},
		{"http://h:1/v1", 502, "<html><head><title>502 Bad Gateway</title></head></html>", llm.ErrUnavailable, `the page "502 Bad Gateway"`, "<html"},
		{"http://h:1/v1", 502, "<HTML><body>down</body></HTML>", llm.ErrUnavailable, "an HTML page", "down"},
	} {
		m := served(t, func(r *http.Request) (*http.Response, error) {
			resp := reply(c.status, "", strings.NewReader(c.body))
			return resp, nil
		}, func(cfg *openai.Config) { cfg.BaseURL = c.base })
		_, err := llm.Collect(m.Stream(t.Context(), earlier), nil)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || c.not != "" && strings.Contains(err.Error(), c.not) {
			t.Errorf("%s %d %s:\n%v\nwant %v with %q, without %q", c.base, c.status, c.body, err, c.kind, c.says, c.not)
		}
	}
}

func TestShortKeysAreNotTakenOutOfWords(t *testing.T) {
	m := served(t, func(*http.Request) (*http.Response, error) {
		return reply(429, "", strings.NewReader(`{"error":{"message":"check your tokens"}}`)), nil
	}, func(c *openai.Config) { c.Key = llm.NewSecret("k") })
	if _, err := llm.Collect(m.Stream(t.Context(), earlier), nil); err == nil || !strings.Contains(err.Error(), "check your tokens") {
		t.Errorf("error = %v", err)
	}
}

func TestRetryEndsAfterFirstChunk(t *testing.T) {
	const piece = `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n"
	for name, c := range map[string]struct {
		body  string
		asked int
	}{
		"cut after text":           {piece, 1},
		"an error after text":      {piece + `data: {"error":{"message":"busy","code":503}}` + "\n\n", 1},
		"a thought is something":   {`data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}` + "\n\n", 1},
		"no events":                {": hello\n\n", 1},
		"an error before any":      {`data: {"error":{"message":"busy","code":503}}` + "\n\n", 3},
		"a JSON error":             {`{"error":{"message":"busy","code":429}}`, 3},
		"cut before any":           {"data: {}\n\n", 3},
		"an error that stays":      {`data: {"error":{"message":"no","code":400}}` + "\n\n", 1},
		"too many, and none left":  {`data: {"error":{"message":"exceeded your current quota","code":429}}` + "\n\n", 1},
		"a refusal of the content": {`data: {"error":{"message":"no","code":"content_filter"}}` + "\n\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked, told := 0, 0
				m := served(t, func(*http.Request) (*http.Response, error) {
					asked++
					return reply(200, "", strings.NewReader(c.body)), nil
				})
				_, err := llm.Collect(retry.New(retry.Config{Patience: 1500 * time.Millisecond}, m).Stream(t.Context(), earlier), func(c llm.Chunk) {
					if c.Retry != nil {
						told++
						if c.Retry.Attempt != told || c.Retry.Model != "openai:m" || c.Retry.Wait <= 0 || c.Retry.Err == nil {
							t.Errorf("told %+v as number %d", *c.Retry, told)
						}
					}
				})
				if err == nil || asked != c.asked || told != c.asked-1 {
					t.Errorf("%v after %d requests, %d told, want an error after %d", err, asked, told, c.asked)
				}
			})
		})
	}
}

func TestStreamOptionsAreLeftOutForAServerThatRefusesThem(t *testing.T) {
	var with []bool
	m := served(t, func(r *http.Request) (*http.Response, error) {
		b, _ := io.ReadAll(r.Body)
		had := bytes.Contains(b, []byte("stream_options"))
		with = append(with, had)
		if had {
			return reply(422, "", strings.NewReader(`{"detail":"stream_options: extra fields not permitted"}`)), nil
		}
		return reply(200, "", strings.NewReader(whole)), nil
	})
	for range 2 {
		if _, err := llm.Collect(m.Stream(t.Context(), earlier), nil); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]bool{true, false, false}, with); d != "" {
		t.Errorf("stream_options sent (-want +got):\n%s", d)
	}
}

func TestRequestsRefusedAtOnceAreAllRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := served(t, func(r *http.Request) (*http.Response, error) {
			b, _ := io.ReadAll(r.Body)
			time.Sleep(time.Second) // all first requests are sent before the first is refused
			if bytes.Contains(b, []byte("stream_options")) {
				return reply(422, "", strings.NewReader(`{"detail":"stream_options: extra fields not permitted"}`)), nil
			}
			return reply(200, "", strings.NewReader(whole)), nil
		})
		var asking sync.WaitGroup
		defer asking.Wait()
		for range 4 {
			asking.Go(func() {
				if _, err := llm.Collect(m.Stream(t.Context(), earlier), nil); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// closing is a body that notes that it was closed.
type closing struct {
	io.Reader
	closed *int
}

func (c closing) Close() error { *c.closed++; return nil }

func TestEveryAnswerIsClosed(t *testing.T) {
	for status, body := range map[int]string{200: whole, 401: "no", 503: "busy"} {
		closed := 0
		m := served(t, func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: closing{strings.NewReader(body), &closed}}, nil
		})
		_, _ = llm.Collect(m.Stream(t.Context(), earlier), nil)
		if closed == 0 {
			t.Errorf("the answer with status %d was not closed", status)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	asked := 0
	m := served(t, func(*http.Request) (*http.Response, error) {
		asked++
		resp := reply(307, "", strings.NewReader(""))
		resp.Header.Set("Location", "https://evil.example/v1?x=1")
		return resp, nil
	})
	_, err := llm.Collect(m.Stream(t.Context(), earlier), nil)
	if asked != 1 || !errors.Is(err, llm.ErrInvalid) || !strings.Contains(err.Error(), "https://evil.example;") {
		t.Errorf("%v after %d requests, want one that names the other server after 1", err, asked)
	}
}

func TestStoppingTheIterationEndsTheRequest(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"x"}}]}`+"\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(ended)
	}))
	defer server.Close()
	m := served(t, nil, func(c *openai.Config) { c.BaseURL, c.HTTP = server.URL, server.Client() })
	for range m.Stream(t.Context(), earlier) {
		break
	}
	waittest.Closed(t, "the end of the request after its reader has stopped", ended)
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	conns := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conns[r.RemoteAddr] = true
		_, _ = io.WriteString(w, whole)
	}))
	defer server.Close()
	m := served(t, nil, func(c *openai.Config) { c.BaseURL, c.HTTP = server.URL, server.Client() })
	for range 5 {
		if _, err := llm.Collect(m.Stream(t.Context(), earlier), nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(conns) != 1 {
		t.Errorf("5 requests used %d connections, want 1", len(conns))
	}
}

func TestKeyIsInNoErrorAndNoLog(t *testing.T) {
	var log bytes.Buffer
	var said []string
	for _, f := range []roundTrip{
		func(*http.Request) (*http.Response, error) { return nil, errors.New("proxy says: " + key) },
		func(*http.Request) (*http.Response, error) {
			return reply(401, "", strings.NewReader(`{"error":"wrong key `+key+`"}`)), nil
		},
		func(*http.Request) (*http.Response, error) { return reply(500, "", strings.NewReader(key)), nil },
		func(*http.Request) (*http.Response, error) {
			return reply(200, "", strings.NewReader("data: "+key+"\n\n")), nil
		},
		func(*http.Request) (*http.Response, error) {
			return reply(200, "", strings.NewReader(`data: {"error":"`+key+`"}`)), nil
		},
	} {
		m := served(t, f, func(c *openai.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			c.BaseURL = "http://models.example/v1"
		})
		logged := retry.Config{Patience: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		var err error
		synctest.Test(t, func(t *testing.T) {
			_, err = llm.Collect(retry.New(logged, m).Stream(t.Context(), earlier), nil)
		})
		said = append(said, fmt.Sprintf("%v %+v %#v", err, m, m))
		if err == nil {
			t.Error("no error")
		}
	}
	all := log.String() + strings.Join(said, "\n")
	if strings.Contains(all, key) {
		t.Errorf("the key shows in:\n%s", all)
	}
	for _, want := range []string{"model request repeated", "model answered", "sent unencrypted"} {
		if !strings.Contains(all, want) {
			t.Errorf("the log does not say %q", want)
		}
	}
}

func TestNewRefusesSettingsThatCannotWork(t *testing.T) {
	for _, c := range []struct {
		want string
		cfg  openai.Config
	}{
		{"no model named", openai.Config{}},
		{"must look like", openai.Config{Model: "m", BaseURL: "127.0.0.1:11434"}},
		{"must look like", openai.Config{Model: "m", BaseURL: "ftp://x/v1"}},
		{"must look like", openai.Config{Model: "m", BaseURL: "http:///v1"}},
		{"must look like", openai.Config{Model: "m", BaseURL: "http://x/%zz?secret"}},
		{"user or password", openai.Config{Model: "m", BaseURL: "http://u:secret@x/v1"}},
		{"cannot be in a key", openai.Config{Model: "m", Key: llm.NewSecret("secret\nX: y")}},
	} {
		_, err := openai.New(c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("error = %v, want one with %q and without the secret", err, c.want)
		}
	}
}

func TestModelsAreListed(t *testing.T) {
	m := func(body string, status int) ([]string, error) {
		return openai.Models(t.Context(), openai.Config{BaseURL: "http://127.0.0.1:1",
			HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path != "/v1/models" || r.Method != http.MethodGet {
					t.Errorf("asked %s %s", r.Method, r.URL.Path)
				}
				return reply(status, "", strings.NewReader(body)), nil
			})}})
	}
	got, err := m(`{"object":"list","data":[{"id":"b"},{"id":""},{"id":"a"}]}`, 200)
	if d := cmp.Diff([]string{"b", "a"}, got); d != "" || err != nil {
		t.Errorf("models: %v (-want +got):\n%s", err, d)
	}
	if _, err := m(`nope`, 200); !errors.Is(err, llm.ErrMalformed) {
		t.Errorf("error = %v, want malformed", err)
	}
	if _, err := m(`nope`, 401); !errors.Is(err, llm.ErrAuth) {
		t.Errorf("error = %v, want auth", err)
	}
}
