package llmtest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/openai"
)

// servedResponses returns a model of OpenAI's own service, whose server is s. It never repeats a request.
func servedResponses(t testing.TB, s roundTrip) llm.Model {
	t.Helper()
	m, err := openai.New(openai.Config{Model: "m", Key: llm.NewSecret("sk-test-key"), HTTP: &http.Client{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestResponsesAreRead(t *testing.T) {
	playTranscripts(t, "../openai/testdata/responses", servedResponses)
}

func FuzzResponses(f *testing.F) { fuzzAnswers(f, "../openai/testdata/responses", servedResponses) }

func TestResponsesModelPassesTheSuite(t *testing.T) {
	runSuite(t, func(t *testing.T, a answer) llm.Model {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serveResponses(w, r, a) }))
		t.Cleanup(server.Close)
		to, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		// OpenAI's own service is the server of the test.
		redirect := roundTrip(func(r *http.Request) (*http.Response, error) {
			r.URL.Scheme, r.URL.Host = to.Scheme, to.Host
			return server.Client().Transport.RoundTrip(r)
		})
		m, err := openai.New(openai.Config{Model: "m", HTTP: &http.Client{Transport: redirect}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}

// serveResponses is a Responses server of the suite's answers.
func serveResponses(w http.ResponseWriter, r *http.Request, a answer) {
	if a.Stall {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return
	}
	if status := map[error]int{llm.ErrRateLimited: 429, llm.ErrAuth: 401, llm.ErrUnavailable: 503}[a.Fault]; status != 0 || r.URL.Path != "/v1/responses" {
		w.WriteHeader(max(status, 400))
		return
	}
	type o = map[string]any
	send := func(kind string, v o) {
		v["type"] = kind
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
		w.(http.Flusher).Flush()
	}
	index := 0
	if a.Text != "" {
		send("response.output_item.added", o{"output_index": index, "item": o{"type": "message"}})
		for _, word := range strings.SplitAfter(a.Text, " ") {
			send("response.output_text.delta", o{"output_index": index, "delta": word})
		}
		send("response.output_item.done", o{"output_index": index, "item": o{"type": "message", "content": []o{{"type": "output_text", "text": a.Text}}}})
		index++
	}
	switch a.Fault {
	case llm.ErrCut:
		panic(http.ErrAbortHandler)
	case llm.ErrMalformed:
		_, _ = io.WriteString(w, "data: {oops}\n\n")
		return
	}
	for _, c := range a.Calls {
		item := o{"type": "function_call", "call_id": c.ID, "name": c.Name, "arguments": ""}
		send("response.output_item.added", o{"output_index": index, "item": item})
		send("response.function_call_arguments.delta", o{"output_index": index, "delta": string(c.Args)})
		item["arguments"] = string(c.Args)
		send("response.output_item.done", o{"output_index": index, "item": item})
		index++
	}
	end := o{"status": "completed", "usage": o{"input_tokens": a.Usage.Input, "output_tokens": a.Usage.Output}}
	kind := "response.completed"
	if reason := map[llm.Stop]string{llm.StopLength: "max_output_tokens", llm.StopFilter: "content_filter"}[a.Stop]; reason != "" {
		kind, end["status"], end["incomplete_details"] = "response.incomplete", "incomplete", o{"reason": reason}
	}
	send(kind, o{"response": end})
}
