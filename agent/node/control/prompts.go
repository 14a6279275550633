package control

import (
	"context"
	"errors"
	"strings"

	"symbio/agent/tool/mcp"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
)

// MCP has the commands of people's conversations: the prompts of MCP servers, and skills, which have
// no server.
type MCP interface {
	Prompts(ctx context.Context) ([]mcp.Prompt, error)
	Prompt(ctx context.Context, server, name string, args map[string]string) (string, error)
}

// Prompts lists the prompts of the MCP servers and the skills for people. Servers that do not answer are in the notes.
func (c *server) Prompts(ctx context.Context, _ *symbiov1.PromptsRequest) (*symbiov1.PromptsReply, error) {
	all, err := c.cfg.MCP.Prompts(ctx)
	if ctx.Err() != nil {
		return nil, toStatus(context.Cause(ctx))
	}
	reply := new(symbiov1.PromptsReply)
	if err != nil {
		reply.Notes = strings.Split(err.Error(), "\n")
	}
	for _, p := range all {
		found := &symbiov1.MCPPrompt{Command: p.Command, Server: p.Server, Name: p.Name, Description: p.Description}
		for _, a := range p.Arguments {
			found.Arguments = append(found.Arguments, &symbiov1.MCPArgument{Name: a.Name, Description: a.Description, Required: a.Required})
		}
		reply.Prompts = append(reply.Prompts, found)
	}
	return reply, nil
}

// Prompt returns the text of a prompt.
func (c *server) Prompt(ctx context.Context, r *symbiov1.PromptRequest) (*symbiov1.PromptReply, error) {
	text, err := c.cfg.MCP.Prompt(ctx, r.GetServer(), r.GetName(), r.GetArguments())
	switch {
	case errors.Is(err, mcp.ErrUnknown):
		return nil, toStatus(community.Explain(community.ErrNotFound, err.Error()))
	case errors.Is(err, mcp.ErrNotReady):
		return nil, toStatus(community.Explain(community.ErrUnavailable, err.Error()))
	case err != nil:
		return nil, toStatus(err)
	}
	return &symbiov1.PromptReply{Text: text}, nil
}
