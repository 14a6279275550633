package provider_test

import (
	"errors"
	"net/http"
	"testing"

	"symbio/agent/llm/provider"
)

func TestReachAsksTheServerThatAModelIsOn(t *testing.T) {
	const list = `{"data":[{"id":"m"}]}`
	server := func(body string) *http.Client { return network(map[string]string{"box:1": body}) }
	for name, test := range map[string]struct {
		cfg  provider.Config
		spec string
		want string // the model's name; "" = an error
		err  error  // beside the model
	}{
		"named and there":      {provider.Config{OpenAIURL: "http://box:1", HTTP: server(list)}, "openai:m", "openai:m", nil},
		"named, not listed":    {provider.Config{OpenAIURL: "http://box:1", HTTP: server(list)}, "openai:other", "openai:other", provider.ErrUnlisted},
		"named, nobody there":  {provider.Config{OpenAIURL: "http://gone:1", HTTP: server(list)}, "openai:m", "", nil},
		"auto, asked":          {provider.Config{OpenAIURL: "http://box:1", HTTP: server(list)}, "auto", "openai:m", nil},
		"auto, named":          {provider.Config{OpenAIURL: "http://box:1", OpenAIModel: "m", HTTP: server(list)}, "auto", "openai:m", nil},
		"auto, nobody there":   {provider.Config{OpenAIURL: "http://gone:1", OpenAIModel: "m", HTTP: server(list)}, "auto", "", nil},
		"auto, an Ollama":      {provider.Config{OllamaURL: "http://box:1", HTTP: server(list)}, "auto", "ollama:m", nil},
		"auto, Ollama's named": {provider.Config{OllamaURL: "http://box:1", OpenAIModel: "x", HTTP: server(list)}, "auto", "ollama:m", nil},
		"Anthropic, there":     {provider.Config{AnthropicURL: "http://box:1", HTTP: server(list)}, "anthropic:m", "anthropic:m", nil},
		"Anthropic, auto":      {provider.Config{AnthropicURL: "http://box:1", AnthropicModel: "x", HTTP: server(list)}, "auto", "anthropic:x", provider.ErrUnlisted},
		"an Ollama's, there":   {provider.Config{OllamaURL: "http://box:1", HTTP: server(list)}, "ollama:m", "ollama:m", nil},
		"an Ollama's, missing": {provider.Config{OllamaURL: "http://box:1", HTTP: server(list)}, "ollama:x", "ollama:x", provider.ErrUnlisted},
		"another node's":       {provider.Config{}, "peer:a/m", "", nil},
		"nothing set up":       {provider.Config{HTTP: server(list)}, "auto", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			spec, err := provider.Parse(test.spec)
			if err != nil {
				t.Fatal(err)
			}
			m, err := test.cfg.Reach(t.Context(), spec)
			if test.want == "" {
				if err == nil {
					t.Errorf("Reach found %s, want an error", m.Name())
				}
				return
			}
			if m == nil || m.Name() != test.want || !errors.Is(err, test.err) {
				t.Errorf("Reach = %v, %v; want %s, %v", m, err, test.want, test.err)
			}
		})
	}
}
