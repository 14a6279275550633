package llm_test

import (
	"context"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
)

func TestPrices(t *testing.T) {
	n := func(f float64) *float64 { return &f }
	prices := llm.Prices{
		"openai:gpt-x": {Input: 3, Output: 15, CacheRead: n(0.3), CacheWrite: n(3.75)},
		"openai:*":     {Input: 1, Output: 2},
		"openai:gpt-*": {Input: 7, Output: 8},
		"open*":        {Input: 9, Output: 9},
		"ollama:*":     {},
	}
	used := llm.Usage{Input: 1_000_000, Output: 100_000, CacheRead: 500_000, CacheWrite: 100_000}
	for model, want := range map[string]*float64{
		"openai:gpt-x": n(0.4*3 + 0.5*0.3 + 0.1*3.75 + 0.1*15), "openai:gpt-y": n(7 + 0.8), "openai:o": n(1 + 0.2), "ollama:q": n(0),
		"anthropic:c": nil,
	} {
		m := prices.Model(&named{model, used})
		got, err := llm.Collect(m.Stream(t.Context(), llm.Request{}), nil)
		if err != nil {
			t.Fatal(err)
		}
		near := func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }
		if d := cmp.Diff(want, got.Usage.Cost, cmp.Comparer(near)); d != "" {
			t.Errorf("%s: cost (-want +got):\n%s", model, d)
		}
		if got.Usage.Input != used.Input || m.Name() != model {
			t.Errorf("%s: usage %+v of %s", model, got.Usage, m.Name())
		}
	}
	for name, bad := range map[string]llm.Price{"x": {Input: -1}, "y": {CacheRead: n(-1)}, "a*b": {}, "": {}} {
		if err := (llm.Prices{name: bad}).Check(); err == nil {
			t.Errorf("%q: %+v is taken", name, bad)
		}
	}
	if err := prices.Check(); err != nil {
		t.Error(err)
	}
}

// named is a model that answers with a usage.
type named struct {
	name string
	u    llm.Usage
}

func (m *named) Name() string { return m.name }

func (m *named) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return stream([]llm.Chunk{{Usage: &m.u, Stop: llm.StopEnd}}, nil)
}

func TestUnknownCostMakesTheSumUnknown(t *testing.T) {
	one, two, three := 1.0, 2.0, 3.0
	a, b, unknown := llm.Usage{Input: 1, CacheRead: 1, Cost: &one}, llm.Usage{Output: 2, CacheWrite: 3, Cost: &two}, llm.Usage{Input: 5}
	if d := cmp.Diff(llm.Usage{Input: 1, Output: 2, CacheRead: 1, CacheWrite: 3, Cost: &three}, a.Add(b)); d != "" {
		t.Errorf("sum (-want +got):\n%s", d)
	}
	if d := cmp.Diff(a, llm.Usage{}.Add(a)); d != "" {
		t.Errorf("nothing and something (-want +got):\n%s", d)
	}
	if got := a.Add(unknown); got.Cost != nil || got.Input != 6 {
		t.Errorf("sum with an unknown cost = %+v", got)
	}
}
