package tape_test

import (
	"bytes"
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

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/agent/llm/anthropic"
	"symbio/agent/llm/llmtest"
	"symbio/agent/llm/openai"
	"symbio/agent/llm/tape"
	"symbio/agent/llm/wire"
)

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
	m, err := openai.New(openai.Config{BaseURL: base + "/v1?token=" + key, Model: "m", Key: llm.NewSecret(key), HTTP: &http.Client{Transport: rt}, MaxRetries: 2, BackOff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return m
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
	dir := filepath.Join(t.TempDir(), "tape")
	r, err := tape.Record(dir, over, llm.NewSecret(key))
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

func play(t *testing.T, dir string) *tape.Player {
	t.Helper()
	p, err := tape.Play(dir)
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

// inPieces answers every request with these pieces, each of which is one read.
type inPieces [][]byte

func (p inPieces) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []io.Reader
	for _, piece := range p {
		body = append(body, bytes.NewReader(piece))
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"text/event-stream"}, "Set-Cookie": {"session=" + key}},
		Body:   io.NopCloser(io.MultiReader(body...)),
	}, nil
}

func TestWhatWasRecordedIsPlayedInTheSamePieces(t *testing.T) {
	pieces := []string{"Gr\xc3", "\xbc\xc3\x9fe, ", "\n-- response --\n", "\"quoted\" </html>"}
	whole := event(strings.Join(pieces, "")) + end
	// Over a socket two pieces may arrive as one; here each is read as it was written, in the middle of a character too.
	dir := recordOver(t, "http://models.example", inPieces(slices.Collect(slices.Chunk([]byte(whole), 41))), said("-- request.json --\nhello"))
	text := files(t, dir)
	if !strings.HasPrefix(text, "0001-completions.txtar\n") || strings.Count(text, `"data"`)+strings.Count(text, `"base64"`) < 3 {
		t.Errorf("the recording is not readable, or in one piece:\n%s", text)
	}
	for _, secret := range []string{key, "Authorization", "ookie", "127.0.0.1:0"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in the recording:\n%s", secret, text)
		}
	}
	p := play(t, dir)
	got, err := llm.Collect(p.Model(model(t, "http://elsewhere.example", p)).Stream(t.Context(), said("-- request.json --\nhello")), nil)
	if err != nil || !strings.Contains(got.Message.Text, "</html>") || got.Stop != llm.StopEnd {
		t.Errorf("played %+v, %v", got, err)
	}
	if p.Spec() != "openai:m" || len(p.Unused()) > 0 {
		t.Errorf("the model is %q, unused %v", p.Spec(), p.Unused())
	}
}

// body asks a server's path and returns the pieces in which the answer is read.
func body(t *testing.T, rt http.RoundTripper, method, url, send string) (pieces []string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(send))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	buf := make([]byte, 4096)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			pieces = append(pieces, string(buf[:n]))
		}
		if err == io.EOF {
			return pieces, nil
		}
		if err != nil {
			return pieces, err
		}
	}
}

// parts is a server whose answer comes in these reads.
type parts struct {
	list []string
	err  error
}

func (p *parts) Read(b []byte) (int, error) {
	if len(p.list) == 0 {
		return 0, p.err
	}
	n := copy(b, p.list[0])
	p.list = p.list[1:]
	return n, nil
}

func (*parts) Close() error { return nil }

func TestPiecesKeepTheirBoundariesAndSecretsGoAcrossThem(t *testing.T) {
	want := []string{"one \xff", "two a-key-that-", "looks-like-nothing", " and sk-abcdefghijklmn", "opqrstuvwxyz end"}
	dir := t.TempDir()
	r, err := tape.Record(dir, llmtest.RoundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: &parts{slices.Clone(want), errors.New("reset by a-key-that-looks-like-nothing")}}, nil
	}), llm.NewSecret(key))
	if err != nil {
		t.Fatal(err)
	}
	live, err := body(t, r, "POST", "http://x/v1/y?key=abc&api-version=1", `{"a": "Bearer abcdefghijklmnopqrst"}`)
	if d := cmp.Diff(want, live); d != "" || err == nil {
		t.Errorf("while recording: %v (-want +got):\n%s", err, d)
	}
	if n, err := r.Close(); n != 1 || err != nil {
		t.Errorf("%d written, %v", n, err)
	}
	text := files(t, dir)
	for _, secret := range []string{key, "sk-abc", "rstuvw", "Bearer", "key=abc"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in the recording:\n%s", secret, text)
		}
	}
	got, err := body(t, play(t, dir), "POST", "https://other/v1/y?key=other&api-version=2", `{"a":"Bearer abcdefghijklmnopqrst"}`)
	if len(got) != len(want) || err == nil || !strings.Contains(err.Error(), "reset by ***") {
		t.Fatalf("played %q, %v; want as many pieces and the same end", got, err)
	}
	for i := range want {
		if len(got[i]) != len(want[i]) {
			t.Errorf("piece %d is %q, want as long as %q", i, got[i], want[i])
		}
	}
}

