package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/internal/security/visible"
)

// Answer is the result of a call.
type Answer struct {
	// Text is the whole result for a model; content that is not text is described in it. Images are
	// the pictures of the result.
	Text   string      `json:"text"`
	Images []llm.Image `json:"-"`
	// Data is the structured content; nil if the tool returned none. It is not checked against
	// Tool.Output.
	Data json.RawMessage `json:"structured,omitempty"`
	// Content is the content blocks as the server sent them, for programs.
	Content json.RawMessage `json:"content,omitempty"`
	// IsError is true if the tool reports that it failed.
	IsError bool `json:"is_error"`
}

// answerOf converts a result of the SDK. Structured content is added to the text unless the text
// repeats it already, so that a model does not read it twice. The text is never empty: a model
// reads that the tool answered nothing. The length of the text is not limited here: the Set does
// that.
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
	a.Text = cmp.Or(a.Text, "(The tool answered nothing.)")
	return a
}

// repeats reports whether one of the texts is the structured content. The protocol asks servers to
// send both. Some servers send the text under a single key of the structured content; that counts,
// too. JSON texts are compared in the form of json.Marshal, which sorts keys and drops white space.
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

// content returns a content block as text, and adds a picture to a.Images. Brackets mark words that
// are not the server's. "" means that the block has nothing to show.
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

// picture adds a picture to a.Images and returns its description. If it cannot be shown, the
// description says why. claimed is the media type that the server names; it is used only if the
// bytes are not a known image format.
func (a *Answer) picture(claimed string, data []byte) string {
	img, err := llm.NewImage(data)
	switch {
	case err != nil:
		return fmt.Sprintf("%s, %d bytes, which cannot be shown: %s", oneLine(claimed), len(data), strings.TrimPrefix(err.Error(), llm.ErrInvalid.Error()+": "))
	case len(a.Images) >= llm.MaxImages:
		return img.String() + ", which is not shown: there are too many"
	}
	a.Images = append(a.Images, img)
	return img.String()
}

// contents returns the contents of a resource as text, and adds a picture to a.Images. A resource
// has either text or bytes (Blob).
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

// resourceLine returns one line that describes a resource: its URI, and its name, type and
// description where they differ from the URI.
func resourceLine(uri, name, mime, description string) string {
	line := oneLine(uri)
	for _, more := range []string{name, mime, description} {
		if more = oneLine(more); more != "" && more != line {
			line += " · " + more
		}
	}
	return line
}

// maxWord is how many bytes of a name, a URI or a description are shown on one line.
const maxWord = 500

// oneLine returns foreign text on one line, at most maxWord bytes long, without characters that are
// not printable.
func oneLine(text string) string {
	return visible.Prefix(strings.Join(strings.Fields(tool.Readable([]byte(text))), " "), maxWord)
}
