package mcp

import (
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestWhatAToolAnswersIsTextForAModel(t *testing.T) {
	for _, c := range []struct {
		name string
		r    sdk.CallToolResult
		want string
	}{
		{"nothing", sdk.CallToolResult{}, "(The tool answered nothing.)"},
		{"text of a stranger", sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "a\x1b[2J\u202eb\n"}}}, "a[2Jb\n"},
		{"structured alone", sdk.CallToolResult{StructuredContent: map[string]any{"a": 1.0}}, `{"a":1}`},
		{"structured again", sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: `{ "a": 1 }`}}, StructuredContent: map[string]any{"a": 1.0}}, `{ "a": 1 }`},
		{"text under a key", sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "x"}}, StructuredContent: map[string]any{"content": "x"}}, "x"},
		{"structured beside", sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "one"}}, StructuredContent: map[string]any{"a": 1.0}}, "one\n{\"a\":1}"},
		{"a picture", sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{MIMEType: "image/png\n]", Data: []byte("abc")}}}, "[a picture, image/png ], 3 bytes, which is not shown]"},
		{"sound", sdk.CallToolResult{Content: []sdk.Content{&sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("abc")}}}, "[sound, audio/wav, 3 bytes, which is not played]"},
		{"a link", sdk.CallToolResult{Content: []sdk.Content{&sdk.ResourceLink{URI: "x://y", Name: "y", Description: "why\nnot"}}}, "[a resource: x://y · y · why not]"},
		{"a resource", sdk.CallToolResult{Content: []sdk.Content{&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "x://y", Text: "t"}}}}, "[the resource x://y]\nt"},
		{"an empty one", sdk.CallToolResult{Content: []sdk.Content{&sdk.EmbeddedResource{}}}, "[an empty resource]"},
		{"bytes", sdk.CallToolResult{Content: []sdk.Content{&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "x://y", Blob: []byte{0, 1}}}}}, "[the resource x://y, , 2 bytes, which are no text]"},
	} {
		if got := answerOf(&c.r).Text; got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if got := word(strings.Repeat("ä", 400)); len(got) > maxWord || !strings.HasPrefix(got, "ää") || strings.Contains(got, "\uFFFD") {
		t.Errorf("a long word: got %q", got)
	}
}
