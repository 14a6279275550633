package agent_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/community"
)

const usedUp = "The budget of this task is used up"

// told reports whether a model was told that it is its last turn.
func told(r llm.Request) bool { return strings.Contains(last(r).Text, usedUp) }

func TestModelThatSpawnsInALoopIsHeldToldAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		calls, toldOf, withTools := 0, 0, 0
		var refused string
		h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			if told(r) {
				toldOf++
				withTools += len(r.Tools)
				return say("that far")
			}
			for _, m := range r.Messages {
				for _, res := range m.Results {
					// Those of the last generation are refused because they are nested too deep.
					if res.IsError && !strings.Contains(refused, "sub-agents live already") {
						refused = res.Text
					}
				}
			}
			return call(use("1", "replicate_agent", map[string]any{"reason": "again", "task": fmt.Sprint("part ", calls)}))
		}))
		def := definition.General()
		def.MaxTurns = 1000
		m := h.spawn(agent.Order{Definition: def, Policy: allowed(t, "replicate_agent"), Limits: budget.Limits{ModelCalls: 40, Agents: 5}, LifetimeBudget: true})
		_, err := h.task(m, "go")
		var over *budget.ExceededError
		if !errors.As(err, &over) || !errors.Is(err, budget.ErrExceeded) || over.Limit != "40 model calls" || over.Summary != "that far" {
			t.Errorf("it ended with %v, want its last words at 40 model calls", err)
		}
		synctest.Wait()
		if calls != 40 || toldOf < 1 || withTools > 0 {
			t.Errorf("%d calls, %d of them the last of an agent, with %d tools; want 40, at least one, none", calls, toldOf, withTools)
		}
		if !strings.Contains(refused, "sub-agents live already") {
			t.Errorf("it was told %q, want that too many live", refused)
		}
		if n := len(h.community.Members()); n != 6 {
			t.Errorf("%d members, want it and 5", n)
		}
		if _, err := h.task(m, "more"); !errors.Is(err, budget.ErrExceeded) || calls != 40 {
			t.Errorf("then: %v after %d calls, want ErrBudget and no further call", err, calls)
		}
		if err := h.community.Terminate(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
		if left := h.community.Members(); len(left) != 0 {
			t.Errorf("%v are left", left)
		}
	})
}

func TestAnswerIsNoLongerThanWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limits []int
		used := 0
		model := llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
			limits = append(limits, r.MaxTokens)
			u := llm.Usage{Input: 2000, Output: r.MaxTokens}
			used += u.Input + u.Output
			if told(r) {
				return llm.Response{Message: llm.Message{Text: "so far"}, Usage: u, Stop: llm.StopLength}, nil
			}
			return llm.Response{Message: llm.Message{Calls: []llm.ToolCall{use("", "slow", waitArgs{"1s"})}}, Usage: u}, nil
		})
		h := newHouse(t, model, slow())
		_, err := h.task(h.spawn(agent.Order{Policy: allowed(t, "slow"), Limits: budget.Limits{Tokens: 40_000}}), "go")
		var over *budget.ExceededError
		if !errors.As(err, &over) || over.Limit != "40000 tokens" || over.Summary != "so far" {
			t.Errorf("it ended with %v, want its last words, cut as they are", err)
		}
		if len(limits) < 3 || used > 40_000 || used < 20_000 {
			t.Errorf("%d tokens were used by %d calls, want up to 40000 by some", used, len(limits))
		}
		for i, n := range limits {
			if n <= 0 || n > 5000 {
				t.Errorf("answer %d may have %d tokens, want a part of what is left", i, n)
			}
		}
	})
}

