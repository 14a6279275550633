package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/anthropic"
	"symbio/internal/agent/llm/openai"
	"symbio/internal/agent/llm/replay"
	"symbio/internal/agent/llm/retry"
	"symbio/internal/agent/llm/wire"
)

// roundTrip is a server without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reply is an answer of such a server.
func reply(status int, kind string, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(body)}
}

const key = "a-key-that-looks-like-nothing"

// said is a request with one message.
func said(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.User, Text: text}}}
}

func event(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return `data: {"choices":[{"delta":{"content":` + string(quoted) + `}}]}` + "\n\n"
}

const end = `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"

// model asks through a transport.
func model(t *testing.T, base string, rt http.RoundTripper) llm.Model {
	t.Helper()
	m, err := openai.New(openai.Config{BaseURL: base + "/v1?token=" + key, Model: "m", Key: llm.NewSecret(key), HTTP: &http.Client{Transport: rt}})
	if err != nil {
		t.Fatal(err)
	}
	return retry.New(retry.Config{BackOff: time.Millisecond}, m)
}

// record asks these requests, one after the other, and returns the directory.
func record(t *testing.T, server http.HandlerFunc, requests ...llm.Request) string {
	t.Helper()
	s := httptest.NewServer(server)
	defer s.Close()
	return recordOver(t, s.URL, s.Client().Transport, requests...)
}

// recordOver is record with a server behind a transport of the test's own.
func recordOver(t *testing.T, url string, over http.RoundTripper, requests ...llm.Request) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "recording")
	r, err := replay.Record(dir, over, llm.NewSecret(key))
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range requests {
		_, _ = llm.Collect(model(t, url, r).Stream(t.Context(), q), nil)
	}
	if _, err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func play(t *testing.T, dir string) *replay.Replayer {
	t.Helper()
	p, err := replay.Play(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// files is all that a directory holds.
func files(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range list {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s\n%s", f.Name(), text)
	}
	return all.String()
}

func TestRecordingHasNoSecrets(t *testing.T) {
	dir := t.TempDir()
	r, err := replay.Record(dir, roundTrip(func(*http.Request) (*http.Response, error) {
		resp := reply(200, "text/event-stream", strings.NewReader(event("a-key-that-looks-like-nothing, sk-abcdefghijklmnopqrst, Grüße </html>")+end))
		resp.Header.Set("Set-Cookie", "session="+key)
		return resp, nil
	}), llm.NewSecret(key))
	if err != nil {
		t.Fatal(err)
	}
	ask := said(`hello "quoted" Bearer abcdefghijklmnopqrst`)
	if got, err := llm.Collect(model(t, "http://models.example", r).Stream(t.Context(), ask), nil); err != nil || !strings.Contains(got.Message.Text, key) {
		t.Errorf("while recording: %q, %v; want the answer as it came", got.Message.Text, err)
	}
	if n, err := r.Close(); n != 1 || err != nil {
		t.Errorf("%d written, %v", n, err)
	}
	text := files(t, dir)
	for _, secret := range []string{key, "sk-abc", "Bearer", "Authorization", "ookie"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in the recording:\n%s", secret, text)
		}
	}
	p := play(t, dir)
	got, err := llm.Collect(p.Model(model(t, "http://elsewhere.example", p)).Stream(t.Context(), ask), nil)
	if err != nil || got.Message.Text != "***, ***, Grüße </html>" || got.Stop != llm.StopEnd {
		t.Errorf("played %+v, %v", got, err)
	}
	if p.Spec() != "openai:m" || len(p.Unused()) > 0 {
		t.Errorf("the model is %q, unused %v", p.Spec(), p.Unused())
	}
}

func TestDriftShowsTheFirstDifferenceAndIsFinal(t *testing.T) {
	dir := record(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, event("hi")+end) },
		said("count the files in this directory, all of them"), said("something else"))
	for _, c := range []struct {
		name string
		ask  llm.Request
		want []string
	}{
		{"another text", said("count the files in that directory, all of them"), []string{"differs from exchange 1 of", "in this directory", "in that directory", "--record DIR"}},
		{"one message more", llm.Request{Messages: append(said("something else").Messages, said("x").Messages...)}, []string{`differs from exchange 2 of`, `recorded was "]", now it is "{"`}},
		{"a temperature", llm.Request{Messages: said("something else").Messages, Temperature: new(0.5)}, []string{`now it is "\"temperature\": 0.5"`}},
		{"a tool", llm.Request{Messages: said("something else").Messages, Tools: []llm.ToolSpec{{Name: "A"}}}, []string{`now it is "\"tools\": ["`}},
	} {
		p := play(t, dir)
		_, err := llm.Collect(model(t, "http://127.0.0.1:1", p).Stream(t.Context(), c.ask), func(c llm.Chunk) {
			if c.Retry != nil {
				t.Error("it is asked again")
			}
		})
		var e *llm.Error
		if !errors.Is(err, llm.ErrDrift) || !errors.As(err, &e) || e.Model != "openai:m" {
			t.Errorf("%s: %v, want a drift", c.name, err)
		}
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", c.name, err, want)
			}
		}
		if len(p.Unused()) != 2 {
			t.Errorf("unused: %v", p.Unused())
		}
	}
	p := play(t, dir)
	m := model(t, "http://127.0.0.1:1", p)
	if _, err := llm.Collect(m.Stream(t.Context(), said("something else")), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := llm.Collect(m.Stream(t.Context(), said("something else")), nil); !errors.Is(err, llm.ErrDrift) || !strings.Contains(err.Error(), "more often than when it was recorded (1)") {
		t.Errorf("asked twice: %v", err)
	}
	if _, err := openai.Models(t.Context(), openai.Config{BaseURL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: p}}); !errors.Is(err, llm.ErrDrift) || !strings.Contains(err.Error(), "GET /v1/models was never asked") {
		t.Errorf("the list of models: %v", err)
	}
}

func TestRefusalsArePlayedAndLostAnswersAreNot(t *testing.T) {
	asked := 0
	dir := record(t, func(w http.ResponseWriter, r *http.Request) {
		switch asked++; asked {
		case 1:
			w.Header().Set("Retry-After-Ms", "3")
			w.WriteHeader(429)
		case 2:
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.WriteString(w, event("third")+end)
		}
	}, said("x"))
	p := play(t, dir)
	var waits []time.Duration
	got, err := llm.Collect(model(t, "http://127.0.0.1:1", p).Stream(t.Context(), said("x")), func(c llm.Chunk) {
		if c.Retry != nil {
			waits = append(waits, c.Retry.Wait)
		}
	})
	if err != nil || got.Message.Text != "third" || len(waits) != 1 || waits[0] <= 0 || waits[0] > 3*time.Millisecond {
		t.Errorf("played %+v, %v after %v; want the third answer, after one repetition", got, err, waits)
	}
}

func TestIdsOfMembersAreThoseOfThisRun(t *testing.T) {
	const then, spawnedThen, now, spawnedNow = "00000000000000000000000000000001", "00000000000000000000000000000002", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa2"
	talk := func(self, child string) []llm.Request {
		first := llm.Request{System: "You are " + self, Messages: said("go").Messages}
		second := first
		second.Messages = append(second.Messages[:1:1],
			llm.Message{Role: llm.Assistant, Calls: []llm.ToolCall{{ID: "1", Name: "spawn"}}},
			llm.Message{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "1", Text: "it is " + child}}})
		third := second
		third.Messages = append(slices.Clip(third.Messages), llm.Message{Role: llm.Assistant, Text: "I told " + child + " so, says " + self}, llm.Message{Role: llm.User, Text: "and?"})
		return []llm.Request{first, second, third}
	}
	turn := 0
	dir := record(t, func(w http.ResponseWriter, r *http.Request) {
		switch turn++; turn {
		case 1:
			_, _ = io.WriteString(w, event("spawning")+end)
		case 2: // the id comes in two pieces, which the model's arguments join
			for _, half := range []string{`{\"to\":\"` + spawnedThen[:9], spawnedThen[9:] + `\"}`} {
				_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"send","arguments":"`+half+`"}}]}}]}`+"\n\n")
			}
			_, _ = io.WriteString(w, end)
		default:
			_, _ = io.WriteString(w, event("done by "+then)+end)
		}
	}, talk(then, spawnedThen)...)
	p := play(t, dir)
	m := p.Model(model(t, "http://127.0.0.1:1", p))
	requests := talk(now, spawnedNow)
	for i, r := range requests {
		// A text that was streamed in pieces keeps the old id: that is the same one.
		if i == 2 {
			r.Messages[3].Text = "I told " + spawnedThen + " so, says " + now
		}
		got, err := llm.Collect(m.Stream(t.Context(), r), nil)
		if err != nil {
			t.Fatalf("request %d: %v", i+1, err)
		}
		if i == 1 && string(got.Message.Calls[0].Args) != `{"to":"`+spawnedNow+`"}` {
			t.Errorf("the call is %s, want with the id of this run", got.Message.Calls[0].Args)
		}
		if i == 2 && got.Message.Text != "done by "+now {
			t.Errorf("the text is %q, want with the id of this run", got.Message.Text)
		}
	}
	p = play(t, dir)
	r := talk(now, spawnedNow)[1]
	r.Messages[2].Results[0].Text = "it is " + now // two ids where the recording has one twice
	if _, err := llm.Collect(model(t, "http://127.0.0.1:1", p).Stream(t.Context(), r), nil); !errors.Is(err, llm.ErrDrift) || !strings.Contains(err.Error(), "it is id 0") {
		t.Errorf("another order of ids: %v", err)
	}
}

func TestManyAtOnceFindTheirs(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Messages []struct{ Content string } }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, event("re: "+body.Messages[0].Content)+end)
	}
	s := httptest.NewServer(http.HandlerFunc(answer))
	defer s.Close()
	dir := t.TempDir()
	r, err := replay.Record(dir, s.Client().Transport)
	if err != nil {
		t.Fatal(err)
	}
	all := func(rt http.RoundTripper) {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				got, err := llm.Collect(model(t, s.URL, rt).Stream(t.Context(), said(fmt.Sprint("n", i))), nil)
				if err != nil || got.Message.Text != fmt.Sprint("re: n", i) {
					t.Errorf("%d: %q, %v", i, got.Message.Text, err)
				}
			})
		}
		wg.Wait()
	}
	all(r)
	if n, err := r.Close(); n != 20 || err != nil {
		t.Errorf("%d written, %v; want 20", n, err)
	}
	p := play(t, dir)
	all(p)
	if len(p.Unused()) > 0 {
		t.Errorf("unused: %v", p.Unused())
	}
}

func TestPlayingStopsWithTheContext(t *testing.T) {
	dir := record(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, event("hi")+end) }, said("x"))
	ended, stop := context.WithCancel(t.Context())
	stop()
	if _, err := llm.Collect(model(t, "http://127.0.0.1:1", play(t, dir)).Stream(ended, said("x")), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}

func TestAnthropicsWireIsRecordedToo(t *testing.T) {
	ask := func(rt http.RoundTripper) (llm.Response, error) {
		m, err := anthropic.New(anthropic.Config{Config: wire.Config{BaseURL: "http://127.0.0.1:1", Model: "c", Key: llm.NewSecret(key), HTTP: &http.Client{Transport: rt}}})
		if err != nil {
			t.Fatal(err)
		}
		return llm.Collect(m.Stream(t.Context(), said("x")), nil)
	}
	dir := t.TempDir()
	r, err := replay.Record(dir, roundTrip(func(*http.Request) (*http.Response, error) {
		return reply(200, "application/json", strings.NewReader(`{"type":"message","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}`)), nil
	}), llm.NewSecret(key))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(r); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Close(); err != nil {
		t.Fatal(err)
	}
	p := play(t, dir)
	if got, err := ask(p); err != nil || got.Message.Text != "hi" || p.Spec() != "anthropic:c" {
		t.Errorf("played %+v, %v of %s", got, err, p.Spec())
	}
	if text := files(t, dir); strings.Contains(text, key) || !strings.Contains(text, "2023-06-01") {
		t.Errorf("the recording is\n%s", text)
	}
}

