package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/anthropic"
	"symbio/internal/agent/llm/openai"
	"symbio/internal/agent/llm/wire"
)

// serviceNames are the providers that a key or an address sets up, in the order in which auto asks
// them.
var serviceNames = []string{"openai", "anthropic"}

// service is a provider that a key or an address sets up.
type service struct {
	// name is as in Spec; env is the prefix of the environment variables.
	name, env string
	key       llm.Secret
	// url is the base URL; "" = the provider's own service.
	url string
	// model is the model of auto; "" = one that the server lists.
	model string
	// preferred are the models that auto takes, the first that matches one in the server's list:
	// cheap and able to call tools before large.
	preferred []string
	// matches reports whether a listed name is one of the preferred.
	matches func(listed, preferred string) bool
	// unset is the error of a provider without a key and a URL. Its second line says what to set.
	unset string
	// hint says in a few words what to set, for a list of providers.
	hint string
	open func(model string) (llm.Model, error)
	// list asks for the models, in the server's order. Its errors call the model by that name.
	list func(ctx context.Context, name string) ([]string, error)
}

// services returns the providers by name, configured or not. Clients are made by open and list, so
// the call is cheap.
func (c Config) services() map[string]service {
	wireConfig := func(url string, key llm.Secret, env, model, name string) wire.Config {
		return wire.Config{BaseURL: url, Key: key, KeyName: env + "_API_KEY", HTTP: c.HTTP, Logger: c.Logger, Model: model, Name: name,
			FirstToken: c.FirstToken, Memory: c.Memory}
	}
	openaiConfig := func(model, name string) openai.Config {
		return wireConfig(c.OpenAIURL, c.OpenAIKey, "OPENAI", model, name)
	}
	anthropicConfig := func(model, name string) anthropic.Config {
		return anthropic.Config{Config: wireConfig(c.AnthropicURL, c.AnthropicKey, "ANTHROPIC", model, name)}
	}
	return map[string]service{
		"openai": {
			name: "openai", env: "OPENAI", key: c.OpenAIKey, url: c.OpenAIURL, model: c.OpenAIModel,
			preferred: []string{"gpt-5-mini", "gpt-4.1-mini", "gpt-4o-mini", "gpt-5", "gpt-4.1", "gpt-4o"},
			matches:   func(listed, preferred string) bool { return listed == preferred },
			unset:     "neither OPENAI_API_KEY nor OPENAI_BASE_URL is set in the environment of the node.\nStart it with OPENAI_API_KEY for OpenAI's service, or OPENAI_BASE_URL=http://HOST:PORT/v1 for a server of your own",
			hint:      "set OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server",
			open:      func(model string) (llm.Model, error) { return openai.New(openaiConfig(model, "")) },
			list: func(ctx context.Context, name string) ([]string, error) {
				return openai.Models(ctx, openaiConfig("", name))
			},
		},
		"anthropic": {
			name: "anthropic", env: "ANTHROPIC", key: c.AnthropicKey, url: c.AnthropicURL, model: c.AnthropicModel,
			preferred: []string{"sonnet", "haiku", "opus"}, // families; of one, the service lists the newest first
			matches:   strings.Contains,
			unset:     "ANTHROPIC_API_KEY is not set in the environment of the node.\nStart it with that, or set providers.anthropic.base_url in the configuration for a compatible server of your own",
			hint:      "set ANTHROPIC_API_KEY",
			open:      func(model string) (llm.Model, error) { return anthropic.New(anthropicConfig(model, "")) },
			list: func(ctx context.Context, name string) ([]string, error) {
				return anthropic.Models(ctx, anthropicConfig("", name))
			},
		},
	}
}

// configured reports whether the service has a key or a URL. A server of one's own may need no key.
func (s service) configured() bool { return !s.key.Empty() || s.url != "" }

// openModel opens the model of that name. The error says what to set.
func (s service) openModel(name string) (llm.Model, error) {
	if !s.configured() {
		return nil, fmt.Errorf("%s:%s: %s", s.name, name, s.unset)
	}
	return s.open(name)
}

// auto opens the configured model, or the first preferred one that the server lists. For another
// server than the provider's own, any model that can chat will do. ErrNone: no listed model is
// known.
func (s service) auto(ctx context.Context) (llm.Model, error) {
	if s.model != "" {
		return s.open(s.model)
	}
	names, err := s.list(ctx, "auto")
	if err != nil {
		return nil, fmt.Errorf("asking which models %s_API_KEY and %s_BASE_URL offer: %w\n"+
			"Name one to skip the question: --model %s:NAME, or %s_MODEL=NAME", s.env, s.env, err, s.name, s.env)
	}
	for _, p := range s.preferred {
		if i := slices.IndexFunc(names, func(listed string) bool { return s.matches(listed, p) }); i >= 0 {
			return s.open(names[i])
		}
	}
	if chat := chatModels(names); s.url != "" && len(chat) > 0 {
		return s.open(chat[0])
	}
	return nil, fmt.Errorf("%w: none of the %d models that the server lists is known to do.\n"+
		"Name one: --model %s:NAME, or %s_MODEL=NAME", ErrNone, len(names), s.name, s.env)
}

// listing asks for the models of the service, or says what sets it up.
func (s service) listing(ctx context.Context) Listing {
	l := Listing{Provider: s.name, From: s.env + "_API_KEY"}
	if !s.configured() {
		l.Err = errors.New(s.hint)
		return l
	}
	if s.url != "" {
		l.From = s.url
	}
	l.Models, l.Err = s.list(ctx, s.name)
	return l
}