func TestADriftShowsTheFirstDifferenceAndIsFinal(t *testing.T) {
	dir := record(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, event("hi")+end) },
		said("count the files in this directory, all of them"), said("something else"))
	for _, c := range []struct {
		name string
		ask  llm.Request
		want []string
	}{
		{"another text", said("count the files in that directory, all of them"), []string{"0001-completions.txtar at messages[0].content", "is directory", "at directory", "--record DIR"}},
		{"one message more", llm.Request{Messages: append(said("something else").Messages, said("x").Messages...)}, []string{"0002-completions.txtar at messages[1]: recorded was nothing, now it is {"}},
		{"a tool", llm.Request{Messages: said("something else").Messages, Tools: []llm.ToolSpec{{Name: "A"}}}, []string{"at tools: recorded was nothing"}},
	} {
		p := play(t, dir)
		begin := time.Now()
		_, err := llm.Collect(model(t, "http://127.0.0.1:1", p).Stream(t.Context(), c.ask), func(c llm.Chunk) {
			if c.Retry != nil {
				t.Error("it is asked again")
			}
		})
		var e *llm.Error
		if !errors.Is(err, llm.ErrDrift) || !errors.As(err, &e) || e.Model != "openai:m" || time.Since(begin) > time.Second {
			t.Errorf("%s: %v, want a drift at once", c.name, err)
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

func TestFailuresAndStatusesArePlayedToo(t *testing.T) {
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
	if err != nil || got.Message.Text != "third" || len(waits) != 2 || waits[0] != 3*time.Millisecond {
		t.Errorf("played %+v, %v after %v; want the third answer, after two repetitions", got, err, waits)
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
	if _, err := llm.Collect(model(t, "http://127.0.0.1:1", p).Stream(t.Context(), r), nil); !errors.Is(err, llm.ErrDrift) || !strings.Contains(err.Error(), "ids of members") {
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
	r, err := tape.Record(dir, s.Client().Transport)
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

func TestAnAnswerThatNobodyReadToItsEndSaysSo(t *testing.T) {
	dir := t.TempDir()
	r, err := tape.Record(dir, llmtest.RoundTrip(func(*http.Request) (*http.Response, error) {
		return llmtest.Reply(200, "text/event-stream", io.MultiReader(strings.NewReader(event("one")), strings.NewReader(event("two")+end))), nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	for range model(t, "http://127.0.0.1:1", r).Stream(t.Context(), said("x")) {
		break
	}
	got, err := llm.Collect(model(t, "http://127.0.0.1:1", play(t, dir)).Stream(t.Context(), said("x")), nil)
	if !errors.Is(err, llm.ErrDrift) || !strings.Contains(err.Error(), "no longer read") || got.Message.Text != "one" {
		t.Errorf("played %q, %v", got.Message.Text, err)
	}
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
	r, err := tape.Record(dir, llmtest.RoundTrip(func(*http.Request) (*http.Response, error) {
		return llmtest.Reply(200, "application/json", strings.NewReader(`{"type":"message","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}`)), nil
	}), llm.NewSecret(key))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(r); err != nil {
		t.Fatal(err)
	}
	p := play(t, dir)
	if got, err := ask(p); err != nil || got.Message.Text != "hi" || p.Spec() != "anthropic:c" {
		t.Errorf("played %+v, %v of %s", got, err, p.Spec())
	}
	if text := files(t, dir); strings.Contains(text, key) || !strings.Contains(text, "Anthropic-Version: 2023-06-01") {
		t.Errorf("the recording is\n%s", text)
	}
}

const good = `x
-- request --
POST /v1/chat/completions on h
-- request.json --
{"model":"m"}
-- response --
200
Content-Type: text/event-stream
-- response.jsonl --
{"data":"x"}
{"end":"whole"}
`

func TestRecordingsThatCannotBePlayedSayWhy(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"good":              {"", "", ""},
		"cut":               {`{"end":"whole"}` + "\n", "", "it is cut"},
		"cut in a line":     {"le\"}\n", "", "line 2"},
		"cut in the middle": {good[strings.Index(good, "-- response --"):], "", "the sections are"},
		"nothing":           {good, "", "the sections are"},
		"a status":          {"200", "OK", "want a status"},
		"another status":    {"200", "9999", "want a status"},
		"a header":          {"Content-Type: text", "Set-Cookie: text", "none of the headers"},
		"a method":          {"POST /v1", "v1", "METHOD /PATH"},
		"a body":            {`{"model":"m"}`, `{"model"`, "not JSON"},
		"an end":            {`"whole"`, `"happy"`, "an end is"},
		"more":              {`{"end":"whole"}`, "{\"end\":\"whole\"}\n{\"data\":\"x\"}", "more behind the end"},
		"a field":           {`{"data":"x"}`, `{"exec":"x"}`, "unknown field"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "0001-x.txtar")
		if err := os.WriteFile(file, []byte(strings.Replace(good, c.old, c.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := tape.Play(dir)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file)) {
			t.Errorf("%s: %v, want the file and %q", name, err, c.want)
		}
	}
	if _, err := tape.Play(t.TempDir()); err == nil || !strings.Contains(err.Error(), "--record") {
		t.Errorf("an empty directory: %v", err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "a.txtar"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := tape.Play(dir); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := tape.Record(dir, nil); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("recording over a recording: %v", err)
	}
}

func TestARecordingThatCannotBeWrittenIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	r, err := tape.Record(dir, llmtest.RoundTrip(func(*http.Request) (*http.Response, error) {
		return llmtest.Reply(200, "", strings.NewReader(event("x")+end)), nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
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
		if err := os.WriteFile(filepath.Join(dir, "a.txtar"), file, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := tape.Play(dir)
		if err != nil {
			return
		}
		_, _ = body(t, p, "POST", "http://h/v1/chat/completions", `{"model":"m"}`)
		_, _ = body(t, p, "POST", "http://h/v1/chat/completions", ask)
		_ = p.Spec()
	})
}
