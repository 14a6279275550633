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
	"symbio/internal/agent/llm/retry"
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
	claude = "api.anthropic.com"
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
		{"Anthropic's key and a model", map[string]string{"ANTHROPIC_API_KEY": "k", "ANTHROPIC_MODEL": "m"}, nil, "anthropic:m", ""},
		{"Anthropic's key", map[string]string{"ANTHROPIC_API_KEY": "k"}, map[string]string{claude: `{"data":[{"id":"claude-opus-9"},{"id":"claude-sonnet-9"},{"id":"claude-sonnet-8"}]}`}, "anthropic:claude-sonnet-9", ""},
		{"Anthropic's key before Ollama", map[string]string{"ANTHROPIC_API_KEY": "k", "ANTHROPIC_MODEL": "m"}, map[string]string{ollama: `{"data":[{"id":"q"}]}`}, "anthropic:m", ""},
		{"OpenAI's key before Anthropic's", map[string]string{"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "OPENAI_MODEL": "m"}, nil, "openai:m", ""},
		{"Anthropic's key and no network", map[string]string{"ANTHROPIC_API_KEY": "k"}, nil, "", "ANTHROPIC_MODEL=NAME"},
		{"Anthropic's key for models nobody here knows", map[string]string{"ANTHROPIC_API_KEY": "k"}, map[string]string{claude: `{"data":[{"id":"x"}]}`}, "", "ANTHROPIC_MODEL=NAME"},
		{"another server of Anthropic's wire", map[string]string{"ANTHROPIC_BASE_URL": "http://box:9"}, map[string]string{"box:9": `{"data":[{"id":"x"}]}`}, "anthropic:x", ""},
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
	_, err := provider.Config{HTTP: network(nil)}.Open(t.Context(), provider.Spec{Provider: "auto"})
	if !errors.Is(err, provider.ErrNone) {
		t.Errorf("error = %v, want ErrNone", err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if _, err := (provider.Config{HTTP: network(map[string]string{ollama: "silent"})}).Open(ended, provider.Spec{Provider: "auto"}); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want canceled", err)
	}
}

func TestOpenOpensWhatWasNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hello.yaml")
	if err := os.WriteFile(file, []byte("turns: [{text: hello}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := provider.Config{OpenAIURL: "http://127.0.0.1:1", OpenAIKey: llm.NewSecret("k"), AnthropicKey: llm.NewSecret("k"), Peer: func(name string) (llm.Model, error) {
		return retry.New(retry.Config{}), nil
	}}
	for spec, want := range map[string]string{"openai:x": "openai:x", "anthropic:x": "anthropic:x", "peer:a/b": "", "scripted:" + file: "scripted:hello"} {
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
		{Provider: "anthropic", Name: "x"}:         "ANTHROPIC_API_KEY",
		{Provider: "peer", Name: "x"}:              "only a running node",
		{Provider: "openai", Name: "x"}:            "OPENAI_API_KEY",
		{Provider: "scripted", Name: "/none.yaml"}: "no such file",
		{}: provider.Specs,
	} {
		if _, err := (provider.Config{}).Open(t.Context(), spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want an error with %q", spec, err, want)
		}
	}
}

func TestBlindModelIsShownNoImages(t *testing.T) {
	for pattern, want := range map[string]bool{"openai:x": true, "openai:*": true, "*": true, "openai:x*": true, "openai:y": false, "x": false, "": false} {
		var body string
		cfg := provider.Config{OpenAIKey: llm.NewSecret("k"), TextOnly: []string{"ollama:*", pattern}, HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			data, err := io.ReadAll(r.Body)
			body = string(data)
			return &http.Response{StatusCode: 401, Header: http.Header{}, Body: http.NoBody}, err
		})}}
		m, err := cfg.OpenList(t.Context(), "openai:x")
		if err != nil || m.Name() != "openai:x" {
			t.Fatal(m, err)
		}
		picture := []llm.Image{{Type: "image/png", Data: []byte("\x89PNG\r\n\x1a\n rest")}}
		_, _ = llm.Collect(m.Stream(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Images: picture}}}), nil)
		if blind := strings.Contains(body, "not shown: image/png"); blind != want || strings.Contains(body, "image_url") == want {
			t.Errorf("%q: sent %s, want it blind: %v", pattern, body, want)
		}
	}
}

func TestListIsReadAndOpened(t *testing.T) {
	for in, want := range map[string]string{
		"":                                  "auto",
		"openai:a":                          "openai:a",
		"anthropic:X, openai:Y":             "anthropic:X|openai:Y",
		"anthropic:X,openai:qwen3:8b,auto":  "anthropic:X|openai:qwen3:8b|auto",
		"auto,peer:kitchen/a":               "auto|peer:kitchen/a",
		"auto,auto , auto":                  "auto|auto|auto",
		"scripted:a,b.yaml,openai:x":        "scripted:a,b.yaml|openai:x",
		"openai:x,y":                        "openai:x,y", // a name may have a comma
		"peer:meta/llama-3,autofocus":       "peer:meta/llama-3,autofocus",
		" scripted:/a b/c.yaml ,openai:x  ": "scripted:/a b/c.yaml|openai:x",
	} {
		specs, err := provider.ParseList(in)
		var got []string
		for _, s := range specs {
			got = append(got, s.String())
		}
		if strings.Join(got, "|") != want || err != nil {
			t.Errorf("ParseList(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"gpt-x", "openai:,anthropic:x", ",openai:x", "nobody:x,openai:y"} {
		if specs, err := provider.ParseList(in); err == nil {
			t.Errorf("ParseList(%q) = %v, want an error", in, specs)
		}
	}
	cfg := provider.Config{OpenAIKey: llm.NewSecret("k"), AnthropicKey: llm.NewSecret("k")}
	if m, err := cfg.OpenList(t.Context(), "anthropic:x, openai:y"); err != nil || m.Name() != "anthropic:x,openai:y" {
		t.Errorf("a list: %v, %v", m, err)
	}
	if _, err := (provider.Config{OpenAIKey: llm.NewSecret("k")}).OpenList(t.Context(), "openai:y,anthropic:x"); err == nil || !strings.Contains(err.Error(), "ANTHROPIC_API_KEY") {
		t.Errorf("a list with one that is not set up: %v", err)
	}
}

func TestRefusedKeyIsNamed(t *testing.T) {
	refusing := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 401, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"error":{"message":"invalid"}}`))}, nil
	})}
	cfg := provider.Config{OpenAIKey: llm.NewSecret("secret-1"), AnthropicKey: llm.NewSecret("secret-2"), HTTP: refusing}
	for spec, want := range map[string]string{"openai:x": "check OPENAI_API_KEY", "anthropic:x": "check ANTHROPIC_API_KEY"} {
		m, err := cfg.OpenList(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := llm.Collect(m.Stream(t.Context(), llm.Request{}), nil); !errors.Is(err, llm.ErrAuth) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}

func TestListSaysWhatIsThereAndWhatToSet(t *testing.T) {
	cfg := provider.Config{AnthropicKey: llm.NewSecret("k"), HTTP: network(map[string]string{claude: `{"data":[{"id":"c"}]}`})}
	got := cfg.List(t.Context())
	if len(got) != 3 || got[0].Err == nil || !strings.Contains(got[0].Err.Error(), "set OPENAI_API_KEY") || len(got[1].Models) != 1 || got[1].Err != nil || got[2].Err == nil {
		t.Errorf("list = %+v", got)
	}
}
