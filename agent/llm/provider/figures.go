package provider

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/catalog"
)

// AssumedWindow is the context window of a model that nothing is known of, in tokens.
const AssumedWindow = 128_000

// Figures is what is known of a model, and where each figure comes from: "configuration", "catalog",
// "server", "assumed" for a window, or "" for what is not known.
type Figures struct {
	Window        int
	WindowFrom    string
	Price         *llm.Price
	PriceFrom     string
	Abilities     []string // of images, thinking and tools
	AbilitiesFrom string
}

// Figures returns what is known of the model of that name, such as "openai:gpt-x". For a model of Ollama
// it asks the server, for a few seconds at most.
func (c Config) Figures(ctx context.Context, model string) Figures {
	f := Figures{Window: AssumedWindow, WindowFrom: "assumed"}
	if known, ok := c.lookup(model); ok {
		f.Abilities, f.AbilitiesFrom = []string{"tools"}, "catalog"
		if known.Thinking {
			f.Abilities = append(f.Abilities, "thinking")
		}
		if known.Images {
			f.Abilities = append(f.Abilities, "images")
		}
		if known.Window > 0 {
			f.Window, f.WindowFrom = known.Window, "catalog"
		}
	}
	if name, ok := strings.CutPrefix(model, "ollama:"); ok {
		c.askOllama(ctx, name, &f)
	}
	if n := c.configuredWindow(model); n > 0 {
		f.Window, f.WindowFrom = n, "configuration"
	}
	if price, from, ok := c.PriceOf(model); ok {
		f.Price, f.PriceFrom = &price, from
	}
	return f
}

// askOllama adds what the server says of a model.
func (c Config) askOllama(ctx context.Context, name string, f *Figures) {
	m, err := c.ollamaModel(name)
	if err != nil {
		return
	}
	if can := m.Abilities(ctx); len(can) > 0 {
		f.AbilitiesFrom = "server"
		for _, known := range [][2]string{{"tools", "tools"}, {"thinking", "thinking"}, {"vision", "images"}} {
			if slices.Contains(can, known[0]) {
				f.Abilities = append(f.Abilities, known[1])
			}
		}
	}
	if n := m.Window(); n > 0 {
		f.Window, f.WindowFrom = n, "server"
	}
}

// PriceOf returns the price of a model, and whether it is from the configuration or the catalog.
func (c Config) PriceOf(model string) (price llm.Price, from string, ok bool) {
	if price, ok = c.Prices.Of(model); ok {
		return price, "configuration", true
	}
	if known, ok := c.lookup(model); ok && known.Price != nil {
		return *known.Price, "catalog", true
	}
	return price, "", false
}

// Window returns the context window of a model in tokens: the configured one, else the catalog's.
// For several names with commas between them it returns the smallest, because the conversation has to
// fit whichever model answers. 0 means that none is known.
func (c Config) Window(models string) (smallest int) {
	for model := range strings.SplitSeq(models, ",") {
		n := c.configuredWindow(model)
		if n == 0 {
			known, _ := c.lookup(model)
			n = known.Window
		}
		if n > 0 && (smallest == 0 || n < smallest) {
			smallest = n
		}
	}
	return smallest
}

func (c Config) configuredWindow(model string) int {
	if c.Windows == nil {
		return 0
	}
	return c.Windows(model)
}

// lookup asks the catalog for a model, by the server that is configured for its provider: another server
// has other prices for the same name.
func (c Config) lookup(model string) (catalog.Model, bool) {
	place, name, _ := strings.Cut(model, ":")
	at, ok := map[string]string{"openai": c.OpenAIURL, "anthropic": c.AnthropicURL}[place]
	if !ok {
		return catalog.Model{}, false
	}
	if at != "" {
		u, err := url.Parse(at)
		if err != nil {
			return catalog.Model{}, false
		}
		place = u.Hostname()
	}
	return catalog.Lookup(ownPlace(place), name)
}

// ownPlace returns the catalog's name of a provider's own service for its host.
func ownPlace(host string) string {
	switch host {
	case "api.openai.com":
		return "openai"
	case "api.anthropic.com":
		return "anthropic"
	}
	return host
}
