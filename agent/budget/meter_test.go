package budget

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
)

// answeringModel answers with the chunks, or fails with err, and keeps the requests.
type answeringModel struct {
	paid
	chunks   []llm.Chunk
	err      error
	requests []llm.Request
}

func (m *answeringModel) Stream(_ context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	m.requests = append(m.requests, r)
	return func(yield func(llm.Chunk, error) bool) {
		for _, c := range m.chunks {
			if !yield(c, nil) {
				return
			}
		}
		if m.err != nil {
			yield(llm.Chunk{}, m.err)
		}
	}
}

// begin returns a task of an account that has an hour.
func begin(t *testing.T, a *Account) *Task {
	task := NewTask(a, time.Now(), time.Now().Add(time.Hour))
	t.Cleanup(task.Close)
	return task
}

func ask(t *testing.T, m llm.Model, r llm.Request) error {
	t.Helper()
	_, err := llm.Collect(m.Stream(t.Context(), r), nil)
	return err
}

func TestCallCostsWhatItUsed(t *testing.T) {
	request := llm.Request{System: strings.Repeat("s", 3988), Messages: []llm.Message{{Role: llm.User}}} // 4000 bytes
	for about, tt := range map[string]struct {
		chunks []llm.Chunk
		err    error
		want   Spent
	}{
		"as it reports": {chunks: []llm.Chunk{{Text: "yes", Usage: &llm.Usage{Input: 70, Output: 7}, Stop: llm.StopEnd}}, want: Spent{ModelCalls: 1, Tokens: 77}},
		"without a report a quarter of the bytes": {
			chunks: []llm.Chunk{{Text: strings.Repeat("x", 300)}, {Thought: strings.Repeat("y", 100), Stop: llm.StopEnd}},
			want:   Spent{ModelCalls: 1, Tokens: 1100, Cost: 0.0045},
		},
		"an answer that broke off":       {chunks: []llm.Chunk{{Text: strings.Repeat("x", 40)}}, err: errors.New("reset"), want: Spent{ModelCalls: 1, Tokens: 1010, Cost: 0.00315}},
		"refused before an answer began": {chunks: []llm.Chunk{{Retry: &llm.Retry{}}}, err: errors.New("overloaded"), want: Spent{ModelCalls: 1}},
	} {
		t.Run(about, func(t *testing.T) {
			a := New(Limits{Cost: 10})
			task := begin(t, a)
			m := &answeringModel{paid: paid{llm.Prices{"paid": {Input: 3, Output: 15}}}, chunks: tt.chunks, err: tt.err}
			if err := ask(t, Meter(m, func() *Task { return task }), request); !errors.Is(err, tt.err) {
				t.Fatalf("got %v, want %v", err, tt.err)
			}
			got := a.Total()
			got.Wall = 0
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// The last call that can be paid for is a turn without tools, in which the model sums up.
func TestLastTurnHasNoToolsAndAsksForASummary(t *testing.T) {
	task := begin(t, New(Limits{ModelCalls: 2}))
	m := &answeringModel{chunks: []llm.Chunk{{Text: "half", Call: &llm.ToolCall{Name: "Read"}, Stop: llm.StopTools}}}
	metered := Meter(m, func() *Task { return task })
	request := llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "go"}}, Tools: []llm.ToolSpec{{Name: "Read"}}, Thinking: 100}
	for range 2 {
		if err := ask(t, metered, request); err != nil {
			t.Fatal(err)
		}
	}
	turn, last := m.requests[0], m.requests[1]
	if diff := cmp.Diff(request, turn); diff != "" {
		t.Errorf("the first turn: -want +got:\n%s", diff)
	}
	if len(last.Tools) != 0 || last.Thinking != 0 || last.MaxTokens != maxSummary || len(last.Messages) != 2 ||
		!strings.Contains(last.Messages[1].Text, "2 model calls. This is your last turn") {
		t.Errorf("the last turn: %+v", last)
	}
	var exceeded *ExceededError
	if err := ask(t, metered, request); !errors.As(err, &exceeded) || exceeded.Limit != "2 model calls" || len(m.requests) != 2 {
		t.Errorf("after the last turn: %v, and the model was asked %d times", err, len(m.requests))
	}
	if err := task.Outcome("half", nil); !errors.As(err, &exceeded) || exceeded.Summary != "half" {
		t.Errorf("the outcome: %v", err)
	}
	if err := task.Outcome("", errors.New("no answer")); !errors.As(err, &exceeded) || exceeded.Limit != "2 model calls (no answer)" {
		t.Errorf("the outcome of a last turn that failed: %v", err)
	}
}

func TestOutcomeWithoutALimitIsTheErrorItself(t *testing.T) {
	task, failed := begin(t, New(Limits{})), errors.New("no answer")
	if err := task.Outcome("text", failed); err != failed {
		t.Errorf("got %v, want %v", err, failed)
	}
	if err := task.Outcome("text", nil); err != nil {
		t.Errorf("got %v, want none", err)
	}
}

// A request beside the turns that cannot be paid for fails alone, and leaves what the summary needs.
func TestRequestBesideTheTurnsThatCannotBePaidFails(t *testing.T) {
	task := begin(t, New(Limits{ModelCalls: 3, Tokens: 100_000}))
	m := &answeringModel{chunks: []llm.Chunk{{Usage: &llm.Usage{Input: 1, Output: 1}, Stop: llm.StopEnd}}}
	turn, aside := Meter(m, func() *Task { return task }), MeterAside(m, func() *Task { return task })
	var exceeded *ExceededError
	if err := ask(t, aside, llm.Request{MaxTokens: 100_001}); !errors.As(err, &exceeded) || exceeded.Limit != "100000 tokens" {
		t.Errorf("an answer that is too long: %v", err)
	}
	for about, model := range map[string]llm.Model{"a turn": turn, "beside it": aside} {
		if err := ask(t, model, llm.Request{MaxTokens: 10}); err != nil {
			t.Fatalf("%s: %v", about, err)
		}
	}
	if err := ask(t, aside, llm.Request{MaxTokens: 10}); !errors.As(err, &exceeded) || exceeded.Limit != "3 model calls" ||
		len(m.requests) != 2 {
		t.Errorf("the call of the summary was used: %v, %d requests", err, len(m.requests))
	}
	if err := task.Outcome("done", nil); err != nil {
		t.Errorf("the task has ended by it: %v", err)
	}
}

// A call for which nothing can pay fails at once, and does not wait for others.
func TestCallThatCannotBePaidForFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited, unpriced := begin(t, New(Limits{Cost: 1})), &answeringModel{}
		closed := New(Limits{})
		closed.closed = true
		ended, priced := begin(t, closed), &answeringModel{paid: paid{llm.Prices{"paid": {Input: 3}}}}
		for _, meter := range []func(llm.Model, func() *Task) llm.Model{Meter, MeterAside} {
			for want, err := range map[string]error{
				"its price under prices":      ask(t, meter(unpriced, func() *Task { return limited }), llm.Request{}),
				"the agent has ended":         ask(t, meter(priced, func() *Task { return ended }), llm.Request{}),
				"there is no task to pay for": ask(t, meter(priced, func() *Task { return nil }), llm.Request{}),
			} {
				var exceeded *ExceededError
				if !errors.As(err, &exceeded) || !strings.Contains(exceeded.Limit, want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		}
	})
}

