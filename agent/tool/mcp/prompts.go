package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/tool"
)

const (
	// maxPrompts limits the prompts of one server, and maxArguments the arguments of one prompt.
	maxPrompts   = 200
	maxArguments = 32
	// maxPromptText limits the text of a prompt, in bytes: about 16,000 tokens.
	maxPromptText = 64 << 10
	// maxPromptWords limits each name and description.
	maxPromptWords = 300
)

// Prompt is a text that a server offers to people. Its words are the server's, which is not trusted.
type Prompt struct {
	// Command is mcp__SERVER__NAME.
	Command     string
	Server      string
	Name        string
	Description string
	Arguments   []Argument
}

// Argument is an argument of a prompt.
type Argument struct {
	Name, Description string
	Required          bool
}

// Prompts returns the prompts of all servers that are ready, by server. It starts the servers, and
// waits for them as Tools does. The error joins the errors of servers that did not answer; it stands
// beside the prompts of the others.
func (m *Manager) Prompts(ctx context.Context) (all []Prompt, err error) {
	m.Tools(ctx, false)
	for _, s := range m.all() {
		session := s.connection.state().session
		if session == nil || session.InitializeResult().Capabilities.Prompts == nil {
			continue
		}
		own, failed := s.prompts(ctx, session)
		all, err = append(all, own...), errors.Join(err, failed)
	}
	return all, err
}

// prompts asks one server for its prompts.
func (s *server) prompts(ctx context.Context, session *sdk.ClientSession) (all []Prompt, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.m.cfg.StartTimeout)
	defer cancel()
	for p, err := range session.Prompts(ctx, nil) {
		if err != nil {
			return all, fmt.Errorf("the prompts of %s: %s", s.entry.Name, shortError(cause(ctx, err)))
		}
		if p.Name == "" || words(p.Name) != p.Name { // it could not be typed
			continue
		}
		found := Prompt{Command: ToolPrefix(s.entry.Name) + p.Name, Server: s.entry.Name, Name: p.Name, Description: words(p.Description)}
		for _, a := range p.Arguments[:min(len(p.Arguments), maxArguments)] {
			found.Arguments = append(found.Arguments, Argument{words(a.Name), words(a.Description), a.Required})
		}
		if all = append(all, found); len(all) == maxPrompts {
			break
		}
	}
	return all, nil
}

// words returns a text of a server on one line, printable and short.
func words(text string) string {
	return tool.Shorten(strings.Join(strings.Fields(tool.Readable([]byte(text))), " "), maxPromptWords)
}

// Prompt returns the text of a prompt with its arguments: the texts of its messages, separated by
// blank lines. Other contents are named. It is data of the server, and is given to an agent as what a
// person says: the person should see it. Errors: ErrUnknown, ErrNotReady, and the server's own.
func (m *Manager) Prompt(ctx context.Context, server, name string, args map[string]string) (string, error) {
	s, err := m.find(server)
	if err != nil {
		return "", err
	}
	session, err := s.session(ctx)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.CallTimeout)
	defer cancel()
	r, err := session.GetPrompt(ctx, &sdk.GetPromptParams{Name: name, Arguments: args})
	if err != nil {
		return "", fmt.Errorf("the prompt %s of %s: %s", words(name), s.entry.Name, shortError(cause(ctx, err)))
	}
	var parts []string
	for _, message := range r.Messages {
		text := ""
		switch c := message.Content.(type) {
		case *sdk.TextContent:
			text = c.Text
		case *sdk.EmbeddedResource:
			if c.Resource != nil {
				text = c.Resource.Text
			}
		}
		text = cmp.Or(text, "[content that is no text]")
		if message.Role == "assistant" {
			text = "Assistant: " + text
		}
		parts = append(parts, text)
	}
	text := tool.Readable([]byte(strings.Join(parts, "\n\n")))
	if strings.TrimSpace(text) == "" {
		return "", fmt.Errorf("the prompt %s of %s is empty", words(name), s.entry.Name)
	}
	return tool.Shorten(text, maxPromptText), nil
}
