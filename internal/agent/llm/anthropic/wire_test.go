package anthropic_test

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
	"symbio/internal/agent/llm/anthropic"
	"symbio/internal/agent/llm/wire"
)

const key = "sk-ant-test-key"

// roundTrip is a server without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reply is an answer of such a server.
func reply(status int, kind string, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(body)}
}

// earlier is a conversation.
var earlier = llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hello"}}}

// served returns a model whose server is s. It never repeats a request.
func served(t testing.TB, s roundTrip, change ...func(*anthropic.Config)) *anthropic.Model {
	t.Helper()
	cfg := anthropic.Config{Config: wire.Config{
		BaseURL: "http://127.0.0.1:1", Model: "m", Key: llm.NewSecret(key), KeyName: "ANTHROPIC_API_KEY", HTTP: &http.Client{Transport: s},
	}}
	for _, c := range change {
		c(&cfg)
	}
	m, err := anthropic.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sent returns the body that a request is sent with.
func sent(t *testing.T, r llm.Request, change ...func(*anthropic.Config)) string {
	t.Helper()
	var body []byte
	m := served(t, func(r *http.Request) (*http.Response, error) {
		body, _ = io.ReadAll(r.Body)
		if r.URL.Path != "/v1/messages" || r.Header.Get("X-Api-Key") != key || r.Header.Get("Anthropic-Version") != "2023-06-01" || r.Header.Get("Authorization") != "" {
			t.Errorf("asked %s with %v", r.URL, r.Header)
		}
		return reply(401, "", strings.NewReader("")), nil
	}, change...)
	_, err := llm.Collect(m.Stream(t.Context(), r), nil)
	if err == nil || !strings.Contains(err.Error(), "check ANTHROPIC_API_KEY") || strings.Contains(err.Error(), key) {
		t.Errorf("error = %v, want one that names what to set", err)
	}
	return strings.TrimSpace(string(body))
}

var png = []byte("\x89PNG\r\n\x1a\n rest")

func TestRequestIsWrittenAsTheServiceExpectsIt(t *testing.T) {
	got := sent(t, llm.Request{
		System: "be brief <now>",
		Messages: []llm.Message{
			{Role: llm.User, Text: "hi", Images: []llm.Image{{Type: "image/png", Data: png}}},
			{Role: llm.Assistant, Text: "wait", Calls: []llm.ToolCall{{ID: "1", Name: "A", Args: json.RawMessage(`{"a":1}`)}}},
			{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "1", Name: "A", Text: "ok", Images: []llm.Image{{Type: "image/png", Data: png}}}}},
			{Role: llm.Assistant, Calls: []llm.ToolCall{{ID: "functions.A:0", Name: "A b", Args: json.RawMessage(`"{oops"`)}, {ID: "3", Name: "B"}}},
			{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "functions.A:0", Name: "A", Text: "bad", IsError: true, Images: []llm.Image{{Type: "image/png", Data: png}}}, {CallID: "3", Name: "B", Text: ""}}},
			{Role: llm.User, Text: "and be quick"},
			{Role: llm.Assistant, Text: " \n"},
			{Role: llm.User, Text: ""},
		},
		Tools: []llm.ToolSpec{{Name: "A", Description: "does a", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "B"}},
	})
	const image = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgogcmVzdA=="}}`
	want := `{"model":"m","max_tokens":16384,"system":[{"type":"text","text":"be brief <now>","cache_control":{"type":"ephemeral"}}],"messages":[` +
		`{"role":"user","content":[` + image + `,{"type":"text","text":"hi"}]},` +
		`{"role":"assistant","content":[{"type":"text","text":"wait"},{"type":"tool_use","id":"1","name":"A","input":{"a":1}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[` + image + `,{"type":"text","text":"ok"}],"cache_control":{"type":"ephemeral"}}]},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"id_e4727cb4715fd476195d34a9","name":"A_b","input":{"not_an_object":"{oops"}},{"type":"tool_use","id":"3","name":"B","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"id_e4727cb4715fd476195d34a9","content":[{"type":"text","text":"bad\n[A picture that you are not shown: image/png, 13 bytes.]"}],"is_error":true},{"type":"tool_result","tool_use_id":"3"},` +
		`{"type":"text","text":"and be quick"},{"type":"text","text":"(nothing)","cache_control":{"type":"ephemeral"}}]}` +
		`],"tools":[{"name":"A","description":"does a","input_schema":{"type":"object"}},{"name":"B","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}}],"stream":true}`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("body (-want +got):\n%s", d)
	}
	if got := sent(t, llm.Request{Messages: []llm.Message{{Role: llm.Assistant, Text: "so far"}}}); !strings.Contains(got, `"messages":[{"role":"user","content":[{"type":"text","text":"(nothing)","cache_control":{"type":"ephemeral"}}]},{"role":"assistant"`) {
		t.Errorf("a conversation that the model begins: %s", got)
	}
}

