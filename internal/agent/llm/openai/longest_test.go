package openai_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"symbio/agent/llm"
)

func TestLongestAnswerIsNamedAsTheServerKnowsIt(t *testing.T) {
	type limits struct {
		Old int `json:"max_tokens"`
		New int `json:"max_completion_tokens"`
	}
	var asked []limits
	m := served(t, func(r *http.Request) (*http.Response, error) {
		var l limits
		if err := json.NewDecoder(r.Body).Decode(&l); err != nil {
			t.Error(err)
		}
		if asked = append(asked, l); l.Old > 0 {
			return reply(400, "", strings.NewReader(`{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}`)), nil
		}
		return reply(200, "", strings.NewReader(`data: {"choices":[{"delta":{"content":"yes"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")), nil
	})
	for _, most := range []int{0, 50, 60} {
		if got, err := llm.Collect(m.Stream(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "x"}},
			MaxTokens: most}), nil); err != nil || got.Message.Text != "yes" {
			t.Errorf("at most %d: %+v, %v", most, got, err)
		}
	}
	want := []limits{{}, {Old: 50}, {New: 50}, {New: 60}}
	if len(asked) != len(want) {
		t.Fatalf("asked %+v, want %+v", asked, want)
	}
	for i := range want {
		if asked[i] != want[i] {
			t.Errorf("request %d: %+v, want %+v", i, asked[i], want[i])
		}
	}
}
