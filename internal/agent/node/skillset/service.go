package skillset

import (
	"context"
	"errors"
	"strings"

	"symbio/agent/tool/mcp"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
)

// prompts are the prompts of MCP servers.
type prompts interface {
	Prompts(ctx context.Context) ([]mcp.Prompt, error)
	Prompt(ctx context.Context, server, name string, args map[string]string) (string, error)
}

// Service has the methods of the control API for skills and for prompts. A skill that people may start is a command of
// their conversations, as the prompts of MCP servers are: it has no server, and its command is its name.
type Service struct {
	skills *Skills
	mcp    prompts
}

// NewService returns a Service.
func NewService(s *Skills, mcp prompts) Service { return Service{s, mcp} }

// Skills returns the catalog for the command line, with the skills that
// agents have active. It looks at the disk: without rescan only for what has
// changed, so that a skill that was just written is in the list.
func (s Service) Skills(ctx context.Context, r *symbiov1.SkillsRequest) (*symbiov1.SkillsReply, error) {
	if s.skills.Registry == nil {
		return &symbiov1.SkillsReply{}, nil
	}
	look := s.skills.Registry.RefreshNow
	if r.GetRescan() {
		look = s.skills.rescan
	}
	catalog, err := look(ctx)
	if err != nil {
		return nil, err
	}
	holders, err := s.skills.Registry.AgentsBySkill(ctx)
	return s.skills.cfg.Reply(catalog, holders), err
}

// SkillPrompt returns the text about skills that models get.
func (s Service) SkillPrompt(ctx context.Context, r *symbiov1.SkillPromptRequest) (*symbiov1.SkillPromptReply, error) {
	return s.skills.cfg.PromptText(ctx, r.GetFormat(), r.GetNames())
}

// Prompts lists the prompts of the MCP servers and the skills for people. Servers that do not answer are in the notes.
func (s Service) Prompts(ctx context.Context, _ *symbiov1.PromptsRequest) (*symbiov1.PromptsReply, error) {
	all, err := s.mcp.Prompts(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	reply := new(symbiov1.PromptsReply)
	if err != nil {
		reply.Notes = strings.Split(err.Error(), "\n")
	}
	if s.skills.Registry != nil {
		all = append(commands(s.skills.Registry.Now().Catalog), all...)
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
func (s Service) Prompt(ctx context.Context, r *symbiov1.PromptRequest) (*symbiov1.PromptReply, error) {
	text, err := s.mcp.Prompt(ctx, r.GetServer(), r.GetName(), r.GetArguments())
	switch {
	case errors.Is(err, mcp.ErrUnknown):
		return nil, community.Explain(community.ErrNotFound, err.Error())
	case errors.Is(err, mcp.ErrNotReady):
		return nil, community.Explain(community.ErrUnavailable, err.Error())
	}
	return &symbiov1.PromptReply{Text: text}, err
}
