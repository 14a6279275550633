//go:build system && linux

package models_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/anthropic"
	"symbio/internal/agent/llm/openai"
	"symbio/internal/agent/llm/replay"
	"symbio/internal/agent/llm/retry"
	"symbio/internal/agent/llm/wire"
)

const fixtures = `{"fixtures": [
	{"match": {"userMessage": "weather in Oslo", "hasToolResult": false}, "response": {"content": "I look.", "toolCalls": [
		{"name": "weather", "arguments": {"city": "Oslo", "unit": "celsius"}}, {"name": "clock", "arguments": {"zone": "Europe/Oslo"}}]}},
	{"match": {"userMessage": "weather in Oslo", "hasToolResult": true}, "response": {"content": "It is -3 °C in Oslo, and nobody is surprised."}},
	{"match": {"userMessage": "think about Oslo"}, "response": {"content": "Cold.", "reasoning": "Norway is in the north."}},
	{"match": {"userMessage": "capital of Norway"}, "response": {"content": "{\"city\":\"Oslo\"}"}}
]}`

// roundTrip is a transport that is a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// models are the three wires at one server; change sets their limits.
func models(t *testing.T, a *aimock, rt http.RoundTripper, change func(*wire.Config)) map[string]llm.Model {
	t.Helper()
	cfg := wire.Config{BaseURL: a.BaseURL, Model: "gpt-4o", Key: llm.NewSecret("sk-test")}
	if rt != nil {
		cfg.HTTP = &http.Client{Transport: rt}
	}
	if change != nil {
		change(&cfg)
	}
	o, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Model = "claude-sonnet-4-5"
	c, err := anthropic.New(anthropic.Config{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	// The Responses API is that of OpenAI's own service, whose place the server takes.
	to, err := url.Parse(a.BaseURL)
	if err != nil {
		t.Fatal(err)
	}
	if rt == nil {
		rt = http.DefaultTransport
	}
	cfg.BaseURL, cfg.Model, cfg.HTTP = "", "gpt-5", &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.URL.Scheme, r.URL.Host = to.Scheme, to.Host
		return rt.RoundTrip(r)
	})}
	r, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]llm.Model{"openai": o, "anthropic": c, "responses": r}
}

var oslo = llm.Request{
	System:   "be brief",
	Messages: []llm.Message{{Role: llm.User, Text: "What is the weather in Oslo?"}},
	Tools:    []llm.ToolSpec{{Name: "weather", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "clock"}},
}

// talk asks about Oslo, gives the results of the calls, and returns the calls and the answer.
func talk(ctx context.Context, m llm.Model) (calls []string, answer string, err error) {
	got, err := llm.Collect(m.Stream(ctx, oslo), nil)
	if err != nil {
		return nil, "", err
	}
	results := llm.Message{Role: llm.Tool}
	for _, c := range got.Message.Calls {
		calls = append(calls, c.Name+" "+string(c.Args))
		results.Results = append(results.Results, llm.ToolResult{CallID: c.ID, Name: c.Name, Text: "-3 °C", IsError: c.Name == "clock"})
	}
	r := oslo
	r.Messages = append(r.Messages[:1:1], got.Message, results)
	end, err := llm.Collect(m.Stream(ctx, r), nil)
	return calls, end.Message.Text, err
}

func checkTalk(t *testing.T, name string, m llm.Model) {
	t.Helper()
	calls, answer, err := talk(t.Context(), m)
	if d := cmp.Diff([]string{`weather {"city":"Oslo","unit":"celsius"}`, `clock {"zone":"Europe/Oslo"}`}, calls); d != "" || err != nil {
		t.Errorf("%s: %v, calls (-want +got):\n%s", name, err, d)
	}
	if want := "It is -3 °C in Oslo, and nobody is surprised."; answer != want {
		t.Errorf("%s: answer = %q, want %q", name, answer, want)
	}
}

