package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/openai"
)

const key = "sk-test-key"

// roundTrip is a server without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reply is an answer of such a server.
func reply(status int, kind string, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(body)}
}

// earlier is a conversation.
var earlier = llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hello"}}}

// served returns a model whose server is f.
func served(t testing.TB, f roundTrip, change ...func(*openai.Config)) *openai.Model {
	t.Helper()
	cfg := openai.Config{
		BaseURL: "http://127.0.0.1:1/v1", Model: "m", Key: llm.NewSecret(key), HTTP: &http.Client{Transport: f},
	}
	for _, c := range change {
		c(&cfg)
	}
	m, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestLongLinesAreRead(t *testing.T) {
	long := strings.Repeat("é", 300_000)
	m := served(t, func(*http.Request) (*http.Response, error) {
		return reply(200, "text/event-stream", strings.NewReader(`data: {"choices":[{"delta":{"content":"`+long+`"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")), nil
	})
	got, err := llm.Collect(m.Stream(t.Context(), earlier), nil)
	if err != nil || got.Message.Text != long {
		t.Errorf("got %d bytes, %v; want %d", len(got.Message.Text), err, len(long))
	}
}

func TestEndlessAnswersAreRefused(t *testing.T) {
	event := `data: {"choices":[{"delta":{"content":"` + strings.Repeat("x", 1<<20) + `"}}]}` + "\n\n"
	calls := `data: {"choices":[{"delta":{"tool_calls":[{"id":"` + "%d" + `","function":{"name":"x","arguments":"{}"}}]}}]}` + "\n\n"
	n := 0
	for name, in := range map[string]io.Reader{
		"one line":    repeated(func() string { return "data: " + strings.Repeat("x", 1<<20) }),
		"many events": repeated(func() string { return event }),
		"many calls":  repeated(func() string { n++; return fmt.Sprintf(calls, n) }),
		"a document": io.MultiReader(strings.NewReader(`{"choices":[{"message":{"content":"`),
			repeated(func() string { return strings.Repeat("x", 1<<20) })),
		"an error page": nil,
	} {
		status := 200
		if in == nil {
			in, status = repeated(func() string { return strings.Repeat("<br>", 1000) }), 400
		}
		m := served(t, func(*http.Request) (*http.Response, error) { return reply(status, "", in), nil })
		want := llm.ErrMalformed
		if status != 200 {
			want = llm.ErrInvalid
		}
		if _, err := llm.Collect(m.Stream(t.Context(), earlier), nil); !errors.Is(err, want) || len(err.Error()) > 2000 {
			t.Errorf("%s: error = %.200v, want %v", name, err, want)
		}
	}
}

// endless is a reader without an end.
type endless struct {
	more func() string
	rest string
}

func repeated(more func() string) io.Reader { return &endless{more: more} }

func (e *endless) Read(p []byte) (int, error) {
	if e.rest == "" {
		e.rest = e.more()
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func TestRequestIsWrittenAsServersExpectIt(t *testing.T) {
	var body []byte
	var header http.Header
	var url string
	m := served(t, func(r *http.Request) (*http.Response, error) {
		body, _ = io.ReadAll(r.Body)
		header, url = r.Header, r.URL.String()
		return reply(401, "", strings.NewReader("")), nil
	}, func(c *openai.Config) { c.BaseURL = "http://127.0.0.1:11434/" })
	_, _ = llm.Collect(m.Stream(t.Context(), llm.Request{
		System: "be brief <now>",
		Messages: []llm.Message{
			{Role: llm.User, Text: "hi"},
			{Role: llm.Assistant, Text: "wait", Calls: []llm.ToolCall{{ID: "1", Name: "A", Args: json.RawMessage(`{"a":1}`)}}},
			{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "1", Name: "A", Text: "ok"}}},
			{Role: llm.Assistant, Calls: []llm.ToolCall{{ID: "2", Name: "A", Args: json.RawMessage(`"{oops"`)}, {ID: "3", Name: "B"}}},
			{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "2", Name: "A", Text: "bad", IsError: true}, {CallID: "3", Name: "B", Text: ""}}},
			{Role: llm.Assistant},
		},
		Tools: []llm.ToolSpec{{Name: "A", Description: "does a", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "B"}},
	}), nil)
	want := `{"model":"m","messages":[` +
		`{"role":"system","content":"be brief <now>"},` +
		`{"role":"user","content":"hi"},` +
		`{"role":"assistant","content":"wait","tool_calls":[{"id":"1","type":"function","function":{"name":"A","arguments":"{\"a\":1}"}}]},` +
		`{"role":"tool","content":"ok","tool_call_id":"1"},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"2","type":"function","function":{"name":"A","arguments":"{\"not_an_object\":\"{oops\"}"}},{"id":"3","type":"function","function":{"name":"B","arguments":"{}"}}]},` +
		`{"role":"tool","content":"error: bad","tool_call_id":"2"},` +
		`{"role":"tool","content":"","tool_call_id":"3"},` +
		`{"role":"assistant","content":""}` +
		`],"tools":[{"type":"function","function":{"name":"A","description":"does a","parameters":{"type":"object"}}},` +
		`{"type":"function","function":{"name":"B","parameters":{"type":"object","properties":{}}}}],` +
		`"stream":true,"stream_options":{"include_usage":true}}` + "\n"
	if d := cmp.Diff(want, string(body)); d != "" {
		t.Errorf("body (-want +got):\n%s", d)
	}
	if url != "http://127.0.0.1:11434/v1/chat/completions" {
		t.Errorf("url = %s", url)
	}
	if got := header.Get("Authorization"); got != "Bearer "+key {
		t.Errorf("authorization = %q", got)
	}
}
