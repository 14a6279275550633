// Package provider opens a model: by the name that a person gave, or by what the environment
// offers.
//
// A specification is "PROVIDER:NAME". "auto" tries the providers in a fixed order (OpenAI's API if
// its key or base URL is set, Anthropic's if its key or base URL is, an Ollama on this machine), so
// that the same environment always gives the same model. Several specifications with commas between
// them are a list: if one model fails, the next is asked. Every error says what to do about it.
//
// To add a provider: implement llm.Model (agent/llm/model.go) in a package of its own below agent/llm, as internal/agent/llm/openai
// does, add its name and environment variables to service.go, and let the suite of internal/agent/llm/llmtest run on it.
//
// The package does not read the environment itself: FromEnv takes the lookup, so that only commands
// read it.
package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"symbio/agent/llm"
	"symbio/agent/llm/scripted"
	"symbio/internal/agent/llm/ollama"
	"symbio/internal/agent/llm/openai"
	"symbio/internal/agent/llm/retry"
	"symbio/internal/agent/llm/wire"
	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
)

// ErrNone means that auto found no model. The message says in two lines how to get one.
var ErrNone = errors.New("no model found")

// Specs says in words for people what Parse takes.
const Specs = "auto, openai:NAME, anthropic:NAME, ollama:NAME, peer:NODE/NAME, scripted:FILE"

// OllamaURL is where an Ollama on this machine answers.
const OllamaURL = "http://127.0.0.1:11434"

// ollamaTimeout is how long auto waits for an Ollama: it is on this machine and answers in a few
// milliseconds, or it is not there.
const ollamaTimeout = 300 * time.Millisecond

// Config is what the environment offers. The zero value offers nothing but an Ollama on this
// machine.
type Config struct {
	OpenAIKey llm.Secret
	// OpenAIURL is the base URL. Default: OpenAI's own service.
	OpenAIURL string
	// OpenAIModel is the model of auto. Default: one that the server lists.
	OpenAIModel string

	AnthropicKey llm.Secret
	// AnthropicURL is the base URL. Default: Anthropic's own service.
	AnthropicURL string
	// AnthropicModel is the model of auto. Default: one that the server lists.
	AnthropicModel string

	// OllamaURL default: OllamaURL, the constant. auto asks there last.
	OllamaURL string
	// Peer opens a model of another node by the part of the specification after "peer:". nil =
	// there are no other nodes.
	Peer func(name string) (llm.Model, error)
	// Funcs are models made in Go, such as an llm.Func, by the part of the specification after
	// "func:".
	Funcs map[string]llm.Model
	// Prices add the cost to the usage of the opened models. Models without one have the catalog's price.
	Prices llm.Prices
	// Windows returns the configured context window of a model in tokens; 0 = none. Default: none.
	Windows func(model string) int
	// TextOnly are models without vision, which get descriptions instead of images: their names, or
	// prefixes that end in *. Models of OpenAI's API that refuse images are recognized without it.
	TextOnly []string
	// Retry says how long models are asked, and in which order the models of a list are asked. Its Book remembers how they did.
	Retry retry.Config
	// FirstToken is how long a server may take to begin an answer. Default: as in wire.Config.
	FirstToken time.Duration
	// Memory bounds the answers that are read at the same time. Default: no bound.
	Memory *wire.Memory
	// HTTP does all requests. Default: a client without a proxy.
	HTTP *http.Client
	// Logger receives the log of the opened models. Default: silent.
	Logger *slog.Logger
}

// FromEnv reads OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_MODEL, and the same of ANTHROPIC, through
// lookup, such as os.Getenv.
func FromEnv(lookup func(string) string) Config {
	get := func(name string) string { return strings.TrimSpace(lookup(name)) }
	return Config{
		OpenAIKey: llm.NewSecret(lookup("OPENAI_API_KEY")), OpenAIURL: get("OPENAI_BASE_URL"), OpenAIModel: get("OPENAI_MODEL"),
		AnthropicKey: llm.NewSecret(lookup("ANTHROPIC_API_KEY")), AnthropicURL: get("ANTHROPIC_BASE_URL"), AnthropicModel: get("ANTHROPIC_MODEL"),
	}
}

// Spec names a model, or says to find one.
type Spec struct {
	// Provider is auto, openai, anthropic, ollama, peer, scripted or func.
	Provider string
	// Name is the model's name, NODE/NAME for peer, or the script's file; "" with auto.
	Name string
}

// providers are the providers that need a name after the colon.
var providers = []string{"openai", "anthropic", "ollama", "peer", "scripted", "func"}

// Parse reads a specification of one model. Empty is auto. It opens nothing.
func Parse(s string) (Spec, error) {
	if s == "" || s == "auto" {
		return Spec{Provider: "auto"}, nil
	}
	p, name, found := strings.Cut(s, ":")
	if !found || name == "" || !slices.Contains(providers, p) {
		return Spec{}, fmt.Errorf("%q names no model; write one of %s%s", s, Specs, visible.Suggest(p, providers))
	}
	return Spec{p, name}, nil
}

// between matches the separator in a list of models: a comma before the beginning of a
// specification. A name may have commas of its own.
var between = lazyregexp.New(`\s*,\s*(auto(?:\s*(?:,|$))|(?:` + strings.Join(providers, "|") + `):)`)

