package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/chat"
)

// earlier is a conversation with two calls in it.
var earlier = llm.Request{Messages: []llm.Message{
	{Role: llm.User, Text: "hello"},
	{Role: llm.Assistant, Calls: []llm.ToolCall{{ID: "old", Name: "A"}, {ID: "c2", Name: "A"}}},
	{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "old", Name: "A"}, {CallID: "c2", Name: "A"}}},
}}

// node is a provider that answers with a model, and hands its output over in pieces of a few bytes.
func node(name string, m llm.Model, listens bool) chat.Provider {
	return chat.Provider{Node: name, Model: "m", Call: func(ctx context.Context, data []byte, heard func([]byte)) ([]byte, error) {
		return chat.Serve(ctx, m, data, func(line []byte) error {
			for piece := range slices.Chunk(line, 5) {
				if listens {
					heard(piece)
				}
			}
			return ctx.Err()
		})
	}}
}

func use(t *testing.T, providers ...chat.Provider) llm.Model {
	t.Helper()
	return chat.New(chat.Config{Name: "peer:m", Find: func() []chat.Provider { return providers }})
}

func TestWholeRequestArrives(t *testing.T) {
	cost := 0.25
	want := llm.Request{
		System: "s", Thinking: 7, Effort: "low", Temperature: new(0.0), StopWords: []string{"END"}, ToolChoice: "B",
		Output: &llm.Output{Name: "x", Schema: json.RawMessage(`{"type":"object"}`)},
		Messages: []llm.Message{
			{Role: llm.User, Text: "hi", Images: []llm.Image{{Type: "image/png", Data: []byte{0, 1, 255}}}},
			{Role: llm.Assistant, Text: "a", Calls: []llm.ToolCall{{ID: "1", Name: "A", Args: json.RawMessage(`{"a":1}`)}}, Thinking: []llm.Thinking{
				{Model: "peer:m x", Text: "t", Signature: "s", AfterText: 1}, {Model: "peer:m x", Sealed: "z", AfterCalls: 1},
				{Model: "peer:m x", Raw: json.RawMessage(`{"extra_content":{"a":"b"}}`), CallID: "1"}, {Model: "x", Text: "of another model"}}},
			{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "1", Name: "A", Text: "r", IsError: true,
				Images: []llm.Image{{Type: "image/gif", Data: []byte{7}}}}}},
		},
		Tools: []llm.ToolSpec{{Name: "A", Description: "d", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "B"}},
	}
	answer := llm.Response{
		Message: llm.Message{Role: llm.Assistant, Text: "ok", Thinking: []llm.Thinking{{Model: "x", Text: "u", Signature: "v", AfterText: 2}}},
		Usage:   llm.Usage{Input: 3, Output: 4, CacheRead: 1, CacheWrite: 1, Cost: &cost}, Stop: llm.StopEnd,
	}
	input, output, err := chat.Schemas([]string{"m", "openai:m"})
	if err != nil {
		t.Fatal(err)
	}
	var got llm.Request
	provider := node("a", thinking(func(_ context.Context, r llm.Request) (llm.Response, error) { got = r; return answer, nil }), true)
	call := provider.Call
	provider.Call = func(ctx context.Context, data []byte, heard func([]byte)) ([]byte, error) {
		fits(t, input, data)
		reply, err := call(ctx, data, heard)
		fits(t, output, reply)
		return reply, err
	}
	back, err := llm.Collect(use(t, provider).Stream(t.Context(), want), nil)
	if err != nil {
		t.Fatal(err)
	}
	thoughts := want.Messages[1].Thinking[:3:3] // of this model alone, by the name that it has there
	for i := range thoughts {
		thoughts[i].Model = "x"
	}
	want.Messages[1].Thinking = thoughts
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("request (-want +got):\n%s", d)
	}
	answer.Message.Thinking[0].Model = "peer:m x"
	if d := cmp.Diff(answer, back); d != "" {
		t.Errorf("answer (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"m", "openai:m"}, chat.Offered(input)); d != "" {
		t.Errorf("offered (-want +got):\n%s", d)
	}
	if len(input) > 16<<10 || len(output) > 16<<10 {
		t.Errorf("the schemas have %d and %d bytes; a node may announce 16 KiB", len(input), len(output))
	}
	for _, bad := range []string{`{}`, `{"messages":[]}`, `{"messages":[{"role":"system"}]}`, `{"messages":[{"role":"user"}],"model":"other"}`, `{"messages":[{"role":"user"}],"temperature":3}`, `{"messages":[{"role":"user"}],"stop_words":[""]}`, `{"messages":[{"role":"user"}],"top_p":1}`} {
		if err := check(input, []byte(bad)); err == nil {
			t.Errorf("%s fits the schema", bad)
		}
	}
}

