package acpcmd

import (
	"encoding/base64"
	"net/url"
	"path/filepath"
	"strings"

	acp "github.com/coder/acp-go-sdk"

	"symbio/agent"
	symbiov1 "symbio/proto/symbio/v1"
)

// messageOf returns a prompt as a message to an agent that works in dir. A link to a file becomes a mention, which attaches the
// file if the agent may read it; a text that the editor has embedded stands behind the words of the person, as data.
func messageOf(dir string, blocks []acp.ContentBlock) (*symbiov1.NextMessage, error) {
	var text, data strings.Builder
	m := &symbiov1.NextMessage{}
	for _, b := range blocks {
		switch {
		case b.Text != nil:
			text.WriteString(b.Text.Text)
		case b.ResourceLink != nil:
			text.WriteString(mention(dir, b.ResourceLink.Uri))
		case b.Resource != nil && b.Resource.Resource.TextResourceContents != nil:
			r := b.Resource.Resource.TextResourceContents
			text.WriteString(name(dir, r.Uri))
			data.WriteString(name(dir, r.Uri) + ":\n" + r.Text + "\n\n")
		case b.Image != nil:
			picture, err := base64.StdEncoding.DecodeString(b.Image.Data)
			if err != nil {
				return nil, invalid("the data of an image: " + err.Error())
			}
			m.Pictures = append(m.Pictures, &symbiov1.Picture{Type: b.Image.MimeType, Data: picture})
		default:
			return nil, invalid("a prompt has texts, images, links and embedded texts only")
		}
	}
	if m.Text = text.String(); strings.TrimSpace(m.Text) == "" && len(m.Pictures) == 0 {
		return nil, invalid("the prompt is empty")
	}
	if data.Len() > 0 {
		m.Text += agent.Piped + strings.TrimSpace(data.String())
	}
	return m, nil
}

func invalid(why string) error { return &acp.RequestError{Code: invalidParams, Message: why} }

// name returns the path of a file's address, relative to dir if it is below that; other addresses as they are.
func name(dir, address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "file" {
		return address
	}
	if below, err := filepath.Rel(dir, u.Path); err == nil && filepath.IsLocal(below) {
		return below
	}
	return u.Path
}

// mention returns a link as a mention in a message.
func mention(dir, address string) string {
	path := name(dir, address)
	switch {
	case path == address: // no file
		return path
	case strings.ContainsAny(path, " \t\n\""):
		return `@"` + path + `"`
	}
	return "@" + path
}
