package tasks

import (
	"testing"

	"symbio/community"
)

func TestAgentsAnswerIsJSONWhereASchemaWantsIt(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1}`:                     `{"a":1}`,
		"```json\n{\"a\":1}\n```":     `{"a":1}`,
		` 7 `:                         `7`,
		`It is 7.`:                    `"It is 7."`,
		"```json\nbroken\n```":        "\"```json\\nbroken\\n```\"",
		"quotes \" and\nmore\\ lines": `"quotes \" and\nmore\\ lines"`,
	} {
		got := asJSON(community.Reply{Data: []byte(text), ContentType: "text/plain"})
		if string(got.Data) != want || got.ContentType != "application/json" {
			t.Errorf("%q: got %s of type %s, want %s", text, got.Data, got.ContentType, want)
		}
	}
}