func TestCallWaitsForWhatThoseInFlightMayNotNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := map[string]string{}
		var mu sync.Mutex
		model := llm.Func(func(ctx context.Context, r llm.Request) (llm.Response, error) {
			time.Sleep(time.Duration(len(last(r).Text)) * time.Second)
			mu.Lock()
			defer mu.Unlock()
			if told(r) {
				answers["told"] = last(r).Text
			}
			return llm.Response{Message: llm.Message{Text: "done"}, Usage: llm.Usage{Input: 100, Output: 100}}, nil
		})
		h := newHouse(t, parents(func(n int, results []llm.ToolResult) (llm.Message, error) {
			switch n {
			case 0:
				return call(use("1", "replicate_agent", map[string]any{"reason": "a", "name": "ann"}), use("2", "replicate_agent", map[string]any{"reason": "a", "name": "bob"}), use("3", "replicate_agent", map[string]any{"reason": "a", "name": "cem"}))
			}
			return say("done")
		}, func(ctx context.Context, r llm.Request) (llm.Message, error) {
			m, err := llm.Collect(model.Stream(ctx, r), nil)
			return m.Message, err
		}))
		m := h.spawn(agent.Order{Policy: allowed(t, "replicate_agent"), Limits: budget.Limits{Tokens: 40_000}, LifetimeBudget: true})
		if _, err := h.task(m, "go"); err != nil {
			t.Fatal(err)
		}
		var g sync.WaitGroup
		for _, child := range h.community.Members() {
			if child.ID != m.ID {
				g.Go(func() {
					text := map[string]string{"ann": "x", "bob": "xxx", "cem": "xx"}[child.Name]
					if got, err := h.task(child, text); got != "done" || err != nil {
						t.Errorf("%s: %q, %v; want an answer: there is enough, one after the other", child.Name, got, err)
					}
				})
			}
		}
		g.Wait()
		if len(answers) > 0 {
			t.Errorf("it was told %q", answers["told"])
		}
	})
}

func TestCostThatIsNotKnownIsNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		model := script(func(context.Context, llm.Request) (llm.Message, error) { asked++; return say("done") })
		h := newHouse(t, model)
		_, err := h.task(h.spawn(agent.Order{Limits: budget.Limits{Cost: 1}}), "go")
		if !errors.Is(err, budget.ErrExceeded) || !strings.Contains(err.Error(), "write its price") || asked != 0 {
			t.Errorf("without a price: %v after %d calls, want a refusal that says what to do", err, asked)
		}
		priced := llm.Prices{"func": {Input: 1, Output: 1}}.Model(model)
		if _, err := h.task(h.spawn(agent.Order{Model: priced, Limits: budget.Limits{Cost: 1}}), "go"); err != nil || asked != 1 {
			t.Errorf("with a price: %v after %d calls", err, asked)
		}
		if _, err := h.task(h.spawn(agent.Order{Model: priced, Limits: budget.Limits{Cost: 1e-6}}), "go"); !errors.Is(err, budget.ErrExceeded) || asked != 1 {
			t.Errorf("with less than a call costs: %v after %d calls", err, asked)
		}
	})
}

func TestToolsEndInTimeForLastWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var start time.Time
		var at time.Duration
		h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			if told(r) {
				at = time.Since(start)
				return say("nothing yet")
			}
			return call(use("1", "slow", waitArgs{"1h"}))
		}), slow())
		start = time.Now()
		_, err := h.task(h.spawn(agent.Order{Policy: allowed(t, "slow"), Limits: budget.Limits{Wall: time.Minute}}), "go")
		var over *budget.ExceededError
		if !errors.As(err, &over) || over.Summary != "nothing yet" || over.Limit != "1m0s for one task" || at != 54*time.Second {
			t.Errorf("after %v: %v; want the last words after 54s", at, err)
		}
	})
}

