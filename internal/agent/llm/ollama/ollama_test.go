package ollama_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/ollama"
	"symbio/internal/agent/llm/wire"
)

func reply(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

const done = `{"message":{"role":"assistant","content":"ok"},"done":true,"done_reason":"stop"}`

// server is an Ollama that says show of its model and answers requests with what answer returns, or ok.
type server struct {
	show   string
	answer func(body string) *http.Response
	shows  int
	bodies []string
	paths  []string
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(r.Body)
	s.paths = append(s.paths, r.URL.Path)
	if strings.HasSuffix(r.URL.Path, "/show") {
		s.shows++
		if s.show == "" {
			return reply(500, ""), err
		}
		return reply(200, s.show), err
	}
	s.bodies = append(s.bodies, strings.TrimSpace(string(b)))
	if s.answer != nil {
		if resp := s.answer(string(b)); resp != nil {
			return resp, err
		}
	}
	return reply(200, done), err
}

func model(t *testing.T, s *server, change ...func(*ollama.Config)) *ollama.Model {
	t.Helper()
	cfg := ollama.Config{Config: wire.Config{Model: "qwen3:8b", HTTP: &http.Client{Transport: s}}}
	for _, c := range change {
		c(&cfg)
	}
	m, err := ollama.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var png = []byte("\x89PNG\r\n\x1a\n rest")

func TestRequestIsWrittenAsOllamaExpectsIt(t *testing.T) {
	s := &server{show: `{"capabilities":["completion","vision"],"parameters":"stop \"x\"\nnum_ctx                        8192","model_info":{"qwen3.context_length":40960}}`}
	m := model(t, s)
	_, err := llm.Collect(m.Stream(t.Context(), llm.Request{
		System: "be brief <now>", MaxTokens: 100, Effort: "high", Output: &llm.Output{Name: "x", Schema: json.RawMessage(`{"type":"object"}`)},
		Messages: []llm.Message{
			{Role: llm.User, Text: "hi", Images: []llm.Image{{Type: "image/png", Data: png}}},
			{Role: llm.Assistant, Text: "wait", Calls: []llm.ToolCall{{ID: "1", Name: "A", Args: json.RawMessage(`{"a":1}`)}}, Thinking: []llm.Thinking{{Model: "ollama:qwen3:8b", Text: "hm"}, {Model: "other", Text: "no"}}},
			{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "1", Name: "A", Text: "bad", IsError: true}}},
		},
		Tools: []llm.ToolSpec{{Name: "A", Description: "does a"}},
	}), nil)
	want := `{"model":"qwen3:8b","messages":[{"role":"system","content":"be brief <now>"},{"role":"user","content":"hi","images":["iVBORw0KGgogcmVzdA=="]},` +
		`{"role":"assistant","content":"wait","thinking":"hm","tool_calls":[{"id":"1","function":{"name":"A","arguments":{"a":1}}}]},` +
		`{"role":"tool","content":"error: bad","tool_name":"A","tool_call_id":"1"}],"tools":[{"type":"function","function":{"name":"A","description":"does a","parameters":{"type":"object","properties":{}}}}],` +
		`"format":{"type":"object"},"think":"high","options":{"num_ctx":8192,"num_predict":100},"stream":true,"truncate":false,"shift":false}`
	if d := cmp.Diff([]string{want}, s.bodies); d != "" || err != nil {
		t.Errorf("%v, body (-want +got):\n%s", err, d)
	}
	if d := cmp.Diff([]string{"/api/show", "/api/chat"}, s.paths); d != "" {
		t.Errorf("paths (-want +got):\n%s", d)
	}
}

func TestWindowComesFromConfigurationOrModel(t *testing.T) {
	for _, c := range []struct {
		name, show string
		configured int
		want       int
		sent       string
	}{
		{"configured", `{"model_info":{"a.context_length":4096}}`, 65536, 65536, `"num_ctx":65536`},
		{"small model", `{"model_info":{"a.context_length":4096,"b":[1]}}`, 0, 4096, `"num_ctx":4096`},
		{"large model", `{"model_info":{"a.context_length":1e6}}`, 0, ollama.MaxWindow, `"num_ctx":32768`},
		{"made with a window", `{"parameters":"num_ctx 16384","model_info":{"a.context_length":1e6}}`, 0, 16384, `"num_ctx":16384`},
		{"says nothing", `{}`, 0, 0, `"options":{}`},
		{"says something else", `[]`, 0, 0, `"options":{}`},
		{"silent", ``, 0, 0, `"options":{}`},
	} {
		s := &server{show: c.show}
		m := model(t, s, func(cfg *ollama.Config) { cfg.Window = c.configured })
		if got := llm.WindowOf(llm.TextOnly(m)); got != c.want {
			t.Errorf("%s: window %d, want %d", c.name, got, c.want)
		}
		for range 2 {
			if _, err := llm.Collect(m.Stream(t.Context(), llm.Request{}), nil); err != nil || !strings.Contains(s.bodies[0], c.sent) {
				t.Errorf("%s: %v, %s; want %s", c.name, err, s.bodies, c.sent)
			}
		}
		if s.shows != 1 {
			t.Errorf("%s: asked %d times about the model", c.name, s.shows)
		}
	}
}

