package config

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"symbio/agent/llm/chat"
	"symbio/agent/llm/provider"
)

// Models are one model or several: the next is asked when one fails. In a file they are a text or a list, here a text
// with commas between them, as provider.ParseList reads it.
type Models string

// UnmarshalYAML reads a text or a list of texts.
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

// check says what is wrong.
func (m Models) check() error {
	_, err := provider.ParseList(string(m))
	return err
}

// resolve makes the paths of scripts absolute.
func (m *Models) resolve(at func(*string)) {
	specs, err := provider.ParseList(string(*m))
	if err != nil || *m == "" {
		return
	}
	var list []string
	for _, s := range specs {
		if s.Provider == "scripted" {
			at(&s.Name)
		}
		list = append(list, s.String())
	}
	*m = Models(strings.Join(list, ","))
}

// checkOffered says what is wrong with a capability that offers a model.
func (c Capability) checkOffered() error {
	if c.Name != chat.Capability {
		return fmt.Errorf("a model is offered under the name %s, so that other nodes know what it takes", chat.Capability)
	}
	if c.Input != nil || c.Output != nil {
		return fmt.Errorf("what %s takes and gives is known; leave out input and output", chat.Capability)
	}
	specs, err := provider.ParseList(string(c.Model))
	if err != nil {
		return err
	}
	for _, s := range specs {
		if s.Provider == "peer" {
			return fmt.Errorf("%s is another node's to offer", s)
		}
	}
	return nil
}

// Providers say where models are. Their keys are in the environment, and in no file.
type Providers struct {
	OpenAI struct {
		BaseURL string `yaml:"base_url"` // OPENAI_BASE_URL comes first
	} `yaml:"openai"`
	Anthropic struct {
		BaseURL   string `yaml:"base_url"`   // ANTHROPIC_BASE_URL comes first
		MaxTokens int    `yaml:"max_tokens"` // of an answer; 0 = 16384
		Thinking  int    `yaml:"thinking"`   // tokens to think before an answer; 0 = none
	} `yaml:"anthropic"`
	// WithoutImages are models that are told of pictures in words: names as in prices.
	WithoutImages []string `yaml:"without_images"`
}

// Into puts what is configured into what the environment offers.
func (c Config) Into(p *provider.Config) {
	if p.OpenAIURL == "" {
		p.OpenAIURL = c.Providers.OpenAI.BaseURL
	}
	if p.AnthropicURL == "" {
		p.AnthropicURL = c.Providers.Anthropic.BaseURL
	}
	p.AnthropicTokens, p.AnthropicThinking = c.Providers.Anthropic.MaxTokens, c.Providers.Anthropic.Thinking
	p.Prices, p.Blind = c.Prices, c.Providers.WithoutImages
}

func (c Config) checkModels(bad func(string, ...any)) {
	if err := c.Model.check(); err != nil {
		bad("model: %w", err)
	}
	if err := c.Prices.Check(); err != nil {
		bad("prices: %w", err)
	}
	for _, name := range c.Providers.WithoutImages {
		if i := strings.Index(name, "*"); i >= 0 && i < len(name)-1 || name == "" {
			bad("providers.without_images: %q: the name of a model, or the beginning of one and *", name)
		}
	}
	if a := c.Providers.Anthropic; a.MaxTokens < 0 || a.Thinking < 0 {
		bad("providers.anthropic: a number of tokens is negative")
	}
}
