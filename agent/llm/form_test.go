package llm_test

import (
	"testing"

	"symbio/agent/llm"
)

func TestAnswerAsJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1}`:                     `{"a":1}`,
		"```json\n{\"a\":1}\n```":     `{"a":1}`,
		"```\n[1]\n```":               `[1]`,
		` 7 `:                         `7`,
		`It is 7.`:                    `"It is 7."`,
		`1 2`:                         `"1 2"`,
		``:                            `""`,
		"```json\nbroken\n```":        "\"```json\\nbroken\\n```\"",
		"quotes \" and\nmore\\ lines": `"quotes \" and\nmore\\ lines"`,
	} {
		if got := llm.AsJSON(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
