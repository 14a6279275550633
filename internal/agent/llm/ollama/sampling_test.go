package ollama_test

import (
	"errors"
	"strings"
	"testing"

	"symbio/agent/llm"
)

func TestTemperatureStopWordsAndToolChoiceAreSent(t *testing.T) {
	for name, c := range map[string]struct {
		r          llm.Request
		want, lack string
	}{
		"nothing":     {llm.Request{}, `"options":{},`, "temperature"},
		"temperature": {llm.Request{Temperature: new(0.0)}, `"options":{"temperature":0},`, "stop"},
		"stop words":  {llm.Request{StopWords: []string{"END", "\n"}, MaxTokens: 5}, `"options":{"num_predict":5,"stop":["END","\n"]},`, "temperature"},
		"auto":        {llm.Request{ToolChoice: llm.ChoiceAuto}, `"tools":`, "choice"},
		"none":        {llm.Request{ToolChoice: llm.ChoiceNone}, `"messages":`, "tools"},
	} {
		c.r.Tools = []llm.ToolSpec{{Name: "A"}}
		s := &server{show: "{}"}
		if _, err := llm.Collect(model(t, s).Stream(t.Context(), c.r), nil); err != nil || !strings.Contains(s.bodies[0], c.want) || strings.Contains(s.bodies[0], c.lack) {
			t.Errorf("%s: %v, %s; want %s and no %s", name, err, s.bodies, c.want, c.lack)
		}
	}
	for _, choice := range []llm.ToolChoice{llm.ChoiceRequired, "A"} {
		s := &server{show: "{}"}
		_, err := llm.Collect(model(t, s).Stream(t.Context(), llm.Request{Tools: []llm.ToolSpec{{Name: "A"}}, ToolChoice: choice}), nil)
		if !errors.Is(err, llm.ErrInvalid) || !strings.Contains(err.Error(), "cannot force") || len(s.paths) > 0 {
			t.Errorf("%s: %v, asked %v; want an error before anything is asked", choice, err, s.paths)
		}
	}
}
