package llm_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"symbio/agent/llm"
)

func TestRequestIsChecked(t *testing.T) {
	tools := []llm.ToolSpec{{Name: "A"}}
	for name, c := range map[string]struct {
		r    llm.Request
		want string // "" = it can be sent
	}{
		"nothing":              {llm.Request{}, ""},
		"all":                  {llm.Request{Temperature: new(2.0), StopWords: []string{"a", "b", "c", "d"}, ToolChoice: "A", Tools: tools}, ""},
		"no choice, no tools":  {llm.Request{ToolChoice: llm.ChoiceNone}, ""},
		"required":             {llm.Request{ToolChoice: llm.ChoiceRequired, Tools: tools}, ""},
		"cold":                 {llm.Request{Temperature: new(-0.1)}, "a temperature of -0.1"},
		"hot":                  {llm.Request{Temperature: new(2.1)}, "want 0 to 2"},
		"no number":            {llm.Request{Temperature: new(math.NaN())}, "NaN"},
		"many words":           {llm.Request{StopWords: strings.Split("abcde", "")}, "at most 4"},
		"an empty word":        {llm.Request{StopWords: []string{"a", ""}}, "1 to 256 bytes"},
		"a long word":          {llm.Request{StopWords: []string{strings.Repeat("a", 257)}}, "1 to 256 bytes"},
		"no such tool":         {llm.Request{ToolChoice: "B", Tools: tools}, `"B", and the request has no such tool`},
		"required of none":     {llm.Request{ToolChoice: llm.ChoiceRequired}, "no such tool"},
		"a picture of nothing": {llm.Request{Messages: []llm.Message{{Images: []llm.Image{{}}}}}, "without data"},
	} {
		err := c.r.Check()
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, llm.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
