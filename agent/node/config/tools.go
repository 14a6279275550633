package config

import (
	"symbio/agent/llm"
	"symbio/agent/tool/web"
)

// Web configures the web tools of agents. WebFetch needs no configuration and
// has no key.
type Web struct {
	Search WebSearch `yaml:"search"`
}

// WebSearch configures the tool of the same name.
type WebSearch struct {
	// Provider is searxng, brave or tavily; "" = searxng if there is a URL, else
	// agents have no WebSearch. Keys are read from the environment only.
	Provider string `yaml:"provider"`
	URL      string `yaml:"url"` // the base URL; "" = the provider's own
}

// Searcher returns a client of the provider, nil if none is configured. getenv
// looks up its key; nil = without a key. An unknown provider or an invalid URL
// is an error.
func (s WebSearch) Searcher(getenv func(string) string) (web.Searcher, error) {
	if s == (WebSearch{}) {
		return nil, nil
	}
	c := web.EngineConfig{Provider: s.Provider, URL: s.URL}
	if key := web.KeyVariable(s.Provider); key != "" && getenv != nil {
		c.Key = llm.NewSecret(getenv(key))
	}
	return web.NewEngine(c)
}

// check reports an unknown provider and an invalid URL.
func (w Web) check(bad func(format string, args ...any)) {
	if _, err := w.Search.Searcher(nil); err != nil {
		bad("web.search.%w", err) // it begins with the key
	}
}