func TestPicturesThatDoNotFitAreDescribed(t *testing.T) {
	picture := func(size int) []llm.Image {
		return []llm.Image{{Type: "image/png", Data: append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, size-8)...)}}
	}
	want := llm.Request{Messages: []llm.Message{
		{Role: llm.User, Text: "hi", Images: picture(200 << 10)},
		{Role: llm.Assistant, Calls: []llm.ToolCall{{ID: "1", Name: "A", Args: json.RawMessage(`{}`)}}},
		{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "1", Name: "A", Text: "r", Images: picture(100 << 10)}}},
	}}
	for most, shown := range map[int][2]int{0: {1, 1}, 1 << 20: {1, 1}, 399 << 10: {0, 1}, 140 << 10: {0, 1}, 120 << 10: {0, 0},
		2 << 10: {0, 0}, 1: {0, 0}} {
		var got llm.Request
		size := 0
		p := node("a", thinking(func(_ context.Context, r llm.Request) (llm.Response, error) {
			got = r
			return llm.Response{Message: llm.Message{Thinking: []llm.Thinking{{}}}, Stop: llm.StopEnd}, nil
		}), true)
		call := p.Call
		p.Call = func(ctx context.Context, data []byte, heard func([]byte)) ([]byte, error) {
			size = len(data)
			return call(ctx, data, heard)
		}
		m := chat.New(chat.Config{Name: "peer:m", Find: func() []chat.Provider { return []chat.Provider{p} }, MaxRequest: most})
		if _, err := llm.Collect(m.Stream(t.Context(), want), nil); err != nil {
			t.Fatal(err)
		}
		if most > 1 && size > most {
			t.Errorf("a request of %d bytes, want at most %d", size, most)
		}
		user, result := got.Messages[0], got.Messages[2].Results[0]
		if len(user.Images) != shown[0] || len(result.Images) != shown[1] {
			t.Errorf("at most %d: shown %d and %d, want %v", most, len(user.Images), len(result.Images), shown)
		}
		if told := strings.Contains(user.Text, "A picture that is not shown any more"); told != (shown[0] == 0) {
			t.Errorf("at most %d: said %q", most, user.Text)
		}
	}
}

// thinking is llm.Func with thoughts.
func thinking(f llm.Func) llm.Model { return thinker{f} }

type thinker struct{ llm.Func }

func (m thinker) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		got, err := m.Func(ctx, r)
		chunks := []llm.Chunk{{Thought: "u"}, {Text: got.Message.Text}, {Thinking: &got.Message.Thinking[0]}, {Usage: &got.Usage, Stop: got.Stop}}
		for _, c := range chunks {
			if err != nil || !yield(c, nil) {
				return
			}
		}
	}
}

func check(schema, doc json.RawMessage) error {
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(schema, s); err != nil {
		return err
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		return err
	}
	return r.Validate(v)
}

func fits(t *testing.T, schema, doc json.RawMessage) {
	t.Helper()
	if err := check(schema, doc); err != nil {
		t.Errorf("%s does not fit: %v", doc, err)
	}
}

