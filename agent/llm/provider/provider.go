// Package provider picks a model: by the name a person gave, or by what the environment offers.
//
// The one idea: a specification is "PROVIDER:NAME", and "auto" tries the providers in a fixed order,
// so the same environment always gives the same model. Every error says what to do about it. It
// does not read the environment itself: FromEnv takes the lookup, so that only commands do.
package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"symbio/agent/llm"
	"symbio/agent/llm/openai"
	"symbio/agent/llm/scripted"
)

// ErrNone means that auto found no model. The message says in two lines how to get one.
var ErrNone = errors.New("no model found")

// Specs says in words for people what Parse takes.
const Specs = "auto, openai:NAME, anthropic:NAME, scripted:FILE"

// OllamaURL is where an Ollama on this machine answers.
const OllamaURL = "http://127.0.0.1:11434"

// patience is how long auto waits for an Ollama: it is on this machine and answers in a few
// milliseconds, or it is not there.
const patience = 300 * time.Millisecond

// preferred are models of OpenAI's own service that auto takes if the key allows, cheap and able to
// call tools before large. A name in OpenAIModel comes first.
var preferred = []string{"gpt-5-mini", "gpt-4.1-mini", "gpt-4o-mini", "gpt-5", "gpt-4.1", "gpt-4o"}

// Config is what the environment offers. The zero value offers nothing but an Ollama on this machine.
type Config struct {
	OpenAIKey   llm.Secret
	OpenAIURL   string // default: OpenAI's own service
	OpenAIModel string // the model of auto; default: one that the server lists
	// AnthropicKey is only used to say that this provider is not there yet.
	AnthropicKey llm.Secret
	// OllamaURL default: OllamaURL, the constant. auto asks there last.
	OllamaURL string
	// HTTP does all requests. Default: a client without a proxy.
	HTTP *http.Client
	// Logger is handed to the model. Default: silent.
	Logger *slog.Logger
}

// FromEnv reads OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_MODEL and ANTHROPIC_API_KEY through lookup,
// such as os.Getenv.
func FromEnv(lookup func(string) string) Config {
	return Config{
		OpenAIKey:    llm.NewSecret(lookup("OPENAI_API_KEY")),
		OpenAIURL:    strings.TrimSpace(lookup("OPENAI_BASE_URL")),
		OpenAIModel:  strings.TrimSpace(lookup("OPENAI_MODEL")),
		AnthropicKey: llm.NewSecret(lookup("ANTHROPIC_API_KEY")),
	}
}

// Spec names a model, or says to find one.
type Spec struct {
	Provider string // auto, openai, anthropic, scripted
	Name     string // the model's name, or the script's file; empty with auto
}

// Parse reads a specification. Empty is auto. It opens nothing.
func Parse(s string) (Spec, error) {
	if s == "" || s == "auto" {
		return Spec{Provider: "auto"}, nil
	}
	p, name, found := strings.Cut(s, ":")
	if !found || name == "" || !slices.Contains([]string{"openai", "anthropic", "scripted"}, p) {
		return Spec{}, fmt.Errorf("%q names no model; write one of %s", s, Specs)
	}
	return Spec{p, name}, nil
}

// String writes the specification as Parse reads it.
func (s Spec) String() string {
	if s.Name == "" {
		return s.Provider
	}
	return s.Provider + ":" + s.Name
}

// Open returns the model. Only auto asks a server, and waits no longer than ctx.
func (c Config) Open(ctx context.Context, s Spec) (llm.Model, error) {
	switch s.Provider {
	case "openai":
		return c.openai(s.Name)
	case "scripted":
		script, err := scripted.Load(s.Name)
		if err != nil {
			return nil, err
		}
		return scripted.New(script), nil
	case "anthropic":
		return nil, fmt.Errorf("%s: Anthropic's models are not in this version; use openai:NAME with any compatible server", s)
	case "auto":
		return c.Auto(ctx)
	}
	return nil, fmt.Errorf("%q names no model; write one of %s", s, Specs)
}