// TestAimockTalksAllWires has the same conversation over the three wires with a server that nobody here wrote, with calls
// beside each other; and again out of a recording, when the server is gone.
func TestAimockTalksAllWires(t *testing.T) {
	mock := startAimock(t, fixtures, "--chunk-size", "7")
	dir := t.TempDir()
	rec, err := replay.Record(dir, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range models(t, mock, rec, nil) {
		checkTalk(t, name, m)
		think := llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "think about Oslo"}}, Thinking: 2000}
		thought := ""
		got, err := llm.Collect(m.Stream(t.Context(), think), func(c llm.Chunk) { thought += c.Thought })
		if err != nil || got.Message.Text != "Cold." || name != "openai" && thought != "Norway is in the north." {
			t.Errorf("%s: thought %q, said %q, %v", name, thought, got.Message.Text, err)
		}
	}
	type place struct {
		City string `json:"city"`
	}
	if got, err := llm.Generate[place](t.Context(), models(t, mock, rec, nil)["openai"], "What is the capital of Norway?"); err != nil || got.City != "Oslo" {
		t.Errorf("a value: %+v, %v", got, err)
	}
	if n, err := rec.Close(); n != 10 || err != nil {
		t.Errorf("%d exchanges recorded, %v; want 10", n, err)
	}
	paths := map[string]int{}
	for _, r := range mock.Journal() {
		paths[r.Path]++
	}
	if d := cmp.Diff(map[string]int{"/v1/chat/completions": 4, "/v1/messages": 3, "/v1/responses": 3}, paths); d != "" {
		t.Errorf("requests (-want +got):\n%s", d)
	}
	p, err := replay.Play(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range models(t, &aimock{BaseURL: "http://127.0.0.1:1/v1"}, p, nil) {
		checkTalk(t, name+", played", m)
	}
}

// TestNoFaultOfAServerHangs lets aimock do each of the things that it can do wrong.
func TestNoFaultOfAServerHangs(t *testing.T) {
	for _, c := range []struct {
		name   string
		flags  []string
		change func(*wire.Config)
		want   []error // one of them; none = it works
		asked  int     // over the three wires, where it is known
	}{
		{"each request fails", []string{"--chaos-drop", "1"}, nil, []error{llm.ErrUnavailable}, 3},
		{"each answer is malformed", []string{"--chaos-malformed", "1"}, nil, []error{llm.ErrMalformed, llm.ErrCut}, 0},
		{"each connection breaks", []string{"--chaos-disconnect", "1"}, nil, []error{llm.ErrUnavailable, llm.ErrCut}, 0},
		{"each is one too many", []string{"--chaos-ratelimit", "1"}, nil, []error{llm.ErrRateLimited}, 0},
		{"each takes its time", []string{"--chaos-latency", "50"}, nil, nil, 0},
		{"each takes too long", []string{"--chaos-latency", "20000"}, func(c *wire.Config) { c.FirstToken = 200 * time.Millisecond }, []error{llm.ErrTimeout}, 0},
		{"each piece takes too long", []string{"--latency", "900", "--chunk-size", "3"}, func(c *wire.Config) { c.Stall = 300 * time.Millisecond }, []error{llm.ErrTimeout}, 0},
		{"every other fails", []string{"--chaos-drop", "0.3", "--chaos-disconnect", "0.2"}, nil, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mock := startAimock(t, fixtures, c.flags...)
			for name, m := range models(t, mock, nil, c.change) {
				if len(c.want) == 0 {
					m = retry.New(retry.Config{BackOff: time.Millisecond, MaxBackOff: 50 * time.Millisecond}, m)
				}
				_, answer, err := talk(t.Context(), m)
				if len(c.want) == 0 && (err != nil || !strings.HasPrefix(answer, "It is -3")) {
					t.Errorf("%s: %q, %v; want an answer", name, answer, err)
				}
				if len(c.want) == 0 {
					continue
				}
				one := false
				for _, want := range c.want {
					one = one || errors.Is(err, want)
				}
				var e *llm.Error
				if !one || !errors.As(err, &e) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: %v, want one of %v on one line", name, err, c.want)
				}
				t.Logf("%s: %v", name, err)
			}
			if n := len(mock.Journal()); c.asked > 0 && n != c.asked {
				t.Errorf("the server was asked %d times, want %d", n, c.asked)
			}
		})
	}
}