const good = `---
version: 2
interactions:
- id: 0
  request: {method: POST, url: http://h/v1/chat/completions, body: '{"model":"m"}'}
  response: {code: 200, body: x}
`

func TestRecordingsThatCannotBePlayedSayWhy(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"good":      {"", "", ""},
		"cut":       {"body: x}", "body", "cannot be played"},
		"version":   {"version: 2", "version: 1", "version"},
		"no status": {"code: 200", "code: 9999", "status from 100"},
		"null":      {good[strings.Index(good, "- id"):], "- null\n", "status from 100"},
		"an URL":    {"http://h", "http://%zz", "exchange 1"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "exchanges.yaml")
		if err := os.WriteFile(file, []byte(strings.Replace(good, c.old, c.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := replay.Play(dir)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file)) {
			t.Errorf("%s: %v, want the file and %q", name, err, c.want)
		}
		if _, err := replay.Record(dir, nil); err == nil || !strings.Contains(err.Error(), "already") {
			t.Errorf("recording over a recording: %v", err)
		}
	}
	if _, err := replay.Play(t.TempDir()); err == nil || !strings.Contains(err.Error(), "--record") {
		t.Errorf("an empty directory: %v", err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "exchanges.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := replay.Play(dir); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("a directory: %v", err)
	}
}

func TestRecordingThatCannotBeWrittenIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	r, err := replay.Record(dir, roundTrip(func(*http.Request) (*http.Response, error) {
		return reply(200, "", strings.NewReader(event("x")+end)), nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := llm.Collect(model(t, "http://127.0.0.1:1", r).Stream(t.Context(), said("x")), nil); err != nil || got.Message.Text != "x" {
		t.Errorf("the answer is %q, %v; want it all the same", got.Message.Text, err)
	}
	if n, err := r.Close(); n != 0 || err == nil {
		t.Errorf("%d written, %v; want an error", n, err)
	}
}

// FuzzRecording plays any file.
func FuzzRecording(f *testing.F) {
	f.Add([]byte(good), "00000000000000000000000000000001 id 0")
	f.Add([]byte(strings.Replace(good, `{"model":"m"}`, `{"model":["00000000000000000000000000000001",{"a":1e999}]}`, 1)), "")
	f.Fuzz(func(t *testing.T, file []byte, ask string) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "exchanges.yaml"), file, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := replay.Play(dir)
		if err != nil {
			return
		}
		for _, body := range []string{`{"model":"m"}`, ask} {
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://h/v1/chat/completions", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := p.RoundTrip(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
			}
		}
		_ = p.Spec()
	})
}
