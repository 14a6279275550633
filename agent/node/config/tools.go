package config

import (
	"symbio/agent/tool/web"
)

// Web says what agents have of the web beside WebFetch, which needs nothing.
type Web struct {
	Search WebSearch `yaml:"search"`
}

// WebSearch is the SearXNG instance that WebSearch asks.
type WebSearch struct {
	URL string `yaml:"url"` // "" = agents have no WebSearch
}

// Tools say how tools are shown to models.
type Tools struct {
	// SearchAbove is how many tools an agent is shown as they are; of more it is shown its own, and how to find those
	// of MCP servers (ToolSearch). 0 = 40.
	SearchAbove int `yaml:"search_above"`
}

// Searcher is the instance, nil for none.
func (s WebSearch) Searcher() (web.Searcher, error) {
	if s.URL == "" {
		return nil, nil
	}
	return web.NewSearXNG(web.SearXNGConfig{URL: s.URL})
}

func (w Web) check(bad func(format string, args ...any)) {
	if _, err := w.Search.Searcher(); err != nil {
		bad("web.search.url: %w", err)
	}
}

func (t Tools) check(bad func(format string, args ...any)) {
	if t.SearchAbove < 0 {
		bad("tools.search_above is negative")
	}
}
