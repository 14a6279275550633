package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"symbio/agent/llm"
	"symbio/agent/llm/provider"
	"symbio/internal/agent/llm/chat"
)

// Models is a list of models in order of preference: when one fails, the next
// is tried. In a file it is a string or a list of strings; here the names are
// joined by commas, as provider.ParseList reads them.
type Models string

// UnmarshalYAML reads a string or a list of strings. It checks the names of a
// list, because an error can still name the line here; Config.Check checks
// the ones of a string.
func (m *Models) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return n.Decode((*string)(m))
	}
	var list []string
	if err := n.Decode(&list); err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("line %d: the list of models is empty", n.Line)
	}
	for _, one := range list {
		if _, err := provider.Parse(one); err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
	}
	*m = Models(strings.Join(list, ","))
	return nil
}

// check returns an error for the first name that is not a model.
func (m Models) check() error {
	_, err := provider.ParseList(string(m))
	return err
}

// resolve calls makeAbsolute with the path of each scripted model. The other
// models have no path.
func (m *Models) resolve(makeAbsolute func(*string)) {
	specs, err := provider.ParseList(string(*m))
	if err != nil || *m == "" {
		return
	}
	var list []string
	for _, s := range specs {
		if s.Provider == "scripted" {
			makeAbsolute(&s.Name)
		}
		list = append(list, s.String())
	}
	*m = Models(strings.Join(list, ","))
}

// checkModel returns the first mistake of a capability that offers a model. Its
// name and schemas are fixed, because the provider peer:NODE/MODEL of other
// nodes calls it by them.
func (c Capability) checkModel() error {
	if c.Name != chat.Capability {
		return fmt.Errorf("name: write %s; other nodes find models by this name", chat.Capability)
	}
	if c.Input != nil || c.Output != nil {
		return fmt.Errorf("the schemas of %s are fixed; leave out input and output", chat.Capability)
	}
	specs, err := provider.ParseList(string(c.Model))
	if err != nil {
		return err
	}
	for _, s := range specs {
		if s.Provider == "peer" {
			return fmt.Errorf("model: %s is a model of another node; offer one of this node", s)
		}
	}
	return nil
}

// Services says how models are reached, what they cost, and how much they read.
type Services struct {
	Providers      Providers      `yaml:"providers"`
	Prices         llm.Prices     `yaml:"prices"`          // by model, for a million tokens
	ContextWindows ContextWindows `yaml:"context_windows"` // by model, in tokens; others = 128,000
}

// Providers says where models are reached. API keys are read from the
// environment only, so that no file contains them.
type Providers struct {
	OpenAI struct {
		BaseURL string `yaml:"base_url"` // OPENAI_BASE_URL wins
	} `yaml:"openai"`
	Anthropic struct {
		BaseURL string `yaml:"base_url"` // ANTHROPIC_BASE_URL wins
	} `yaml:"anthropic"`
	// WithoutImages are models that cannot read images and get a description
	// instead; names as in Prices.
	WithoutImages []string `yaml:"without_images"`
	// Patience is how long a request is repeated while its server fails and does not say when to come back. 0 = 10m.
	Patience time.Duration `yaml:"patience"`
	// FirstToken is how long a server may take to begin an answer. 0 = 3m; of a list, a model that is silent for longer
	// than usual is left for the next one before.
	FirstToken time.Duration `yaml:"first_token"`
	// Balance says which model of a list is asked: first, or least-busy. Default first.
	Balance string `yaml:"balance"`
}

// Apply copies the configured services into p. Values that p has from the
// environment win, so that one shell can use another server without a change of
// the file.
func (s Services) Apply(p *provider.Config) {
	p.OpenAIURL = cmp.Or(p.OpenAIURL, s.Providers.OpenAI.BaseURL)
	p.AnthropicURL = cmp.Or(p.AnthropicURL, s.Providers.Anthropic.BaseURL)
	p.FirstToken, p.Retry.FirstToken = s.Providers.FirstToken, s.Providers.FirstToken
	p.Retry.Patience, p.Retry.LeastBusy = s.Providers.Patience, s.Providers.Balance == "least-busy"
	p.Prices, p.Windows, p.TextOnly = s.Prices, s.ContextWindows.Of, s.Providers.WithoutImages
}

// checkModels reports the mistakes of model, prices and providers.
func (c Config) checkModels(bad func(string, ...any)) {
	if err := c.Model.check(); err != nil {
		bad("model: %w", err)
	}
	if !slices.Contains([]string{"", "low", "medium", "high"}, c.Effort) {
		bad("effort: write low, medium or high, not %.40q", c.Effort)
	}
	if err := c.Services.Prices.Check(); err != nil {
		bad("prices: %w", err)
	}
	p := c.Services.Providers
	for _, name := range p.WithoutImages {
		if i := strings.Index(name, "*"); i >= 0 && i < len(name)-1 || name == "" {
			bad("providers.without_images: %q: write the name of a model, or the beginning of one followed by *", name)
		}
	}
	if p.Patience < 0 || p.FirstToken < 0 {
		bad("providers: patience or first_token is negative")
	}
	if !slices.Contains([]string{"", "first", "least-busy"}, p.Balance) {
		bad("providers.balance: write first or least-busy, not %.40q", p.Balance)
	}
	c.Services.ContextWindows.check(bad)
}
