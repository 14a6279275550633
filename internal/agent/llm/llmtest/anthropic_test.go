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
	"symbio/internal/agent/llm/anthropic"
	"symbio/internal/agent/llm/wire"
)

// servedAnthropic returns a model whose server is s. It never repeats a request.
func servedAnthropic(t testing.TB, s roundTrip) llm.Model {
	t.Helper()
	m, err := anthropic.New(anthropic.Config{Config: wire.Config{
		BaseURL: "http://127.0.0.1:1", Model: "m", Key: llm.NewSecret("sk-ant-test-key"), HTTP: &http.Client{Transport: s},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAnthropicAnswersAreRead(t *testing.T) {
	playTranscripts(t, "../anthropic/testdata", servedAnthropic)
}

func FuzzAnthropic(f *testing.F) { fuzzAnswers(f, "../anthropic/testdata", servedAnthropic) }

func TestAnthropicModelPassesTheSuite(t *testing.T) {
	runSuite(t, func(t *testing.T, a answer) llm.Model {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serveAnthropic(w, r, a) }))
		t.Cleanup(server.Close)
		m, err := anthropic.New(anthropic.Config{Config: wire.Config{BaseURL: server.URL, Model: "m", HTTP: server.Client()}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}

// serveAnthropic is a Messages server of the suite's answers.
func serveAnthropic(w http.ResponseWriter, r *http.Request, a answer) {
	if a.Stall {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return
	}
	if status := map[error]int{llm.ErrRateLimited: 429, llm.ErrAuth: 401, llm.ErrUnavailable: 529}[a.Fault]; status != 0 {
		w.WriteHeader(status)
		return
	}
	type o = map[string]any
	send := func(v o) {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", v["type"], b)
		w.(http.Flusher).Flush()
	}
	send(o{"type": "message_start", "message": o{"usage": o{"input_tokens": a.Usage.Input, "output_tokens": 1}}})
	send(o{"type": "ping"})
	send(o{"type": "content_block_start", "index": 0, "content_block": o{"type": "text", "text": ""}})
	for _, word := range strings.SplitAfter(a.Text, " ") {
		send(o{"type": "content_block_delta", "index": 0, "delta": o{"type": "text_delta", "text": word}})
	}
	switch a.Fault {
	case llm.ErrCut:
		panic(http.ErrAbortHandler)
	case llm.ErrMalformed:
		_, _ = io.WriteString(w, "data: {oops}\n\n")
		return
	}
	send(o{"type": "content_block_stop", "index": 0})
	for i, c := range a.Calls {
		send(o{"type": "content_block_start", "index": i + 1, "content_block": o{"type": "tool_use", "id": c.ID, "name": c.Name, "input": o{}}})
		half := len(c.Args) / 2
		for _, piece := range []string{string(c.Args[:half]), string(c.Args[half:])} {
			send(o{"type": "content_block_delta", "index": i + 1, "delta": o{"type": "input_json_delta", "partial_json": piece}})
		}
		send(o{"type": "content_block_stop", "index": i + 1})
	}
	stop := map[llm.Stop]string{llm.StopLength: "max_tokens", llm.StopFilter: "refusal"}[a.Stop]
	if stop == "" {
		stop = "end_turn"
	}
	send(o{"type": "message_delta", "delta": o{"stop_reason": stop}, "usage": o{"output_tokens": a.Usage.Output}})
	send(o{"type": "message_stop"})
}
