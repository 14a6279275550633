package llm_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
)

// one is a model of a list that answers with its name, or fails.
type one struct {
	name  string
	fails error
	late  bool // after a piece of text
	asked atomic.Int32
}

func (o *one) Name() string { return o.name }

func (o *one) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		o.asked.Add(1)
		var err error
		switch {
		case ctx.Err() != nil:
			err = ctx.Err()
		case o.fails != nil:
			err = &llm.Error{Model: o.name, Err: o.fails, RetryAfter: map[bool]time.Duration{true: 2 * time.Minute}[o.fails == llm.ErrRateLimited]}
		}
		if err == nil || o.late {
			if !yield(llm.Chunk{Text: o.name}, nil) {
				return
			}
		}
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		yield(llm.Chunk{Stop: llm.StopEnd}, nil)
	}
}

func TestListAsksTheNextWhenOneFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails error
		late  bool
		next  bool
	}{
		{"too many requests", llm.ErrRateLimited, false, true},
		{"no key", llm.ErrAuth, false, true},
		{"no money", llm.ErrQuota, false, true},
		{"too long", llm.ErrContextLength, false, true},
		{"cut before anything", llm.ErrCut, false, true},
		{"cut later", llm.ErrCut, true, false},
		{"refused", llm.ErrRefused, false, false},
	} {
		a, b := &one{name: "a", fails: c.fails, late: c.late}, &one{name: "b"}
		list := llm.First(a, b)
		var told []llm.Retry
		got, err := llm.Collect(list.Stream(t.Context(), llm.Request{}), func(c llm.Chunk) {
			if c.Retry != nil {
				told = append(told, *c.Retry)
			}
		})
		if c.next && (err != nil || got.Message.Text != "b" || len(told) != 1 || told[0].Model != "a" || told[0].Next != "b" || !errors.Is(told[0].Err, c.fails)) {
			t.Errorf("%s: %q, %v, told %+v; want b's answer", c.name, got.Message.Text, err, told)
		}
		if !c.next && (!errors.Is(err, c.fails) || b.asked.Load() > 0) {
			t.Errorf("%s: %v, b asked %d times; want a's error", c.name, err, b.asked.Load())
		}
	}
	if name := llm.First(&one{name: "a"}, &one{name: "b"}).Name(); name != "a,b" {
		t.Errorf("name = %q", name)
	}
	if a := (&one{name: "a"}); llm.First(a) != llm.Model(a) {
		t.Error("a list of one is not that one")
	}
	if _, err := llm.Collect(llm.First().Stream(t.Context(), llm.Request{}), nil); !errors.Is(err, llm.ErrNoModel) {
		t.Errorf("an empty list: %v", err)
	}
}

func TestListThatFailsWhollySaysWhy(t *testing.T) {
	_, err := llm.Collect(llm.First(&one{name: "a", fails: llm.ErrAuth}, &one{name: "b", fails: llm.ErrUnavailable}).Stream(t.Context(), llm.Request{}), nil)
	if !errors.Is(err, llm.ErrAuth) || !errors.Is(err, llm.ErrUnavailable) || !strings.Contains(err.Error(), "model a: the key was refused; model b: not available") {
		t.Errorf("error = %v, want both", err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	b := &one{name: "b"}
	if _, err := llm.Collect(llm.First(&one{name: "a"}, b).Stream(ended, llm.Request{}), nil); !errors.Is(err, context.Canceled) || b.asked.Load() > 0 {
		t.Errorf("an ended context: %v, b asked %d times", err, b.asked.Load())
	}
}

func TestModelThatFailedIsAskedLastForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &one{name: "a", fails: llm.ErrUnavailable}, &one{name: "b"}
		list := llm.First(a, b)
		ask := func(want string, asked int32) {
			t.Helper()
			got, err := llm.Collect(list.Stream(t.Context(), llm.Request{}), nil)
			if err != nil || got.Message.Text != want || a.asked.Load() != asked {
				t.Errorf("%q, %v, a asked %d times; want %s, %d", got.Message.Text, err, a.asked.Load(), want, asked)
			}
		}
		ask("b", 1)
		ask("b", 1)
		time.Sleep(31 * time.Second)
		ask("b", 2)
		time.Sleep(31 * time.Second)
		a.fails = llm.ErrRateLimited // for two minutes, it says
		ask("b", 3)
		time.Sleep(31 * time.Second)
		ask("b", 3)
		time.Sleep(90 * time.Second)
		a.fails = llm.ErrContextLength // of this conversation
		ask("b", 4)
		a.fails = nil
		ask("a", 5)
	})
}

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
		"openai:gpt-x": n(0.4*3 + 0.5*0.3 + 0.1*3.75 + 0.1*15), "openai:gpt-y": n(7 + 0.8), "openai:o": n(1 + 0.2), "ollama:q": n(0), "anthropic:c": nil,
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
