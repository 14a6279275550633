package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"symbio/agent/llm"
	"symbio/agent/llm/anthropic"
	"symbio/agent/llm/openai"
)

// What Reach could not find out.
var (
	// ErrUnlisted means that the model's server answers, but does not list a model of that name. Some servers do not list
	// all they have.
	ErrUnlisted = errors.New("the server does not list it")
	// ErrElsewhere means that the model is on another node, and only a running node can ask that one.
	ErrElsewhere = errors.New("it is on another node")
)

// Reach opens the model as Open does and asks its server whether it is there, without asking the model anything. With
// ErrUnlisted the model is returned too. It waits no longer than ctx; no error contains a key.
func (c Config) Reach(ctx context.Context, s Spec) (llm.Model, error) {
	if s.Provider == "peer" && c.Peer == nil {
		return nil, fmt.Errorf("%s: %w", s, ErrElsewhere)
	}
	m, err := c.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	kind, name, _ := strings.Cut(m.Name(), ":")
	// auto has asked already, unless it was told a name.
	told := s.Provider != "auto" || kind == "openai" && c.OpenAIModel != "" || kind == "anthropic" && c.AnthropicModel != ""
	var names []string
	switch {
	case kind == "openai" && told:
		cfg := c.openaiConfig()
		cfg.Name = m.Name()
		names, err = openai.Models(ctx, cfg)
	case kind == "anthropic" && told:
		cfg := c.anthropicConfig()
		cfg.Name = m.Name()
		names, err = anthropic.Models(ctx, cfg)
	case s.Provider == "ollama":
		_, names, err = c.ollamaModels(ctx)
	default:
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, name) {
		return m, fmt.Errorf("%s: %w", m.Name(), ErrUnlisted)
	}
	return m, nil
}

// Listing is what one provider has.
type Listing struct {
	Provider string // as in Spec; ollama for one on this machine
	From     string // what sets it up, such as OPENAI_API_KEY
	Models   []string
	// Err is why there are none: the server was asked in vain, or what to set.
	Err error
}

// List asks every provider that is set up for its models, and says of the others what sets them up. It waits no longer
// than ctx.
func (c Config) List(ctx context.Context) []Listing {
	list := []Listing{{Provider: "openai", From: "OPENAI_API_KEY"}, {Provider: "anthropic", From: "ANTHROPIC_API_KEY"}, {Provider: "ollama"}}
	if l := &list[0]; c.OpenAIKey.Empty() && c.OpenAIURL == "" {
		l.Err = errors.New("set OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server")
	} else {
		cfg := c.openaiConfig()
		if cfg.Name = "openai"; c.OpenAIURL != "" {
			l.From = c.OpenAIURL
		}
		l.Models, l.Err = openai.Models(ctx, cfg)
	}
	if l := &list[1]; c.AnthropicKey.Empty() && c.AnthropicURL == "" {
		l.Err = errors.New("set ANTHROPIC_API_KEY")
	} else {
		cfg := c.anthropicConfig()
		if cfg.Name = "anthropic"; c.AnthropicURL != "" {
			l.From = c.AnthropicURL
		}
		l.Models, l.Err = anthropic.Models(ctx, cfg)
	}
	list[2].From, list[2].Models, list[2].Err = c.ollamaModels(ctx)
	return list
}
