package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"symbio/agent/llm"
	"symbio/agent/llm/openai"
)

// ErrUnlisted means that the model's server answers, but does not list a model of that name. Some servers do not list
// all they have.
var ErrUnlisted = errors.New("the server does not list it")

// Reach opens the model as Open does and asks its server whether it is there, without asking the model anything. With
// ErrUnlisted the model is returned too. It waits no longer than ctx; no error contains a key.
func (c Config) Reach(ctx context.Context, s Spec) (llm.Model, error) {
	m, err := c.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	name := s.Name
	switch {
	case s.Provider == "auto" && c.OpenAIModel != "" && strings.HasPrefix(m.Name(), "openai:"):
		name = c.OpenAIModel // the only case in which auto did not ask
	case s.Provider != "openai":
		return m, nil
	}
	cfg := c.openaiConfig()
	cfg.Name = m.Name()
	names, err := openai.Models(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, name) {
		return m, fmt.Errorf("%s: %w", m.Name(), ErrUnlisted)
	}
	return m, nil
}
