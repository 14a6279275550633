package openai_test

import (
	"errors"
	"strings"
	"testing"

	"symbio/agent/llm"
)

func TestTemperatureStopWordsAndToolChoiceAreSent(t *testing.T) {
	hi, tools := []llm.Message{{Role: llm.User, Text: "hi"}}, []llm.ToolSpec{{Name: "A"}, {Name: "B"}}
	for name, c := range map[string]struct {
		r                llm.Request
		chat, responses  string // how the bodies differ from those of the request without it
		path             string // of the Responses API; "" = its own
		withoutResponses bool
	}{
		"nothing":     {},
		"temperature": {r: llm.Request{Temperature: new(0.0)}, chat: `"temperature":0,`, responses: `"temperature":0,`},
		"warm":        {r: llm.Request{Temperature: new(1.25)}, chat: `"temperature":1.25,`, responses: `"temperature":1.25,`},
		"auto":        {r: llm.Request{ToolChoice: llm.ChoiceAuto}, chat: `"tool_choice":"auto",`, responses: `"tool_choice":"auto",`},
		"none":        {r: llm.Request{ToolChoice: llm.ChoiceNone}, chat: `"tool_choice":"none",`, responses: `"tool_choice":"none",`},
		"required":    {r: llm.Request{ToolChoice: llm.ChoiceRequired}, chat: `"tool_choice":"required",`, responses: `"tool_choice":"required",`},
		"one tool":    {r: llm.Request{ToolChoice: "B"}, chat: `"tool_choice":{"type":"function","function":{"name":"B"}},`, responses: `"tool_choice":{"type":"function","name":"B"},`},
		"stop words":  {r: llm.Request{StopWords: []string{"END", "\n"}}, chat: `"stop":["END","\n"],`, withoutResponses: true},
	} {
		for _, own := range []bool{false, true} {
			body := func(r llm.Request) anyRequest {
				r.Messages, r.Tools = hi, tools
				m, list := refusing(t, own, func(anyRequest) (int, string) { return 0, "" })
				if _, err := llm.Collect(m.Stream(t.Context(), r), nil); err != nil {
					t.Fatal(err)
				}
				return (*list)[0]
			}
			plain, got, want := body(llm.Request{}), body(c.r), c.chat
			if own && !c.withoutResponses {
				want = c.responses
			}
			if own && c.withoutResponses { // that API has no stop words
				if got.path != "/v1/chat/completions" || !strings.Contains(got.text, strings.TrimSuffix(want, ",")) {
					t.Errorf("%s: asked %s with %s", name, got.path, got.text)
				}
				continue
			}
			text := strings.TrimSuffix(got.text, "}\n") + ",}"
			if !strings.Contains(text, want) || strings.TrimSuffix(strings.Replace(text, want, "", 1), ",}")+"}\n" != plain.text ||
				got.path != plain.path {
				t.Errorf("%s, own %v: body %s, want %s more than %s", name, own, got.text, want, plain.text)
			}
		}
	}
	if m, list := refusing(t, false, func(anyRequest) (int, string) { return 0, "" }); true {
		_, err := llm.Collect(m.Stream(t.Context(), llm.Request{Messages: hi, ToolChoice: llm.ChoiceNone}), nil)
		if err != nil || strings.Contains((*list)[0].text, "tool_choice") {
			t.Errorf("a choice without tools: %v, %s", err, (*list)[0].text)
		}
	}
}

func TestRefusedTemperatureIsLeftOut(t *testing.T) {
	for text, asked := range map[string]int{ // of three requests
		"Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.": 4,
		"Unsupported parameter: 'temperature' is not supported with this model.":                                        4,
		"invalid temperature: only 1 is allowed for this model":                                                         4,
		"`temperature` is deprecated for this model.":                                                                   4,
		"temperature must be between 0 and 1":                                                                           3,
	} {
		for _, own := range []bool{false, true} {
			m, list := refusing(t, own, func(q anyRequest) (int, string) {
				if hasField(q, "temperature") {
					return 400, message(text)
				}
				return 0, ""
			})
			for range 3 {
				_, err := llm.Collect(m.Stream(t.Context(), llm.Request{Messages: earlier.Messages, Temperature: new(0.0)}), nil)
				if (err == nil) != (asked == 4) || err != nil && !strings.Contains(err.Error(), text) {
					t.Errorf("%s: %v", text, err)
				}
			}
			if len(*list) != asked {
				t.Errorf("%s: %d requests, want %d", text, len(*list), asked)
			}
		}
	}
}

func TestRefusedStopWordsAreAnError(t *testing.T) {
	const onlyResponses = "This model is only supported in v1/responses and not in v1/chat/completions."
	for _, text := range []string{onlyResponses, "Unsupported parameter: 'stop' is not supported with this model."} {
		m, list := refusing(t, true, func(anyRequest) (int, string) { return 400, message(text) })
		_, err := llm.Collect(m.Stream(t.Context(), llm.Request{Messages: earlier.Messages, StopWords: []string{"END"}}), nil)
		if !errors.Is(err, llm.ErrInvalid) && !errors.Is(err, llm.ErrNoModel) || !strings.Contains(err.Error(), text) || len(*list) > 2 {
			t.Errorf("%v after %d requests", err, len(*list))
		}
	}
}
