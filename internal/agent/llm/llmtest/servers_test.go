package llmtest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/openai"
)

// TestServersGetBackWhatTheySent reads the recorded stream of each server to the same answer, and compares the
// model's message in the next request with the one that the server demands (next). Another model gets
// nothing of it, and the answer survives a record of the session as JSON.
func TestServersGetBackWhatTheySent(t *testing.T) {
	all := transcripts(t, "../openai/testdata/servers")
	if len(all) < 12 {
		t.Errorf("%d servers, want at least 12", len(all))
	}
	for name, a := range all {
		t.Run(name, func(t *testing.T) {
			var body []byte
			server := roundTrip(func(r *http.Request) (*http.Response, error) {
				var err error
				body, err = io.ReadAll(r.Body)
				return reply(200, "text/event-stream", strings.NewReader(string(a.Files[0].Data))), err
			})
			m := servedOpenAI(t, server)
			r := llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "the weather in Oslo?"}}, Tools: needed}
			thought := ""
			got, err := llm.Collect(m.Stream(t.Context(), r), func(c llm.Chunk) { thought += c.Thought })
			if err != nil || len(got.Message.Calls) != 1 {
				t.Fatalf("answer %+v, %v", got, err)
			}
			c := got.Message.Calls[0]
			if c.Name != "weather" || string(c.Args) != `{"city":"Oslo"}` || got.Stop != llm.StopTools || got.Message.Text != "" || got.Usage.Input != 50 || got.Usage.Output != 20 {
				t.Errorf("answer %+v", got)
			}
			if thought != "" && thought != "The user wants the weather." {
				t.Errorf("thought %q", thought)
			}
			record, err := json.Marshal(got.Message)
			if err != nil {
				t.Fatal(err)
			}
			var again llm.Message
			if err := json.Unmarshal(record, &again); err != nil {
				t.Fatal(err)
			}
			r.Messages = append(r.Messages, again, llm.Message{Role: llm.Tool, Results: []llm.ToolResult{{CallID: c.ID, Name: c.Name, Text: "-3 °C"}}})
			_, _ = llm.Collect(m.Stream(t.Context(), r), nil)
			var want any
			if err := json.Unmarshal(a.Files[1].Data, &want); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, secondMessage(t, body)); d != "" {
				t.Errorf("the next request (-want +got):\n%s", d)
			}
			other, err := openai.New(openai.Config{BaseURL: "http://127.0.0.1:1/v1", Model: "other", HTTP: &http.Client{Transport: server}})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = llm.Collect(other.Stream(t.Context(), r), nil)
			bare := map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
				"id": c.ID, "type": "function", "function": map[string]any{"name": "weather", "arguments": `{"city":"Oslo"}`}}}}
			if d := cmp.Diff(any(bare), secondMessage(t, body)); d != "" {
				t.Errorf("the request of another model (-want +got):\n%s", d)
			}
		})
	}
}

// secondMessage returns the second message of a request.
func secondMessage(t *testing.T, body []byte) any {
	t.Helper()
	var q struct{ Messages []any }
	if err := json.Unmarshal(body, &q); err != nil || len(q.Messages) < 2 {
		t.Fatalf("%v in %s", err, body)
	}
	return q.Messages[1]
}
