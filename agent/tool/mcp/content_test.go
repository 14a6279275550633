package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// pixel is a GIF of one.
var pixel = []byte("GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;")

func TestPicturesOfAServerAreShown(t *testing.T) {
	image := map[string]any{"type": "image", "mimeType": "image/png", "data": pixel}
	resource := map[string]any{"type": "resource", "resource": map[string]any{"uri": "x://y", "mimeType": "image/gif", "blob": pixel}}
	sound := map[string]any{"type": "audio", "mimeType": "audio/wav", "data": pixel}
	f := &fake{answer: func(method string, params json.RawMessage) any {
		switch method {
		case "initialize":
			return map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": map[string]any{},
				"resources": map[string]any{}}, "serverInfo": map[string]any{"name": "fake", "version": "1"}}
		case "resources/read":
			return map[string]any{"contents": []any{resource["resource"]}}
		case "tools/call":
			return map[string]any{"content": []any{image, sound, map[string]any{"type": "text", "text": "that is all"}, resource}}
		}
		return listing(nil, described("look", "Looks."))(method, params)
	}}
	bubbled(t, Config{}, f.open, func(t *testing.T, ctx context.Context, m *Manager) {
		for name, c := range map[string]struct{ args, want string }{
			"look":          {`{}`, "[a picture, image/gif, 1 x 1 pixels, 43 bytes]\n[sound, audio/wav, 43 bytes, which is not played]\nthat is all\n[the resource x://y, a picture, image/gif, 1 x 1 pixels, 43 bytes]"},
			"read_resource": {`{"uri": "x://y"}`, "[the resource x://y, a picture, image/gif, 1 x 1 pixels, 43 bytes]"},
		} {
			one, err := m.Tool(ctx, "s", name)
			if err != nil {
				t.Fatal(err)
			}
			inv, err := one.Decode(json.RawMessage(c.args))
			if err != nil {
				t.Fatal(err)
			}
			r := inv.Run(ctx)
			if r.IsError || r.Text != c.want || len(r.Images) != strings.Count(c.want, "picture") || r.Images[0].Type != "image/gif" ||
				!bytes.Equal(r.Images[0].Data, pixel) {
				t.Errorf("%s: got %+v", name, r)
			}
		}
	})
}

func TestMCPResultIsTextForModel(t *testing.T) {
	for _, c := range []struct {
		name string
		r    sdk.CallToolResult
		want string
	}{
		{"nothing", sdk.CallToolResult{}, "(The tool answered nothing.)"},
		{"text of a stranger", sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "a\x1b[2J\u202eb\n"}}}, "ab\n"},
		{"structured alone", sdk.CallToolResult{StructuredContent: map[string]any{"a": 1.0}}, `{"a":1}`},
		{"structured again", sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: `{ "a": 1 }`}}, StructuredContent: map[string]any{"a": 1.0}}, `{ "a": 1 }`},
		{"text under a key", sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "x"}}, StructuredContent: map[string]any{"content": "x"}}, "x"},
		{"structured beside", sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "one"}}, StructuredContent: map[string]any{"a": 1.0}}, "one\n{\"a\":1}"},
		{"a picture", sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{MIMEType: "image/png\n]", Data: []byte("abc")}}}, "[a picture, image/png ], 3 bytes, which cannot be shown: an image of the type text/plain; charset=utf-8; png, jpeg, gif and webp can be sent]"},
		{"a picture under another name", sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{MIMEType: "text/html", Data: pixel}}}, "[a picture, image/gif, 1 x 1 pixels, 43 bytes]"},
		{"a resource that is one", sdk.CallToolResult{Content: []sdk.Content{&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "x://y", MIMEType: "application/x", Blob: pixel}}}}, "[the resource x://y, a picture, image/gif, 1 x 1 pixels, 43 bytes]"},
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
	if got := oneLine(strings.Repeat("ä", 400)); len(got) > maxWord || !strings.HasPrefix(got, "ää") || strings.Contains(got, "\uFFFD") {
		t.Errorf("a long word: got %q", got)
	}
}