func TestShareIsWhatASubAgentHasAndTheRestComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var results []llm.ToolResult
		h := newHouse(t, parents(func(n int, all []llm.ToolResult) (llm.Message, error) {
			results = all
			switch n {
			case 0:
				return call(use("1", "replicate_agent", map[string]any{"reason": "a", "name": "ann", "task": "go", "budget": map[string]any{"model_calls": 3}}),
					use("2", "replicate_agent", map[string]any{"reason": "b", "budget": map[string]any{"model_calls": 100}}))
			case 2:
				return call(use("3", "wait_agents", map[string]any{}))
			case 3:
				return call(use("4", "stop_agents", map[string]any{}))
			}
			return say("done")
		}, func(_ context.Context, r llm.Request) (llm.Message, error) {
			if told(r) {
				return say("I got to two")
			}
			return call(use("1", "slow", waitArgs{"1s"}))
		}), slow())
		m := h.spawn(agent.Order{Policy: allowed(t, "replicate_agent", "slow"), Limits: budget.Limits{ModelCalls: 20}, LifetimeBudget: true})
		if _, err := h.task(m, "go"); err != nil {
			t.Fatal(err)
		}
		if !results[1].IsError || !strings.Contains(results[1].Text, "no share of 100 model calls, because only ") {
			t.Errorf("more than there is: %q", results[1].Text)
		}
		ann := read[waited](t, results[2]).Agents
		if len(ann) != 1 || ann[0].Status != "failed" || !strings.Contains(ann[0].Error, "3 model calls, its share. How far it got: I got to two") || ann[0].Spent.ModelCalls != 3 {
			t.Errorf("with its share of 3: %+v", ann)
		}
		if s, _ := h.factory.Spent(m.ID); s.ModelCalls != 7 {
			t.Errorf("all have made %d calls, want 4 and 3", s.ModelCalls)
		}
	})
}

func TestDefinitionsBudgetHoldsForSubAgentsOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var results []llm.ToolResult
		h := newHouse(t, parents(func(n int, all []llm.ToolResult) (llm.Message, error) {
			results = all
			switch n {
			case 0:
				return call(use("1", "replicate_agent", map[string]any{"reason": "a", "agent": "brief", "task": "go", "count": 2}))
			case 1:
				return call(use("2", "wait_agents", map[string]any{}))
			}
			return say("done")
		}, func(_ context.Context, r llm.Request) (llm.Message, error) {
			if told(r) {
				return say(r.Messages[len(r.Messages)-2].Results[0].Text)
			}
			return call(use("1", "replicate_agent", map[string]any{"reason": "x"}))
		}))
		if _, err := h.task(h.spawn(agent.Order{Policy: allowed(t, "replicate_agent"), Limits: budget.Limits{ModelCalls: 50}}), "go"); err != nil {
			t.Fatal(err)
		}
		got := read[waited](t, results[1]).Agents
		if len(got) != 2 {
			t.Fatalf("%+v, want two", got)
		}
		for _, a := range got {
			if !strings.Contains(a.Error, "2 model calls, the limit of its definition. How far it got: no sub-agent was spawned: over the budget: 0 sub-agents live") || a.Spent.ModelCalls != 2 {
				t.Errorf("%+v, want what its definition leaves it, each", a)
			}
		}
	})
}

func TestFirstAgentsTaskHasItsBudgetAnewUnlessItsOwnTreeGivesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var root community.Member
		h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			switch {
			case told(r):
				return say("no more")
			case last(r).Role == llm.Tool:
				return say(last(r).Results[0].Text)
			case last(r).Text == "spawn":
				return call(use("1", "replicate_agent", map[string]any{"reason": "x", "name": "ann"}))
			case last(r).Text == "ask root":
				return call(use("1", "send_signal", map[string]any{"member": string(root.ID), "data": "once"}))
			}
			return say("fine")
		}))
		root = h.spawn(agent.Order{Policy: allowed(t, "replicate_agent", "send_signal"), Limits: budget.Limits{ModelCalls: 5}})
		if _, err := h.task(root, "spawn"); err != nil { // 2 calls
			t.Fatal(err)
		}
		for range 10 { // each its own
			if _, err := h.task(root, "once"); err != nil {
				t.Errorf("a person's task: %v", err)
			}
		}
		var ann community.Member
		for _, m := range h.community.Members() {
			if m.Name == "ann" {
				ann = m
			}
		}
		// 1 of the last, then 3 of each round: the second goes over.
		if got, err := h.task(ann, "ask root"); err != nil || got != "fine" {
			t.Errorf("the sub-agent's first: %q, %v", got, err)
		}
		if _, err := h.task(ann, "ask root"); !errors.Is(err, budget.ErrExceeded) {
			t.Errorf("the sub-agent's second: %v, want ErrBudget: it does not get its tree a new budget", err)
		}
		if _, err := h.task(root, "once"); err != nil {
			t.Errorf("a person's task: %v", err)
		}
	})
}

