package agent_test

import (
	"context"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/internal/agent/llm/retry"
)

// broken is a model that is not there.
type broken struct{}

func (broken) Name() string { return "broken" }

func (broken) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{}, &llm.Error{Model: "broken", Err: llm.ErrUnavailable})
	}
}

func TestModelThatIsAskedAgainIsAnEventAndThoughtsStayInTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cost := 0.5
		var kept []llm.Thinking
		thinker := retry.New(retry.Config{}, broken{}, thinks(llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
			for _, m := range r.Messages {
				kept = append(kept, m.Thinking...)
			}
			if last(r).Role == llm.User {
				return llm.Response{Message: llm.Message{Calls: []llm.ToolCall{use("1", "slow", waitArgs{"1s"})}}, Usage: llm.Usage{Input: 1, Cost: &cost}}, nil
			}
			return llm.Response{Message: llm.Message{Text: "done"}, Usage: llm.Usage{Input: 1, Cost: &cost}}, nil
		})))
		h := newHouse(t, thinker, slow())
		m := h.spawn(agent.Order{Definition: definition.General(), Policy: allowed(t, "slow")})
		if got, err := h.task(m, "go"); err != nil || got != "done" {
			t.Fatalf("%q, %v", got, err)
		}
		retries, turns := h.seen(event.TypeRetry), h.seen(event.TypeTurn)
		if len(retries) != 2 || retries[0].Part != (event.Retry{Model: "broken", Next: "func", Turn: 1, Attempt: 1, Wait: event.PartOf[event.Retry](retries[0]).Wait}) || !strings.Contains(retries[0].Why, "not available") {
			t.Errorf("retries = %+v, want one for each turn: after the second failure it is left alone", retries)
		}
		if len(turns) != 2 || event.PartOf[event.Turn](turns[0]).Usage.Cost == nil || *event.PartOf[event.Turn](turns[0]).Usage.Cost != cost {
			t.Errorf("turns = %+v, want what each cost", turns)
		}
		if len(kept) != 1 || kept[0].Signature != "s" {
			t.Errorf("thoughts that came back = %+v, want the one of the first turn", kept)
		}
	})
}

// thinks puts a thought before each answer.
func thinks(m llm.Model) llm.Model { return thinking{m} }

type thinking struct{ llm.Model }

func (m thinking) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if !yield(llm.Chunk{Thought: "hm", Thinking: &llm.Thinking{Model: "func", Text: "hm", Signature: "s"}}, nil) {
			return
		}
		for c, err := range m.Model.Stream(ctx, r) {
			if !yield(c, err) {
				return
			}
		}
	}
}
