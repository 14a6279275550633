package provider_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/agent/llm/provider"
)

func TestFigures(t *testing.T) {
	n := func(f float64) *float64 { return &f }
	own := llm.Price{Input: 1, Output: 2}
	haiku := llm.Price{Input: 1, Output: 5, CacheRead: n(0.1), CacheWrite: n(1.25)}
	all := []string{"tools", "thinking", "images"}
	box := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"capabilities":["completion","vision","tools"],"model_info":{"x.context_length":8192}}`))}, nil
	})}
	windows := func(model string) int { return map[string]int{"openai:mine": 64000, "ollama:large": 50000}[model] }
	cfg := provider.Config{Prices: llm.Prices{"openai:*": own}, Windows: windows, HTTP: box}
	proxied := provider.Config{AnthropicURL: "http://127.0.0.1:1"}
	for _, c := range []struct {
		cfg   provider.Config
		model string
		want  provider.Figures
	}{
		{cfg, "anthropic:claude-haiku-4-5", provider.Figures{200000, "catalog", &haiku, "catalog", all, "catalog"}},
		{cfg, "openai:mine", provider.Figures{64000, "configuration", &own, "configuration", nil, ""}},
		{cfg, "ollama:x", provider.Figures{8192, "server", nil, "", []string{"tools", "images"}, "server"}},
		{cfg, "ollama:large", provider.Figures{50000, "configuration", nil, "", []string{"tools", "images"}, "server"}},
		{cfg, "scripted:x", provider.Figures{128000, "assumed", nil, "", nil, ""}},
		{proxied, "anthropic:claude-haiku-4-5", provider.Figures{128000, "assumed", nil, "", nil, ""}},
		{provider.Config{OpenAIURL: "https://api.deepseek.com/v1"}, "openai:deepseek-v4-flash", provider.Figures{1000000, "catalog", &llm.Price{Input: 0.14, Output: 0.28, CacheRead: n(0.0028)}, "catalog", all[:2], "catalog"}},
		{provider.Config{AnthropicURL: "https://api.anthropic.com/v1"}, "anthropic:claude-haiku-4-5", provider.Figures{200000, "catalog", &haiku, "catalog", all, "catalog"}},
	} {
		if d := cmp.Diff(c.want, c.cfg.Figures(t.Context(), c.model)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.model, d)
		}
	}
	for models, want := range map[string]int{"openai:mine,anthropic:claude-haiku-4-5": 64000, "anthropic:claude-opus-5": 1000000, "scripted:x": 0, "scripted:x,openai:mine": 64000} {
		if got := cfg.Window(models); got != want {
			t.Errorf("window of %s = %d, want %d", models, got, want)
		}
	}
}

func TestCostIsThatOfCatalogWithoutConfiguration(t *testing.T) {
	for _, c := range []struct {
		prices llm.Prices
		model  string
		want   float64
		known  bool
	}{
		{nil, "anthropic:claude-haiku-4-5", 6, true}, {llm.Prices{"anthropic:*": {}}, "anthropic:claude-haiku-4-5", 0, true}, {nil, "anthropic:x", 0, false},
	} {
		m, err := provider.Config{AnthropicKey: llm.NewSecret("k"), Prices: c.prices}.OpenList(t.Context(), c.model)
		if err != nil {
			t.Fatal(err)
		}
		if cost, ok := llm.CostOf(m, llm.Usage{Input: 1e6, Output: 1e6}); cost != c.want || ok != c.known {
			t.Errorf("%s with %v costs %v, %v; want %v, %v", c.model, c.prices, cost, ok, c.want, c.known)
		}
	}
}
