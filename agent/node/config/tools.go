package config

import (
	"symbio/agent/tool/web"
)

// Web configures the web tools of agents. WebFetch needs no configuration and
// has no key.
type Web struct {
	Search WebSearch `yaml:"search"`
}

// WebSearch configures the tool of the same name.
type WebSearch struct {
	URL string `yaml:"url"` // the base URL of a SearXNG instance; "" = agents have no WebSearch
}

// Tools says how tools are presented to models.
type Tools struct {
	// SearchAbove is the number of tools up to which a model gets all
	// descriptions. Above it the tools of MCP servers are replaced by
	// ToolSearch, because long lists fill the context window and make models
	// choose badly. 0 = 40.
	SearchAbove int `yaml:"search_above"`
}

// Searcher returns a client of the instance, nil if no URL is configured. An
// invalid URL is an error.
func (s WebSearch) Searcher() (web.Searcher, error) {
	if s.URL == "" {
		return nil, nil
	}
	return web.NewSearXNG(web.SearXNGConfig{URL: s.URL})
}

// check reports an invalid URL.
func (w Web) check(bad func(format string, args ...any)) {
	if _, err := w.Search.Searcher(); err != nil {
		bad("web.search.url: %w", err)
	}
}

// check reports a negative number.
func (t Tools) check(bad func(format string, args ...any)) {
	if t.SearchAbove < 0 {
		bad("tools.search_above is negative; write 0 for the default")
	}
}
