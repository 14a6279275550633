package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/security/visible"
)

// Answer is what a tool answered.
type Answer struct {
	// Text is all of it, for a model: what is no text is described. Images are the pictures among it.
	Text   string      `json:"text"`
	Images []llm.Image `json:"-"`
	// Data is its structured content; nil = none.
	Data json.RawMessage `json:"structured,omitempty"`
	// Content is what the server sent, for programs.
	Content json.RawMessage `json:"content,omitempty"`
	// IsError says that the tool could not do what it was asked.
	IsError bool `json:"is_error"`
}

// answerOf is a result as people and models read it.
func answerOf(r *sdk.CallToolResult) Answer {
	a := Answer{IsError: r.IsError}
	var parts []string
	for _, c := range r.Content {
		if text := a.content(c); text != "" {
			parts = append(parts, text)
		}
	}
	if r.StructuredContent != nil {
		if data, err := json.Marshal(r.StructuredContent); err == nil {
			a.Data = data
			if !repeats(parts, data) {
				parts = append(parts, tool.Readable(data))
			}
		}
	}
	if content, err := json.Marshal(r.Content); err == nil {
		a.Content = content
	}
	a.Text = strings.Join(parts, "\n")
	if a.Text == "" {
		a.Text = "(The tool answered nothing.)"
	}
	return a
}

// repeats says that the structured content stands among the texts already, as the protocol asks servers to have it, or
// that it is such a text under one key, as others have it.
func repeats(parts []string, data []byte) bool {
	var alone map[string]string
	if json.Unmarshal(data, &alone) != nil || len(alone) != 1 {
		alone = nil
	}
	for _, p := range parts {
		for _, text := range alone {
			if tool.Readable([]byte(text)) == p {
				return true
			}
		}
		var v any
		if json.Unmarshal([]byte(p), &v) != nil {
			continue
		}
		if same, err := json.Marshal(v); err == nil && bytes.Equal(same, data) {
			return true
		}
	}
	return false
}

// content is a piece of what a server answered, in words. A picture is taken into the answer, too.
func (a *Answer) content(c sdk.Content) string {
	switch c := c.(type) {
	case *sdk.TextContent:
		return tool.Readable([]byte(c.Text))
	case *sdk.ImageContent:
		return "[a picture, " + a.picture(c.MIMEType, c.Data) + "]"
	case *sdk.AudioContent:
		return fmt.Sprintf("[sound, %s, %d bytes, which is not played]", oneLine(c.MIMEType), len(c.Data))
	case *sdk.ResourceLink:
		return "[a resource: " + resourceLine(c.URI, c.Name, c.MIMEType, c.Description) + "]"
	case *sdk.EmbeddedResource:
		return a.contents(c.Resource)
	}
	return "[content of a kind that is not known here]"
}

// picture takes one, and describes it as it is, or as the server says and why it cannot be shown.
func (a *Answer) picture(said string, data []byte) string {
	img, err := llm.NewImage(data)
	switch {
	case err != nil:
		return fmt.Sprintf("%s, %d bytes, which cannot be shown: %s", oneLine(said), len(data), strings.TrimPrefix(err.Error(), llm.ErrInvalid.Error()+": "))
	case len(a.Images) >= llm.MaxImages:
		return img.String() + ", which is not shown: there are too many"
	}
	a.Images = append(a.Images, img)
	return img.String()
}

func (a *Answer) contents(c *sdk.ResourceContents) string {
	switch {
	case c == nil:
		return "[an empty resource]"
	case c.Text == "" && llm.IsImage(c.Blob):
		return "[the resource " + oneLine(c.URI) + ", a picture, " + a.picture(c.MIMEType, c.Blob) + "]"
	case c.Text == "" && len(c.Blob) > 0:
		return fmt.Sprintf("[the resource %s, %s, %d bytes, which are no text]", oneLine(c.URI), oneLine(c.MIMEType), len(c.Blob))
	}
	return fmt.Sprintf("[the resource %s]\n%s", oneLine(c.URI), tool.Readable([]byte(c.Text)))
}

func resourceLine(uri, name, mime, description string) string {
	line := oneLine(uri)
	for _, more := range []string{name, mime, description} {
		if more = oneLine(more); more != "" && more != line {
			line += " · " + more
		}
	}
	return line
}

// maxWord is what of a name, a URI or a line about one is shown.
const maxWord = 500

// oneLine is a text of a stranger on one line.
func oneLine(text string) string {
	return visible.Prefix(strings.Join(strings.Fields(tool.Readable([]byte(text))), " "), maxWord)
}