func TestErrorsNameTheLimitThatBinds(t *testing.T) {
	root := New(Limits{Agents: 9, ModelCalls: 10, Tokens: 1000, Cost: 0.5})
	open := func(parent *Account, upper, share Limits) *Account {
		t.Helper()
		child, err := parent.Open(t.Context(), upper, share)
		if err != nil {
			t.Fatal(err)
		}
		return child
	}
	share := open(root, Limits{}, Limits{ModelCalls: 4, Tokens: 300, Cost: 0.25, Agents: 2})
	defined := open(root, Limits{ModelCalls: 5, Tokens: 600, Cost: 0.125}, Limits{})
	alike := open(root, Limits{Tokens: 700}, Limits{}) // as much as is left above
	check := func(a *Account, want ...string) {
		t.Helper()
		for k := range kinds {
			if got := a.limitOf(k); got != want[k] {
				t.Errorf("got %q, want %q", got, want[k])
			}
		}
	}
	check(root, "9 sub-agents", "10 model calls", "1000 tokens", "a cost of 0.5")
	check(share, "2 sub-agents, its share", "4 model calls, its share", "300 tokens, its share", "a cost of 0.25, its share")
	check(defined, "9 sub-agents", "5 model calls, the limit of its definition", "600 tokens, the limit of its definition", "a cost of 0.125, the limit of its definition")
	check(alike, "9 sub-agents", "10 model calls", "700 tokens, the limit of its definition", "a cost of 0.5")
}

func TestRoundedHasAtMostFiveCharacters(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 9999: "9999", 10_000: "10k", 10_999: "10k", 9_999_999: "9999k", 10_000_000: "10M",
		12_999_999: "12M"} {
		if got := Rounded(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// The race detector sees an account that is used without the lock of its tree.
func TestAccountsMayBeUsedByManyGoroutines(t *testing.T) {
	root := New(Limits{Agents: 1000, SpawnsPerMinute: 10_000, ModelCalls: 1_000_000, Tokens: 1 << 40, Depth: 9})
	m := &cachingModel{llm.Usage{Input: 1, Output: 1}}
	for range 50 {
		loan, err := root.OpenLoan(context.Background(), Limits{SpawnsPerMinute: 1, ModelCalls: 100, Tokens: 1000})
		if err != nil {
			t.Fatal(err)
		}
		task := NewTask(root, time.Now(), time.Now().Add(time.Hour))
		var all sync.WaitGroup
		for _, use := range []func(){
			func() { loan.Granted() },
			func() { loan.Report(Spent{ModelCalls: 1, Tokens: 1}) },
			func() { loan.CloseLost() },
			func() { root.Charge(Spent{Tokens: 1}) },
			func() { root.Renew() },
			func() { root.Total() },
			func() { task.Alerts(0.5) },
			func() { _ = task.Outcome("", nil) },
			func() { _ = ask(t, Meter(m, func() *Task { return task }), llm.Request{}) },
			func() { _ = ask(t, MeterAside(m, func() *Task { return task }), llm.Request{MaxTokens: 1}) },
			func() {
				if child, err := root.Open(context.Background(), Limits{}, Limits{}); err != nil {
					t.Error(err)
				} else {
					child.Close()
					_ = child.Reopen(context.Background())
					child.Close()
				}
			},
		} {
			all.Go(use)
		}
		all.Wait()
		task.Close()
	}
}
