package anthropic_test

import (
	"strings"
	"testing"

	"symbio/agent/llm"
)

func TestAnswerIsNoLongerThanItMayBe(t *testing.T) {
	ask := func(most, thinking int) string {
		return sent(t, llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "x"}}, MaxTokens: most, Thinking: thinking})
	}
	for name, c := range map[string]struct {
		most, thinking int
		has, hasNot    string
	}{
		"shorter than usual":          {100, 0, `"max_tokens":100,`, "thinking"},
		"longer than usual":           {1 << 20, 0, `"max_tokens":16384,`, "thinking"},
		"thoughts have a half":        {6000, 5000, `"budget_tokens":3000`, ""},
		"thoughts that have no room":  {1500, 5000, `"max_tokens":1500,`, "budget_tokens"},
		"thoughts that have all room": {0, 5000, `"max_tokens":21384`, ""},
	} {
		if body := ask(c.most, c.thinking); !strings.Contains(body, c.has) || c.hasNot != "" && strings.Contains(body, c.hasNot) {
			t.Errorf("%s: %s; want %s, and not %s", name, body, c.has, c.hasNot)
		}
	}
}