// wild is a model that does anything, and what it was seen to do.
type wild struct {
	limits budget.Limits

	mu     sync.Mutex
	r      *rand.Rand
	calls  int
	tokens int64
	wrong  []string
	number int
}

func (w *wild) complain(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// begin counts a call, and says how long it takes and what comes of it.
func (w *wild) begin(r llm.Request) (wait time.Duration, listens bool, u llm.Usage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls++; w.calls > w.limits.ModelCalls {
		w.complain("%d calls of %d", w.calls, w.limits.ModelCalls)
	}
	most := r.MaxTokens
	if most == 0 {
		most = 64 << 10
	}
	text := 0
	for _, m := range r.Messages {
		text += len(m.Text)
	}
	u = llm.Usage{Input: w.r.IntN(text/3 + 1), Output: w.r.IntN(min(most, 4000) + 1)}
	if w.r.IntN(10) == 0 {
		u.Output = most
	}
	w.tokens += int64(u.Input + u.Output)
	if w.tokens > w.limits.Tokens {
		w.complain("%d tokens of %d", w.tokens, w.limits.Tokens)
	}
	return time.Duration(w.r.IntN(4)) * 700 * time.Millisecond, w.r.IntN(2) == 0, u
}

func (w *wild) answer(r llm.Request) (llm.Message, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	args := func(of map[string]any) map[string]any {
		if w.r.IntN(2) == 0 {
			of["task"] = fmt.Sprint("task ", w.r.IntN(6))
		}
		if w.r.IntN(3) == 0 {
			of["budget"] = map[string]any{"model_calls": w.r.IntN(4), "tokens": w.r.IntN(30_000), "agents": w.r.IntN(3), "depth": w.r.IntN(3)}
		}
		if w.r.IntN(3) == 0 {
			of["count"] = 1 + w.r.IntN(3)
		}
		return of
	}
	var calls []llm.ToolCall
	for range 1 + w.r.IntN(3) {
		w.number++
		id := fmt.Sprint("w", w.number)
		switch n := w.r.IntN(32); {
		case n < 14:
			calls = append(calls, use(id, "replicate_agent", args(map[string]any{"reason": "why not"})))
		case n < 18:
			calls = append(calls, use(id, "wait_agents", map[string]any{"until": []string{"any", "all", "now"}[w.r.IntN(3)], "seconds": w.r.IntN(30)}))
		case n < 19:
			calls = append(calls, use(id, "stop_agents", map[string]any{}))
		case n < 23:
			calls = append(calls, use(id, "slow", waitArgs{fmt.Sprint(w.r.IntN(40), "s")}))
		case n < 29:
			calls = append(calls, use(id, "message_agent", map[string]any{"agent": "general-1", "message": "more"}))
		case n < 30:
			return say("enough")
		case n < 31:
			return llm.Message{}, errors.New("no")
		default:
			panic("a bug")
		}
	}
	return llm.Message{Calls: calls}, nil
}

func (w *wild) model() llm.Model {
	return llm.Func(func(ctx context.Context, r llm.Request) (llm.Response, error) {
		wait, listens, u := w.begin(r)
		if listens {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
		} else {
			// A root and three generations below it may all be in such a call: together less than the time in which the root has to stop.
			time.Sleep(wait / 6)
		}
		whole := false
		defer func() {
			if !whole { // it failed before it had begun to answer, which costs nothing
				w.mu.Lock()
				defer w.mu.Unlock()
				w.tokens -= int64(u.Input + u.Output)
			}
		}()
		m, err := w.answer(r)
		whole = err == nil
		return llm.Response{Message: m, Usage: u}, err
	})
}

// Whatever a tree of agents does, at any time, it keeps to its limits, and nothing of it is left.
func TestWildTreeKeepsToItsLimits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), rapid.Uint64().Draw(rt, "more")))
		w := &wild{r: r, limits: budget.Limits{
			Depth: 1 + r.IntN(3), Agents: 1 + r.IntN(8), SpawnsPerMinute: 1 + r.IntN(20), ModelCalls: 1 + r.IntN(80), Tokens: 1000 + r.Int64N(400_000), Wall: 5 * time.Minute,
		}}
		ends := time.Duration(r.IntN(500)) * time.Second
		synctest.Test(t, func(t *testing.T) { w.live(t, ends) })
		for _, complaint := range w.wrong {
			rt.Error(complaint)
		}
	})
}

