package config_test

import (
	"strings"
	"testing"

	"symbio/agent/node/config"
)

func TestWindowOfLongestMatchCounts(t *testing.T) {
	c, _, err := config.Parse("symbio.yaml", []byte("context_windows: {'openai:*': 200000, 'openai:gpt-x*': 400000, 'openai:gpt-x-mini': 100000, '*': 32000}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]int{
		"openai:gpt-x": 400000, "openai:gpt-x-mini": 100000, "openai:gpt-x-mini-2": 400000, "openai:o": 200000, "anthropic:c": 32000,
		"openai:gpt-x,anthropic:c": 32000, "": 32000,
	} {
		if got := c.Services.ContextWindows.Of(model); got != want {
			t.Errorf("%q: %d, want %d", model, got, want)
		}
	}
	if got := config.ContextWindows(nil).Of("x"); got != 0 {
		t.Errorf("nothing said: %d", got)
	}
	for text, want := range map[string]string{"context_windows: {x: 100}": "less than", "context_windows: {'a*b': 100000}": "the beginning of one", "context_windows: {x: many}": "line 1"} {
		c, _, err := config.Parse("symbio.yaml", []byte(text))
		if err == nil {
			err = c.Check()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
