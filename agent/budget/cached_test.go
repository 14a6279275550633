package budget

import (
	"context"
	"iter"
	"testing"
	"time"

	"symbio/agent/llm"
)

// cachingModel is a model whose provider has a part of each request in its cache.
type cachingModel struct{ usage llm.Usage }

func (cachingModel) Name() string { return "caching" }

func (m cachingModel) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) { yield(llm.Chunk{Usage: &m.usage, Stop: llm.StopEnd}, nil) }
}

func TestCachedTokensOfSubAgentCount(t *testing.T) {
	root := New(Limits{})
	child, err := root.Open(context.Background(), Limits{}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	task := NewTask(child, time.Now(), time.Now().Add(time.Hour))
	defer task.Close()
	for _, read := range []int{80, 1000, -5} { // no provider reads more from a cache than it reads
		m := Meter(cachingModel{llm.Usage{Input: 100, Output: 5, CacheRead: read}}, func() *Task { return task })
		if _, err := llm.Collect(m.Stream(t.Context(), llm.Request{}), nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := root.Total(); got.Cached != 180 || got.Tokens != 315 {
		t.Errorf("%+v is counted, want 180 cached tokens of 315", got)
	}
	root.Renew()
	root.Charge(Spent{Tokens: 10, Cached: 7})
	if got := root.Total().Add(Spent{Cached: 1}); got.Cached != 8 {
		t.Errorf("%+v after a new task, want 8 cached tokens", got)
	}
}