func TestErrorsKeepTheirKindAndHostsStayAtHome(t *testing.T) {
	for _, kind := range []error{
		llm.ErrAuth, llm.ErrQuota, llm.ErrRateLimited, llm.ErrContextLength, llm.ErrRefused, llm.ErrNoModel, llm.ErrInvalid,
		llm.ErrUnavailable, llm.ErrTimeout, llm.ErrCut, llm.ErrMalformed, llm.ErrDenied,
	} {
		m := llm.Func(func(context.Context, llm.Request) (llm.Response, error) {
			return llm.Response{}, &llm.Error{Model: "openai:m", Status: 500, Detail: "10.0.0.7 says", RetryAfter: 3 * time.Second, Err: kind}
		})
		_, err := llm.Collect(use(t, node("a", m, true)).Stream(t.Context(), earlier), nil)
		var e *llm.Error
		if !errors.Is(err, kind) || !errors.As(err, &e) || e.Model != "peer:m" || e.RetryAfter != 3*time.Second {
			t.Errorf("error = %#v, want %v of peer:m", err, kind)
		}
		about := kind == llm.ErrContextLength || kind == llm.ErrRefused || kind == llm.ErrInvalid
		if strings.Contains(err.Error(), "10.0.0.7") != about {
			t.Errorf("%v: told %v, what the server said", err, !about)
		}
	}
}

func TestNextNodeIsAskedAndAbsentOnesAreSaid(t *testing.T) {
	fails := func(err error) llm.Model {
		return llm.Func(func(context.Context, llm.Request) (llm.Response, error) { return llm.Response{}, err })
	}
	works := llm.Func(func(context.Context, llm.Request) (llm.Response, error) {
		return llm.Response{Message: llm.Message{Text: "b"}}, nil
	})
	for kind, next := range map[error]bool{llm.ErrUnavailable: true, llm.ErrRateLimited: true, llm.ErrDenied: true,
		llm.ErrContextLength: false, llm.ErrRefused: false} {
		got, err := llm.Collect(use(t, node("a", fails(&llm.Error{Err: kind}), true), node("b", works, true)).Stream(t.Context(), earlier), nil)
		if next != (err == nil) || next != (got.Message.Text == "b") {
			t.Errorf("%v: %q, %v; want another node asked: %v", kind, got.Message.Text, err, next)
		}
	}
	if _, err := llm.Collect(use(t).Stream(t.Context(), earlier), nil); !errors.Is(err, llm.ErrNoModel) ||
		!strings.Contains(err.Error(), "symbio agents models") {
		t.Errorf("no node: %v", err)
	}
}

func TestCancellingEndsTheProvidersCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := time.Duration(0)
		begin := time.Now()
		m := llm.Func(func(ctx context.Context, _ llm.Request) (llm.Response, error) {
			<-ctx.Done()
			ended = time.Since(begin)
			return llm.Response{}, ctx.Err()
		})
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		_, err := llm.Collect(use(t, node("a", m, true)).Stream(ctx, earlier), nil)
		if !errors.Is(err, context.DeadlineExceeded) || ended != 3*time.Second {
			t.Errorf("%v, the provider's call ended after %v; want 3s", err, ended)
		}
	})
}

