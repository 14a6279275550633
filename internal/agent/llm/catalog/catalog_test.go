package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
)

func TestLookup(t *testing.T) {
	n := func(f float64) *float64 { return &f }
	opus := Model{Window: 1000000, Price: &llm.Price{Input: 5, Output: 25, CacheRead: n(0.5), CacheWrite: n(6.25)}, Images: true, Thinking: true}
	for _, c := range []struct {
		place, name string
		want        Model
		known       bool
	}{
		{"anthropic", "claude-opus-5", opus, true},
		{"anthropic", "claude-opus-5-20260901", opus, true},
		{"anthropic", "claude-haiku-4-5", Model{Window: 200000, Price: &llm.Price{Input: 1, Output: 5, CacheRead: n(0.1), CacheWrite: n(1.25)}, Images: true, Thinking: true}, true},
		{"api.deepseek.com", "deepseek-v4-flash", Model{Window: 1000000, Price: &llm.Price{Input: 0.14, Output: 0.28, CacheRead: n(0.0028)}, Thinking: true}, true},
		{"openai", "claude-opus-5", Model{}, false}, {"127.0.0.1", "claude-opus-5", Model{}, false}, {"anthropic", "claude", Model{}, false},
		{"anthropic", "", Model{}, false}, {"anthropic\tclaude-opus-5", "1000000", Model{}, false},
	} {
		got, known := Lookup(c.place, c.name)
		if d := cmp.Diff(c.want, got); d != "" || known != c.known {
			t.Errorf("%s at %s: %v (-want +got):\n%s", c.name, c.place, known, d)
		}
	}
}

func TestTableLinesAreRead(t *testing.T) {
	source, rest, _ := strings.Cut(strings.TrimSpace(table), "\n")
	if source != Source() || !strings.HasPrefix(source, "charm.land/catwalk v") {
		t.Errorf("source %q", Source())
	}
	places := map[string]int{}
	for line := range strings.Lines(rest) {
		f := strings.Split(line, "\t")
		m, ok := Lookup(f[0], f[1])
		if !ok || m.Window < 1024 || m.Window > 1<<24 {
			t.Errorf("%q is read as %+v", line, m)
			continue
		}
		if places[f[0]]++; m.Price == nil {
			continue
		}
		if err := (llm.Prices{f[1]: *m.Price}).Check(); err != nil {
			t.Error(err)
		}
		if p := m.Price; p.CacheRead != nil && *p.CacheRead >= p.Input || p.CacheWrite != nil && (*p.CacheWrite < p.Input || *p.CacheWrite > 2*p.Input) {
			t.Errorf("%q: prices of the cache that no provider has", line)
		}
	}
	if places["anthropic"] < 10 || places["openai"] < 10 || len(places) < 8 {
		t.Errorf("models by place: %v", places)
	}
}

func BenchmarkLookup(b *testing.B) {
	for b.Loop() {
		Lookup("openrouter.ai", "no such model")
	}
}
