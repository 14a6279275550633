package anthropic_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/anthropic"
)

func TestTemperatureStopWordsAndToolChoiceAreSent(t *testing.T) {
	body := func(model string, r llm.Request) string {
		r.Messages, r.Tools = earlier.Messages, []llm.ToolSpec{{Name: "A"}, {Name: "B c"}}
		return sent(t, r, func(c *anthropic.Config) { c.Model = model })
	}
	form := &llm.Output{Name: "x", Schema: []byte(`{"type":"object"}`)}
	for name, c := range map[string]struct {
		r          llm.Request
		want, lack string
		adaptive   string // what a model that decides itself gets instead of want
	}{
		"nothing":              {llm.Request{}, "", "temperature", ""},
		"temperature":          {llm.Request{Temperature: new(0.0)}, `"temperature":0,"stream":true`, "thinking", ""},
		"more than it takes":   {llm.Request{Temperature: new(1.5)}, `"temperature":1,"stream":true`, "1.5", ""},
		"beside thoughts":      {llm.Request{Temperature: new(0.5), Thinking: 2000}, `"thinking":`, "temperature", ""},
		"too short to think":   {llm.Request{Temperature: new(0.5), Thinking: 2000, MaxTokens: 50}, `"temperature":0.5`, "thinking", ""},
		"stop words":           {llm.Request{StopWords: []string{"END", "x"}}, `"stop_sequences":["END","x"],"stream":true`, "tool_choice", ""},
		"auto":                 {llm.Request{ToolChoice: llm.ChoiceAuto}, `"tool_choice":{"type":"auto"}`, "temperature", ""},
		"none":                 {llm.Request{ToolChoice: llm.ChoiceNone, Thinking: 2000}, `"tool_choice":{"type":"none"},"thinking":`, "temperature", ""},
		"required":             {llm.Request{ToolChoice: llm.ChoiceRequired, Thinking: 2000}, `"tool_choice":{"type":"any"}`, "thinking", ""},
		"one tool":             {llm.Request{ToolChoice: "B c", Effort: "low"}, `"tool_choice":{"type":"tool","name":"B_c"}`, "thinking", ""},
		"beside a form":        {llm.Request{ToolChoice: llm.ChoiceAuto, Output: form}, `"tool_choice":{"type":"tool","name":"answer_x"}`, "temperature", `"tool_choice":{"type":"auto"}`},
		"a choice and a limit": {llm.Request{ToolChoice: "A", MaxTokens: 50, Temperature: new(1.0)}, `"tool_choice":{"type":"tool","name":"A"},"temperature":1,`, "thinking", ""},
	} {
		for _, model := range []string{"m", "claude-opus-5"} {
			want, lack := c.want, c.lack
			if model != "m" && c.adaptive != "" {
				want, lack = c.adaptive, "nothing"
			}
			if got := body(model, c.r); !strings.Contains(got, want) || strings.Contains(got, lack) {
				t.Errorf("%s, %s: %s, want %s and no %s", name, model, got, want, lack)
			}
		}
	}
	if got := sent(t, llm.Request{Messages: earlier.Messages, ToolChoice: llm.ChoiceNone}); strings.Contains(got, "tool_choice") {
		t.Errorf("a choice without tools: %s", got)
	}
}

func TestForcedToolIsACall(t *testing.T) {
	m := served(t, func(*http.Request) (*http.Response, error) {
		return reply(200, "application/json", strings.NewReader(`{"type":"message","content":[{"type":"tool_use","id":"1","name":"A","input":{"a":1}}],"stop_reason":"tool_use"}`)), nil
	})
	got, err := llm.Collect(m.Stream(t.Context(), llm.Request{Messages: earlier.Messages, Tools: []llm.ToolSpec{{Name: "A"}}, ToolChoice: "A"}), nil)
	if err != nil || got.Stop != llm.StopTools || len(got.Message.Calls) != 1 || got.Message.Text != "" {
		t.Errorf("%+v, %v; want the call", got, err)
	}
}

func TestRefusedTemperatureIsLeftOut(t *testing.T) {
	asked := 0
	m := served(t, func(r *http.Request) (*http.Response, error) {
		asked++
		if b, err := io.ReadAll(r.Body); err != nil || strings.Contains(string(b), "temperature") {
			return reply(400, "", strings.NewReader("{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"`temperature` is deprecated for this model.\"}}")), err
		}
		return reply(200, "application/json", strings.NewReader(`{"type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"}`)), nil
	})
	for range 3 {
		if _, err := llm.Collect(m.Stream(t.Context(), llm.Request{Messages: earlier.Messages, Temperature: new(0.3)}), nil); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 4 {
		t.Errorf("%d requests of three turns, want one more", asked)
	}
}
