package provider_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent/llm"
	"symbio/agent/llm/provider"
)

func TestParseReadsWhatPeopleWrite(t *testing.T) {
	for in, want := range map[string]provider.Spec{
		"":                  {Provider: "auto"},
		"auto":              {Provider: "auto"},
		"openai:gpt-x":      {Provider: "openai", Name: "gpt-x"},
		"openai:qwen3:8b":   {Provider: "openai", Name: "qwen3:8b"},
		"scripted:a/b.yaml": {Provider: "scripted", Name: "a/b.yaml"},
		"anthropic:claude":  {Provider: "anthropic", Name: "claude"},
	} {
		got, err := provider.Parse(in)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", in, got, err, want)
		}
		if again, err := provider.Parse(got.String()); err != nil || again != want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v again", got.String(), again, err, want)
		}
	}
	for _, in := range []string{"gpt-x", "openai:", "foo:bar", ":x", "openai", "auto:x"} {
		if _, err := provider.Parse(in); err == nil || !strings.Contains(err.Error(), provider.Specs) {
			t.Errorf("Parse(%q): %v, want an error that says what to write", in, err)
		}
	}
}

// network answers a request for models by host; a host it does not know refuses, "silent" never answers.
func network(hosts map[string]string) *http.Client {
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		body, ok := hosts[r.URL.Host]
		switch {
		case body == "silent":
			<-r.Context().Done()
			return nil, r.Context().Err()
		case !ok || r.URL.Path != "/v1/models":
			return nil, errors.New("connection refused")
		}
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
	})}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

const (
	ollama = "127.0.0.1:11434"
	openAI = "api.openai.com"
)

func TestAutoTakesWhatTheEnvironmentOffers(t *testing.T) {
	for _, c := range []struct {
		name  string
		env   map[string]string
		hosts map[string]string
		want  string // the model's name
		fails string // or what the error says
	}{
		{"a key and a model", map[string]string{"OPENAI_API_KEY": "k", "OPENAI_MODEL": "m"}, nil, "openai:m", ""},
		{"a key", map[string]string{"OPENAI_API_KEY": "k"}, map[string]string{openAI: `{"data":[{"id":"gpt-4o"},{"id":"gpt-4.1-mini"}]}`}, "openai:gpt-4.1-mini", ""},
		{"a key before Ollama", map[string]string{"OPENAI_API_KEY": "k", "OPENAI_MODEL": "m"}, map[string]string{ollama: `{"data":[{"id":"q"}]}`}, "openai:m", ""},
		{"a key for models nobody here knows", map[string]string{"OPENAI_API_KEY": "k"}, map[string]string{openAI: `{"data":[{"id":"x"}]}`}, "", "OPENAI_MODEL=NAME"},
		{"a key and no network", map[string]string{"OPENAI_API_KEY": "k"}, nil, "", "Name one to skip the question"},
		{"a base URL without a key", map[string]string{"OPENAI_BASE_URL": "http://box:8000/v1"}, map[string]string{"box:8000": `{"data":[{"id":"text-embed"},{"id":"llama"}]}`}, "openai:llama", ""},
		{"an Ollama", nil, map[string]string{ollama: `{"data":[{"id":"nomic-embed-text"},{"id":"qwen3:8b"}]}`}, "ollama:qwen3:8b", ""},
		{"an Ollama without models", nil, map[string]string{ollama: `{"data":null}`}, "", "has no model"},
		{"another server on Ollama's port", nil, map[string]string{ollama: `hello`}, "", "no Ollama answers on 127.0.0.1:11434"},
		{"a silent port", nil, map[string]string{ollama: "silent"}, "", "no Ollama answers"},
		{"nothing", nil, nil, "", "ollama pull"},
		{"only Anthropic's key", map[string]string{"ANTHROPIC_API_KEY": "k"}, nil, "", "ANTHROPIC_API_KEY is set, but"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := provider.FromEnv(func(k string) string { return c.env[k] })
				cfg.HTTP = network(c.hosts)
				begin := time.Now()
				m, err := cfg.Open(t.Context(), provider.Spec{Provider: "auto"})
				if took := time.Since(begin); took > 300*time.Millisecond {
					t.Errorf("it took %v, want at most 300ms", took)
				}
				if c.fails != "" {
					if err == nil || !strings.Contains(err.Error(), c.fails) || strings.Count(err.Error(), "\n") != 1 {
						t.Errorf("error = %v, want two lines with %q", err, c.fails)
					}
					return
				}
				if err != nil || m.Name() != c.want {
					t.Errorf("model = %v, %v; want %s", m, err, c.want)
				}
			})
		})
	}
}

func TestAutoWithoutAnythingIsErrNone(t *testing.T) {
	_, err := provider.Config{HTTP: network(nil)}.Auto(t.Context())
	if !errors.Is(err, provider.ErrNone) {
		t.Errorf("error = %v, want ErrNone", err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if _, err := (provider.Config{HTTP: network(map[string]string{ollama: "silent"})}).Auto(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want canceled", err)
	}
}

func TestOpenOpensWhatWasNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hello.yaml")
	if err := os.WriteFile(file, []byte("turns: [{text: hello}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := provider.Config{OpenAIURL: "http://127.0.0.1:1", OpenAIKey: llm.NewSecret("k")}
	for spec, want := range map[string]string{"openai:x": "openai:x", "scripted:" + file: "scripted:hello"} {
		s, err := provider.Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		m, err := cfg.Open(t.Context(), s)
		if err != nil || m.Name() != want {
			t.Errorf("%s: %v, %v; want %s", spec, m, err, want)
		}
	}
	for spec, want := range map[provider.Spec]string{
		{Provider: "anthropic", Name: "x"}:         "not in this version",
		{Provider: "openai", Name: "x"}:            "OPENAI_API_KEY",
		{Provider: "scripted", Name: "/none.yaml"}: "no such file",
		{}: provider.Specs,
	} {
		if _, err := (provider.Config{}).Open(t.Context(), spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want an error with %q", spec, err, want)
		}
	}
}
