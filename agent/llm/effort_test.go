package llm_test

import (
	"testing"

	"symbio/agent/llm"
)

func TestEffortAndThinkingStandForEachOther(t *testing.T) {
	for _, c := range []struct {
		thinking int
		effort   string
		tokens   int
		level    string
	}{
		{0, "", 0, ""}, {-1, "", 0, ""}, {-1, "high", 0, "high"},
		{0, "low", 2048, "low"}, {0, "medium", 8192, "medium"}, {0, "high", 24576, "high"},
		{1024, "", 1024, "low"}, {8000, "", 8000, "medium"}, {30000, "", 30000, "high"}, {1024, "high", 1024, "high"},
	} {
		r := llm.Request{Thinking: c.thinking, Effort: c.effort}
		if tokens, level := r.ThinkingTokens(), r.EffortLevel(); tokens != c.tokens || level != c.level {
			t.Errorf("thinking %d, effort %q: %d tokens, level %q; want %d, %q", c.thinking, c.effort, tokens, level, c.tokens, c.level)
		}
	}
}