func TestRefusedThinkingIsNotAskedForAgain(t *testing.T) {
	noLevels := func(body string) *http.Response {
		if strings.Contains(body, `"think":"`) {
			return reply(400, `{"error":"think value \"high\" is not supported for this model"}`)
		}
		return nil
	}
	none := func(body string) *http.Response {
		if strings.Contains(body, `"think":"`) || strings.Contains(body, `"think":true`) {
			return reply(400, `{"error":"\"qwen3:8b\" does not support thinking"}`)
		}
		return nil
	}
	for _, c := range []struct {
		name   string
		r      llm.Request
		answer func(string) *http.Response
		want   string
	}{
		{"level", llm.Request{Effort: "high"}, nil, `"high" "high"`},
		{"level of a number", llm.Request{Thinking: 1000}, nil, `"low" "low"`},
		{"no levels", llm.Request{Effort: "high"}, noLevels, `"high" true true`},
		{"no thoughts", llm.Request{Effort: "high"}, none, `"high" - -`},
		{"off", llm.Request{Thinking: -1, Effort: "high"}, none, `false false`},
		{"not asked for", llm.Request{}, none, `- -`},
	} {
		s := &server{show: "{}", answer: c.answer}
		m := model(t, s)
		for range 2 {
			if _, err := llm.Collect(m.Stream(t.Context(), c.r), nil); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		var got []string
		for _, b := range s.bodies {
			_, think, ok := strings.Cut(b, `"think":`)
			if think, _, _ = strings.Cut(think, ","); !ok {
				think = "-"
			}
			got = append(got, think)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: think %s, want %s", c.name, got, c.want)
		}
	}
}

func TestPicturesAreDescribedToModelWithoutVision(t *testing.T) {
	r := llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hi", Images: []llm.Image{{Type: "image/png", Data: png}}}}}
	refuse := func(body string) *http.Response {
		if strings.Contains(body, `"images"`) {
			return reply(500, `{"error":"Failed to create new sequence: failed to process inputs: this model is missing data required for image input"}`)
		}
		return nil
	}
	for show, asked := range map[string]int{`{"capabilities":["completion","tools"]}`: 1, `{}`: 2, `{"capabilities":["vision"]}`: 2} {
		s := &server{show: show, answer: refuse}
		_, err := llm.Collect(model(t, s).Stream(t.Context(), r), nil)
		if last := s.bodies[len(s.bodies)-1]; err != nil || len(s.bodies) != asked || !strings.Contains(last, "not shown: image/png") {
			t.Errorf("%s: %v after %s", show, err, s.bodies)
		}
	}
}

func TestRequestLargerThanWindowIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	m := model(t, &server{show: "{}"}, func(c *ollama.Config) {
		c.Window, c.Logger = 4096, slog.New(slog.NewTextHandler(&log, nil))
	})
	for _, size := range []int{1000, 20_000, 20_000} {
		if _, err := llm.Collect(m.Stream(t.Context(), llm.Request{System: strings.Repeat("word ", size/5)}), nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(log.String(), "larger than the model's context window"); got != 1 || !strings.Contains(log.String(), "tokens=5000 window=4096") {
		t.Errorf("log: %s", log.String())
	}
}

func TestWhereOllamaIs(t *testing.T) {
	for base, want := range map[string]string{"": "/api/chat", "http://127.0.0.1:1/v1": "/api/chat", "http://127.0.0.1:1/api/": "/api/chat", "http://127.0.0.1:1/box/": "/box/api/chat"} {
		s := &server{show: "{}"}
		_, _ = llm.Collect(model(t, s, func(c *ollama.Config) { c.BaseURL = base }).Stream(t.Context(), llm.Request{}), nil)
		if got := s.paths[len(s.paths)-1]; got != want {
			t.Errorf("%q: asked %s, want %s", base, got, want)
		}
	}
	for _, bad := range []ollama.Config{{}, {Config: wire.Config{Model: "m", BaseURL: "ftp://x"}}, {Config: wire.Config{Model: "m"}, Window: -1}} {
		if _, err := ollama.New(bad); err == nil || !strings.HasPrefix(err.Error(), "ollama: ") {
			t.Errorf("%+v: %v, want an error", bad, err)
		}
	}
}