func TestProviderStopsWithoutListeners(t *testing.T) {
	gone := errors.New("gone")
	asked := 0
	m := llm.Func(func(ctx context.Context, _ llm.Request) (llm.Response, error) {
		asked++
		return llm.Response{Message: llm.Message{Text: "x"}}, nil
	})
	_, err := chat.Serve(t.Context(), m, []byte(`{"messages":[{"role":"user"}]}`), func([]byte) error { return gone })
	if !errors.Is(err, gone) || asked != 1 {
		t.Errorf("error = %v, want that the listener is gone", err)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"messages":[]}`, `{"messages":[{}],"thinking":-1}`, `{"messages":[{}],"effort":"most"}`,
		`{"messages":[{}],"temperature":-1}`, `{"messages":[{}],"stop_words":["a","b","c","d","e"]}`, `{"messages":[{}],"tool_choice":"A"}`} {
		if _, err := chat.Serve(t.Context(), m, []byte(bad), nil); !errors.Is(err, chat.ErrRequest) {
			t.Errorf("%s: %v, want that it is no request", bad, err)
		}
	}
}

// says is a node that says this, whatever it is asked.
func says(heard []string, reply string, err error) chat.Provider {
	return chat.Provider{Node: "evil", Model: "m", Call: func(_ context.Context, _ []byte, hear func([]byte)) ([]byte, error) {
		for _, h := range heard {
			hear([]byte(h))
		}
		return []byte(reply), err
	}}
}

func TestHostileNodeIsNotBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		p    chat.Provider
		want error
	}{
		"no JSON":                   {says(nil, "hello", nil), llm.ErrMalformed},
		"nothing":                   {says(nil, "", nil), llm.ErrMalformed},
		"lines that are none":       {says([]string{"hello\n"}, `{"stop":"end"}`, nil), llm.ErrMalformed},
		"a line without end":        {says([]string{strings.Repeat("x", 1<<20+1)}, `{"stop":"end"}`, nil), llm.ErrMalformed},
		"two texts":                 {says([]string{`{"text":"a"}` + "\n"}, `{"text":"b","stop":"end"}`, nil), llm.ErrMalformed},
		"no end":                    {says(nil, `{"text":"b"}`, nil), llm.ErrCut},
		"another end":               {says(nil, `{"text":"b","stop":"explode"}`, nil), llm.ErrMalformed},
		"calls that are not there":  {says(nil, `{"stop":"tool_calls"}`, nil), llm.ErrMalformed},
		"an error of its own":       {says(nil, `{"error":{"kind":"x","detail":"\u001b[2J","retry_after_ms":99999999999999}}`, nil), llm.ErrUnavailable},
		"an error nobody knows":     {says(nil, ``, errors.New("\x1b[2J boom")), llm.ErrUnavailable},
		"a denial that is ours":     {says(nil, ``, &llm.Error{Err: llm.ErrDenied, Detail: "not you"}), llm.ErrDenied},
		"an answer beside an error": {says([]string{`{"text":"a"}` + "\n"}, `{"text":"a","stop":"end","error":{"kind":"refused"}}`, nil), llm.ErrRefused},
	} {
		_, err := llm.Collect(use(t, c.p).Stream(t.Context(), earlier), nil)
		var e *llm.Error
		if !errors.Is(err, c.want) || !errors.As(err, &e) || e.Model != "peer:m" || strings.Contains(err.Error(), "\x1b") ||
			e.RetryAfter > 24*time.Hour {
			t.Errorf("%s: %q, want %v", name, err, c.want)
		}
	}
	got, err := llm.Collect(use(t, says(nil, `{"text":"a","stop":"tool_calls","calls":[{"id":"old","name":"A"},{"id":"old","name":"B","args":7}],"usage":{"input":-5,"output":99999999999999,"cost":-1}}`, nil)).Stream(t.Context(), earlier), nil)
	if err != nil || got.Message.Calls[0].ID == "old" || got.Message.Calls[0].ID == got.Message.Calls[1].ID || got.Usage.Input != 0 ||
		got.Usage.Cost != nil || string(got.Message.Calls[0].Args) != "{}" {
		t.Errorf("ids, arguments and counts that cannot be: %+v, %v", got, err)
	}
	for _, schema := range []string{``, `7`, `{"properties":{"model":{"enum":["a"]}}}`, `{"properties":{"model":{"enum":"a"},"messages":{}}}`} {
		if got := chat.Offered(json.RawMessage(schema)); len(got) > 0 {
			t.Errorf("%s offers %v", schema, got)
		}
	}
}

// FuzzReply reads any reply after anything heard.
func FuzzReply(f *testing.F) {
	f.Add(`{"text":"a"}`+"\n", `{"text":"ab","stop":"end"}`)
	f.Add("", `{"calls":[{"id":"","name":"A","args":"{"}],"stop":"tool_calls"}`)
	f.Add("\n\n{}\n", `{"thinking":[{"text":"x"}],"stop":"length","usage":{}}`)
	f.Fuzz(func(t *testing.T, heard, reply string) {
		ended := false
		for c, err := range use(t, says([]string{heard}, reply, nil)).Stream(t.Context(), earlier) {
			if ended {
				t.Fatalf("%+v, %v after the end", c, err)
			}
			if c.Call != nil && (c.Call.ID == "old" || c.Call.Name == "" || !json.Valid(c.Call.Args)) {
				t.Fatalf("call %+v", c.Call)
			}
			ended = err != nil || c.Stop != ""
		}
		if !ended {
			t.Fatal("no end")
		}
	})
}