func (c Config) openai(name string) (llm.Model, error) {
	if c.OpenAIKey.Empty() && c.OpenAIURL == "" {
		return nil, fmt.Errorf("openai:%s: neither OPENAI_API_KEY nor OPENAI_BASE_URL is set.\n"+
			"Set OPENAI_API_KEY for OpenAI's service, or OPENAI_BASE_URL=http://HOST:PORT/v1 for a server of your own", name)
	}
	cfg := c.openaiConfig()
	cfg.Model = name
	return openai.New(cfg)
}

func (c Config) openaiConfig() openai.Config {
	return openai.Config{BaseURL: c.OpenAIURL, Key: c.OpenAIKey, HTTP: c.HTTP, Logger: c.Logger}
}

// Auto returns the model of the provider that is set up: OpenAI's wire if there is a key or a base
// URL, else an Ollama on this machine that has a model, else ErrNone.
func (c Config) Auto(ctx context.Context) (llm.Model, error) {
	if !c.OpenAIKey.Empty() || c.OpenAIURL != "" {
		return c.autoOpenAI(ctx)
	}
	m, why := c.ollama(ctx)
	if why == nil {
		return m, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("looking for a model: %w", ctx.Err())
	}
	if !c.AnthropicKey.Empty() {
		why = fmt.Errorf("ANTHROPIC_API_KEY is set, but Anthropic's models are not in this version; %w", why)
	}
	return nil, fmt.Errorf("%w: OPENAI_API_KEY and OPENAI_BASE_URL are not set, and %w.\n"+
		"Set OPENAI_API_KEY, or start Ollama (https://ollama.com) with `ollama pull qwen3`, or name one: --model openai:NAME or scripted:FILE", ErrNone, why)
}

func (c Config) autoOpenAI(ctx context.Context) (llm.Model, error) {
	if c.OpenAIModel != "" {
		return c.openai(c.OpenAIModel)
	}
	cfg := c.openaiConfig()
	cfg.Name = "auto"
	names, err := openai.Models(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("asking which models OPENAI_API_KEY and OPENAI_BASE_URL offer: %w\n"+
			"Name one to skip the question: --model openai:NAME, or OPENAI_MODEL=NAME", err)
	}
	for _, p := range preferred {
		if slices.Contains(names, p) {
			return c.openai(p)
		}
	}
	if chat := chatModels(names); c.OpenAIURL != "" && len(chat) > 0 {
		return c.openai(chat[0])
	}
	return nil, fmt.Errorf("%w: none of the %d models that the server lists is known to do.\n"+
		"Name one: --model openai:NAME, or OPENAI_MODEL=NAME", ErrNone, len(names))
}

// ollama returns the first model of an Ollama on this machine, or why there is none.
func (c Config) ollama(ctx context.Context) (llm.Model, error) {
	url := c.OllamaURL
	if url == "" {
		url = OllamaURL
	}
	cfg := openai.Config{BaseURL: url, HTTP: c.HTTP, Logger: c.Logger, Name: "ollama"}
	short, stop := context.WithTimeout(ctx, patience)
	defer stop()
	names, err := openai.Models(short, cfg)
	if err != nil {
		return nil, fmt.Errorf("no Ollama answers on %s", strings.TrimPrefix(url, "http://"))
	}
	chat := chatModels(names)
	if len(chat) == 0 {
		return nil, fmt.Errorf("the Ollama on %s has no model", strings.TrimPrefix(url, "http://"))
	}
	cfg.Model, cfg.Name = chat[0], "ollama:"+chat[0]
	return openai.New(cfg)
}

// chatModels leaves out what is for other uses, as far as a name tells.
func chatModels(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		for _, other := range []string{"embed", "whisper", "tts", "rerank", "moderation"} {
			if strings.Contains(strings.ToLower(n), other) {
				return true
			}
		}
		return false
	})
}