// ParseList reads specifications with commas between them; at least one. It opens nothing.
func ParseList(s string) ([]Spec, error) {
	var list []Spec
	for rest := strings.TrimSpace(s); ; {
		one := rest
		at := between().FindStringSubmatchIndex(rest)
		if at != nil {
			one, rest = rest[:at[0]], strings.TrimSpace(rest[at[2]:])
			if one == "" {
				return nil, fmt.Errorf("%q begins with a comma; write one or more of %s", s, Specs)
			}
		}
		spec, err := Parse(one)
		if err != nil {
			return nil, err
		}
		if list = append(list, spec); at == nil {
			return list, nil
		}
	}
}

// String writes the specification as Parse reads it.
func (s Spec) String() string {
	if s.Name == "" {
		return s.Provider
	}
	return s.Provider + ":" + s.Name
}

// OpenList opens the models of a list, as one that is asked as package retry says. One that cannot be opened fails the whole
// list.
func (c Config) OpenList(ctx context.Context, text string) (llm.Model, error) {
	specs, err := ParseList(text)
	if err != nil {
		return nil, err
	}
	var models []llm.Model
	for _, s := range specs {
		m, err := c.Open(ctx, s)
		if err != nil {
			return nil, err
		}
		models = append(models, m)
	}
	return retry.New(c.Retry, models...), nil
}

// Open returns the model. Only auto asks a server, and waits no longer than ctx.
func (c Config) Open(ctx context.Context, s Spec) (llm.Model, error) {
	m, err := c.open(ctx, s)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(c.TextOnly, func(pattern string) bool { return names(pattern, m.Name()) }) {
		m = llm.TextOnly(m)
	}
	if price, _, ok := c.PriceOf(m.Name()); ok {
		m = llm.Prices{m.Name(): price}.Model(m)
	}
	return m, nil
}

// names reports whether a pattern of TextOnly matches the name of a model.
func names(pattern, model string) bool {
	if prefix, all := strings.CutSuffix(pattern, "*"); all {
		return strings.HasPrefix(model, prefix)
	}
	return pattern == model
}

// open is Open without prices and TextOnly.
func (c Config) open(ctx context.Context, s Spec) (llm.Model, error) {
	switch s.Provider {
	case "openai", "anthropic":
		return c.services()[s.Provider].openModel(s.Name)
	case "ollama":
		return c.ollamaModel(s.Name)
	case "scripted":
		return scripted.Load(s.Name)
	case "func":
		if m := c.Funcs[s.Name]; m != nil {
			return m, nil
		}
		return nil, fmt.Errorf("%s: this program has no model of that name", s)
	case "peer":
		if c.Peer == nil {
			return nil, fmt.Errorf("%s: only a running node has other nodes", s)
		}
		return c.Peer(s.Name)
	case "auto":
		return c.auto(ctx)
	}
	return nil, fmt.Errorf("%q names no model; write one of %s", s, Specs)
}

// auto returns the model of the provider that is set up: OpenAI's wire if there is a key or a base
// URL, else Anthropic's likewise, else an Ollama on this machine that has a model, else ErrNone.
func (c Config) auto(ctx context.Context) (llm.Model, error) {
	services := c.services()
	for _, name := range serviceNames {
		if s := services[name]; s.configured() {
			return s.auto(ctx)
		}
	}
	m, why := c.ollama(ctx)
	if why == nil {
		return m, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("looking for a model: %w", ctx.Err())
	}
	return nil, fmt.Errorf("%w: OPENAI_API_KEY, OPENAI_BASE_URL and ANTHROPIC_API_KEY are not set, and %w.\n"+
		"Set one of the keys, or start Ollama (https://ollama.com) with `ollama pull qwen3`, or name a model: --model openai:NAME or scripted:FILE", ErrNone, why)
}

// ollama returns the first model of an Ollama on this machine, or why there is none.
func (c Config) ollama(ctx context.Context) (llm.Model, error) {
	_, names, err := c.ollamaModels(ctx)
	if err != nil {
		return nil, err
	}
	return c.ollamaModel(names[0])
}

// ollamaModel opens a model of Ollama. It asks nothing.
func (c Config) ollamaModel(name string) (*ollama.Model, error) {
	cfg := ollama.Config{Config: wire.Config{BaseURL: c.ollamaURL(), HTTP: c.HTTP, Logger: c.Logger, Model: name, FirstToken: c.FirstToken, Memory: c.Memory}}
	if c.Windows != nil {
		cfg.Window = c.Windows("ollama:" + name)
	}
	return ollama.New(cfg)
}

func (c Config) ollamaURL() string { return cmp.Or(c.OllamaURL, OllamaURL) }

// ollamaModels returns the models of an Ollama on this machine that can chat, at least one, and the
// URL. The error says that Ollama does not answer within ollamaTimeout, or has no such model.
func (c Config) ollamaModels(ctx context.Context) (url string, names []string, err error) {
	url = c.ollamaURL()
	short, stop := context.WithTimeout(ctx, ollamaTimeout)
	defer stop()
	names, err = openai.Models(short, openai.Config{BaseURL: url, HTTP: c.HTTP, Logger: c.Logger, Name: "ollama"})
	if err != nil {
		return url, nil, fmt.Errorf("no Ollama answers on %s", strings.TrimPrefix(url, "http://"))
	}
	if names = chatModels(names); len(names) == 0 {
		return url, nil, fmt.Errorf("the Ollama on %s has no model", strings.TrimPrefix(url, "http://"))
	}
	return url, names, nil
}

// chatModels returns the names without models for other uses, such as embeddings. The list
// of a server has no field for that, so the name decides.
func chatModels(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		others := []string{"embed", "whisper", "tts", "rerank", "moderation"}
		return slices.ContainsFunc(others, func(o string) bool { return strings.Contains(strings.ToLower(n), o) })
	})
}