func TestThoughtsGoBackToTheModelThatThoughtThem(t *testing.T) {
	call := []llm.ToolCall{{ID: "1", Name: "A"}, {ID: "2", Name: "A"}}
	results := llm.Message{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "1"}, {CallID: "2"}}}
	user := llm.Message{Role: llm.User, Text: "hi"}
	mine := func(t llm.Thinking) llm.Thinking { t.Model = "anthropic:m"; return t }
	first := mine(llm.Thinking{Text: "a", Signature: "s"})
	for _, c := range []struct {
		name     string
		thoughts []llm.Thinking
		want     string // the content of the assistant's message
		thinks   bool
	}{
		{"first", []llm.Thinking{first}, `[{"type":"thinking","thinking":"a","signature":"s"},{"type":"text","text":"Hé"},{"type":"tool_use","id":"1","name":"A","input":{}},{"type":"tool_use","id":"2","name":"A","input":{}}]`, true},
		{"sealed, and where they stood", []llm.Thinking{mine(llm.Thinking{Sealed: "x"}), mine(llm.Thinking{Text: "b", Signature: "t", AfterText: 3, AfterCalls: 1})},
			`[{"type":"redacted_thinking","data":"x"},{"type":"text","text":"Hé"},{"type":"tool_use","id":"1","name":"A","input":{}},{"type":"thinking","thinking":"b","signature":"t"},{"type":"tool_use","id":"2","name":"A","input":{}}]`, true},
		{"places that are not there", []llm.Thinking{first, mine(llm.Thinking{Text: "b", Signature: "t", AfterText: 99, AfterCalls: 99}), mine(llm.Thinking{Signature: "u", AfterText: -1, AfterCalls: -1})},
			`[{"type":"thinking","thinking":"a","signature":"s"},{"type":"text","text":"Hé"},{"type":"tool_use","id":"1","name":"A","input":{}},{"type":"tool_use","id":"2","name":"A","input":{}},{"type":"thinking","thinking":"b","signature":"t"},{"type":"thinking","thinking":"","signature":"u"}]`, true},
		{"one of another model among them", []llm.Thinking{first, {Model: "anthropic:other", Text: "b", Signature: "t"}}, `[{"type":"thinking","thinking":"a","signature":"s"},{"type":"text","text":"Hé"},{"type":"tool_use","id":"1","name":"A","input":{}},{"type":"tool_use","id":"2","name":"A","input":{}}]`, true},
		{"of another model", []llm.Thinking{{Model: "anthropic:other", Text: "a", Signature: "s"}}, `[{"type":"text","text":"Hé"},{"type":"tool_use","id":"1","name":"A","input":{}},{"type":"tool_use","id":"2","name":"A","input":{}}]`, false},
		{"none", nil, `[{"type":"text","text":"Hé"},{"type":"tool_use","id":"1","name":"A","input":{}},{"type":"tool_use","id":"2","name":"A","input":{}}]`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := llm.Request{Messages: []llm.Message{user, {Role: llm.Assistant, Text: "Hé", Calls: call, Thinking: c.thoughts}, results}}
			body := sent(t, r, func(c *anthropic.Config) { c.Thinking, c.MaxTokens = 10, 100 })
			var got struct {
				MaxTokens int `json:"max_tokens"`
				Thinking  *struct {
					Type   string
					Tokens int `json:"budget_tokens"`
				}
				Messages []struct{ Content json.RawMessage }
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, string(got.Messages[1].Content)); d != "" {
				t.Errorf("content (-want +got):\n%s", d)
			}
			// A turn that goes on without a thought at its beginning must not be asked to think: the service refuses it.
			if thinks := got.Thinking != nil; thinks != c.thinks || thinks && (got.Thinking.Tokens != 1024 || got.MaxTokens != 1124) {
				t.Errorf("thinking = %+v of %d tokens, want %v", got.Thinking, got.MaxTokens, c.thinks)
			}
			r.Messages = append(r.Messages, llm.Message{Role: llm.Assistant, Text: "done"}, llm.Message{Role: llm.User, Text: "next"})
			if body := sent(t, r, func(c *anthropic.Config) { c.Thinking = 10 }); !strings.Contains(body, `"budget_tokens":1024`) {
				t.Errorf("a new turn does not think: %s", body)
			}
		})
	}
	r := llm.Request{Messages: []llm.Message{user}, Output: &llm.Output{Name: "x", Schema: json.RawMessage(`{"type":"object"}`)}, Thinking: 5000}
	if body := sent(t, r); strings.Contains(body, "budget_tokens") || !strings.Contains(body, `"tool_choice":{"type":"tool","name":"answer_x"}`) {
		t.Errorf("a form of the answer: %s", body)
	}
	r.Output = nil
	if body := sent(t, r); !strings.Contains(body, `"max_tokens":21384`) || !strings.Contains(body, `"budget_tokens":5000`) {
		t.Errorf("the request's own thinking: %s", body)
	}
}

