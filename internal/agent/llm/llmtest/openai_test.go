package llmtest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/openai"
)

// servedOpenAI returns a model whose server is s. It never repeats a request.
func servedOpenAI(t testing.TB, s roundTrip) llm.Model {
	t.Helper()
	m, err := openai.New(openai.Config{
		BaseURL: "http://127.0.0.1:1/v1", Model: "m", Key: llm.NewSecret("sk-test-key"), HTTP: &http.Client{Transport: s},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestOpenAIAnswersAreRead(t *testing.T) { playTranscripts(t, "../openai/testdata", servedOpenAI) }

func FuzzOpenAI(f *testing.F) {
	for _, a := range transcripts(f, "../openai/testdata/servers") {
		f.Add(a.Files[0].Data)
	}
	fuzzAnswers(f, "../openai/testdata", servedOpenAI)
}

func TestOpenAIModelPassesTheSuite(t *testing.T) {
	runSuite(t, func(t *testing.T, a answer) llm.Model {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serveOpenAI(w, r, a) }))
		t.Cleanup(server.Close)
		m, err := openai.New(openai.Config{BaseURL: server.URL, Model: "m", HTTP: server.Client()})
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}

// serveOpenAI is a chat-completions server of the suite's answers.
func serveOpenAI(w http.ResponseWriter, r *http.Request, a answer) {
	if a.Stall {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return
	}
	if status := map[error]int{llm.ErrRateLimited: 429, llm.ErrAuth: 401, llm.ErrUnavailable: 503}[a.Fault]; status != 0 {
		w.WriteHeader(status)
		return
	}
	send := func(v any) {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", b)
		w.(http.Flusher).Flush()
	}
	type o = map[string]any
	delta := func(d o, finish any) { send(o{"choices": []any{o{"index": 0, "delta": d, "finish_reason": finish}}}) }
	for _, word := range strings.SplitAfter(a.Text, " ") {
		delta(o{"content": word}, nil)
	}
	switch a.Fault {
	case llm.ErrCut:
		panic(http.ErrAbortHandler)
	case llm.ErrMalformed:
		_, _ = io.WriteString(w, "data: {oops}\n\n")
		return
	}
	for i, c := range a.Calls {
		delta(o{"tool_calls": []any{o{"index": i, "id": c.ID, "type": "function", "function": o{"name": c.Name, "arguments": ""}}}}, nil)
		half := len(c.Args) / 2
		delta(o{"tool_calls": []any{o{"index": i, "function": o{"arguments": string(c.Args[:half])}}}}, nil)
		delta(o{"tool_calls": []any{o{"index": i, "function": o{"arguments": string(c.Args[half:])}}}}, nil)
	}
	finish := map[llm.Stop]string{llm.StopLength: "length", llm.StopFilter: "content_filter"}[a.Stop]
	if finish == "" {
		finish = "stop"
	}
	delta(o{}, finish)
	send(o{"choices": []any{}, "usage": o{"prompt_tokens": a.Usage.Input, "completion_tokens": a.Usage.Output}})
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}