// live has an agent do two tasks, or ends it before.
func (w *wild) live(t *testing.T, ends time.Duration) {
	h := newHouse(t, w.model(), slow())
	changes := h.community.Subscribe()
	m := h.spawn(agent.Order{Policy: allowed(t, "replicate_agent", "slow"), Limits: w.limits, LifetimeBudget: true})
	ctx, cancel := context.WithTimeout(t.Context(), ends)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() { w.watch(changes) })
	for range 2 {
		_, err := h.community.Send(ctx, m.ID, community.Signal{Perception: "task", Data: []byte("go")})
		if err != nil && ctx.Err() == nil && w.limits.Wall > 0 && strings.Contains(err.Error(), "deadline") {
			w.complain("it ended with %v", err)
		}
	}
	spent, _ := h.factory.Spent(m.ID)
	if err := h.community.Terminate(t.Context(), m.ID); err != nil && !errors.Is(err, community.ErrNotFound) {
		w.complain("the end: %v", err)
	}
	synctest.Wait()
	if left := h.community.Members(); len(left) != 0 {
		w.complain("%d are left", len(left))
	}
	if spent.ModelCalls > w.limits.ModelCalls || spent.Tokens > w.limits.Tokens {
		w.complain("%+v is accounted for, of %+v", spent, w.limits)
	}
	changes.Close()
	watching.Wait()
}

// watch counts the sub-agents. One that ends gives its place back before the others are told that it left: for no time at
// all there may be one more of them.
func (w *wild) watch(changes *community.Subscription) {
	living := map[community.MemberID]bool{}
	var spawns []time.Time
	var over time.Time // since when there are too many
	for {
		ch, err := changes.Next(context.Background())
		if err != nil {
			return
		}
		if !over.IsZero() && time.Since(over) > 0 {
			w.mu.Lock()
			w.complain("%d sub-agents live, of %d", len(living), w.limits.Agents)
			w.mu.Unlock()
		}
		switch ch.Kind {
		case community.Left:
			delete(living, ch.Member.ID)
		case community.Joined:
			if ch.Member.Metadata["parent"] == "" {
				continue
			}
			living[ch.Member.ID] = true
			spawns = append(spawns, time.Now())
		}
		recent := 0
		for _, s := range spawns {
			if time.Since(s) < time.Minute {
				recent++
			}
		}
		switch {
		case len(living) <= w.limits.Agents:
			over = time.Time{}
		case over.IsZero():
			over = time.Now()
		}
		w.mu.Lock()
		if recent > w.limits.SpawnsPerMinute {
			w.complain("%d spawns in a minute, of %d", recent, w.limits.SpawnsPerMinute)
		}
		w.mu.Unlock()
	}
}