func TestModelThatWritesLessIsAskedForLess(t *testing.T) {
	for _, c := range []struct {
		thinking, most int
		want           []string // tokens, and of them for thoughts, of each request
	}{
		{0, 4096, []string{"16384 0", "4096 0", "4096 0"}},
		{2000, 4096, []string{"18384 2000", "4096 2000", "4096 2000"}},
		{8000, 4096, []string{"24384 8000", "4096 2048", "4096 2048"}},
		{2000, 1000, []string{"18384 2000", "1000 0", "1000 0"}},
		{2000, 20000, []string{"18384 2000", "18384 2000"}},
		{4000, 20000, []string{"20384 4000", "20000 4000", "20000 4000"}},
	} {
		var asked []string
		m := served(t, func(r *http.Request) (*http.Response, error) {
			var got struct {
				Tokens   int `json:"max_tokens"`
				Thinking struct {
					Tokens int `json:"budget_tokens"`
				}
			}
			if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
				t.Error(err)
			}
			if asked = append(asked, fmt.Sprint(got.Tokens, " ", got.Thinking.Tokens)); got.Tokens > c.most {
				return reply(400, "", strings.NewReader(fmt.Sprintf(`{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: %d > %d, which is the maximum allowed number of output tokens for m"}}`, got.Tokens, c.most))), nil
			}
			return reply(200, "", strings.NewReader(`{"type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"}`)), nil
		}, func(cfg *anthropic.Config) { cfg.Thinking = c.thinking })
		for range 2 {
			if _, err := llm.Collect(m.Stream(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hi"}}}), nil); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(c.want, asked); d != "" {
			t.Errorf("%d of thoughts, at most %d: tokens asked for (-want +got):\n%s", c.thinking, c.most, d)
		}
	}
	stubborn := 0
	m := served(t, func(*http.Request) (*http.Response, error) {
		stubborn++
		return reply(400, "", strings.NewReader(`{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 9 > 5"}}`)), nil
	})
	if _, err := llm.Collect(m.Stream(t.Context(), earlier), nil); !errors.Is(err, llm.ErrInvalid) || stubborn != 2 {
		t.Errorf("a server that is never content: %v after %d requests, want the refusal after 2", err, stubborn)
	}
}

func TestImagesThatCannotBeSentAreNotAskedAbout(t *testing.T) {
	m := served(t, func(*http.Request) (*http.Response, error) {
		t.Error("the server was asked")
		return nil, io.EOF
	})
	for want, images := range map[string][]llm.Image{
		"without data":                 {{Type: "image/png"}},
		"of the type text/plain":       {{Type: "image/png", Data: []byte("hello")}},
		"declared as image/gif has":    {{Type: "image/gif", Data: png}},
		"at most 3840 KiB":             {{Type: "image/png", Data: append(png[:len(png):len(png)], make([]byte, llm.MaxImage)...)}},
		"more than 20 images in one":   make([]llm.Image, 21),
		"png, jpeg, gif and webp can ": {{Type: "image/tiff", Data: []byte("II*\x00abcdef")}},
	} {
		_, err := llm.Collect(m.Stream(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Images: images}}}), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}

func TestImageThatTheServerCannotReadDoesNotEndTheConversation(t *testing.T) {
	var bodies []string
	m := served(t, func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		if len(bodies) == 1 {
			return reply(400, "", strings.NewReader(`{"type":"error","error":{"type":"invalid_request_error","message":"messages.0.content.0.image.source.base64.data: Could not process image"}}`)), err
		}
		return reply(401, "", strings.NewReader("")), err
	})
	_, err := llm.Collect(m.Stream(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hi", Images: []llm.Image{{Type: "image/png", Data: png}}}}}), nil)
	if !errors.Is(err, llm.ErrAuth) || len(bodies) != 2 || strings.Contains(bodies[1], `"base64"`) || !strings.Contains(bodies[1], "hi\\n[A picture that you are not shown: image/png") {
		t.Errorf("%v after %q; want a second request, in words", err, bodies)
	}
}

func TestWhereTheServerIs(t *testing.T) {
	for base, want := range map[string]string{
		"":                              "https://api.anthropic.com/v1/messages",
		"http://127.0.0.1:1/":           "http://127.0.0.1:1/v1/messages",
		"http://127.0.0.1:1/v1/":        "http://127.0.0.1:1/v1/messages",
		"http://127.0.0.1:1/anthropic":  "http://127.0.0.1:1/anthropic/v1/messages",
		"http://127.0.0.1:1/a/v1?x=y#z": "http://127.0.0.1:1/a/v1/messages?x=y",
	} {
		var got string
		m := served(t, func(r *http.Request) (*http.Response, error) {
			got = r.URL.String()
			return reply(401, "", strings.NewReader("")), nil
		}, func(c *anthropic.Config) { c.BaseURL = base })
		_, _ = llm.Collect(m.Stream(t.Context(), earlier), nil)
		if got != want {
			t.Errorf("%q: asked %s, want %s", base, got, want)
		}
	}
	for _, bad := range []anthropic.Config{{}, {Config: wire.Config{Model: "m", BaseURL: "ftp://x"}}, {Config: wire.Config{Model: "m"}, MaxTokens: -1}} {
		if _, err := anthropic.New(bad); err == nil || !strings.HasPrefix(err.Error(), "anthropic: ") {
			t.Errorf("%+v: %v, want an error", bad, err)
		}
	}
}
