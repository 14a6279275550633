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
	"symbio/internal/agent/llm/ollama"
	"symbio/internal/agent/llm/wire"
)

// servedOllama returns a model whose server is s. It never repeats a request.
func servedOllama(t testing.TB, s roundTrip) llm.Model {
	t.Helper()
	m, err := ollama.New(ollama.Config{Window: 8192, Config: wire.Config{
		BaseURL: "http://127.0.0.1:1", Model: "m", HTTP: &http.Client{Transport: s},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestOllamaAnswersAreRead(t *testing.T) {
	playTranscripts(t, "../ollama/testdata", servedOllama)
}

func FuzzOllama(f *testing.F) { fuzzAnswers(f, "../ollama/testdata", servedOllama) }

func TestOllamaModelPassesTheSuite(t *testing.T) {
	runSuite(t, func(t *testing.T, a answer) llm.Model {
		if a.Stop == llm.StopFilter {
			return nil // Ollama filters nothing
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serveOllama(w, r, a) }))
		t.Cleanup(server.Close)
		m, err := ollama.New(ollama.Config{Config: wire.Config{BaseURL: server.URL, Model: "m", HTTP: server.Client()}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}

// serveOllama is an Ollama of the suite's answers.
func serveOllama(w http.ResponseWriter, r *http.Request, a answer) {
	if r.URL.Path == "/api/show" {
		_, _ = io.WriteString(w, `{"model_info":{"qwen3.context_length":40960}}`)
		return
	}
	if a.Stall {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return
	}
	if status := map[error]int{llm.ErrRateLimited: 429, llm.ErrAuth: 401, llm.ErrUnavailable: 503}[a.Fault]; status != 0 {
		w.WriteHeader(status)
		return
	}
	type o = map[string]any
	send := func(v o) {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		_, _ = fmt.Fprintf(w, "%s\n", b)
		w.(http.Flusher).Flush()
	}
	for _, word := range strings.SplitAfter(a.Text, " ") {
		send(o{"message": o{"role": "assistant", "content": word}})
	}
	switch a.Fault {
	case llm.ErrCut:
		panic(http.ErrAbortHandler)
	case llm.ErrMalformed:
		_, _ = io.WriteString(w, "{oops}\n")
		return
	}
	for _, c := range a.Calls {
		send(o{"message": o{"role": "assistant", "tool_calls": []o{{"id": c.ID, "function": o{"name": c.Name, "arguments": c.Args}}}}})
	}
	reason := "stop"
	if a.Stop == llm.StopLength {
		reason = "length"
	}
	send(o{"message": o{"role": "assistant"}, "done": true, "done_reason": reason, "prompt_eval_count": a.Usage.Input, "eval_count": a.Usage.Output})
}
