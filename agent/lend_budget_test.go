package agent_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/llm"
	"symbio/community"
)

// storm is two nodes that lend to each other, a tree of agents that does whatever a plan says, and what goes wrong
// meanwhile.
type storm struct {
	*lan
	limits   budget.Limits
	plan     []int
	troubles []int

	mu     sync.Mutex
	next   int                         // of plan
	calls  int                         // of models
	tokens int64                       // that they counted
	lent   map[community.MemberID]bool // all that were seen
	most   int                         // descendants that lived at once
	calm   time.Time                   // when the last partition has surely been noticed
	wrong  []string
}

func (s *storm) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// answer is the model of all of them.
func (s *storm) answer(_ context.Context, r llm.Request) (llm.Response, error) {
	s.mu.Lock()
	s.calls++
	do := s.plan[s.next%len(s.plan)]
	s.next++
	usage := llm.Usage{Input: len(r.System) / 4, Output: 50 + 10*do}
	if r.MaxTokens > 0 {
		usage.Output = min(usage.Output, r.MaxTokens)
	}
	s.tokens += int64(usage.Input + usage.Output)
	s.mu.Unlock()
	s.look()
	m := s.act(r, do)
	if len(r.Tools) == 0 {
		m = llm.Message{Text: "these are my last words"}
	}
	return llm.Response{Message: m, Stop: llm.StopEnd, Usage: usage}, nil
}

func (s *storm) act(r llm.Request, do int) llm.Message {
	other := "bob"
	if s.on(r.System) == s.b {
		other = "ann"
	}
	here := map[string]any{"reason": "more hands"}
	there := map[string]any{"reason": "more hands", "node": other}
	var sends []llm.ToolCall
	for i, res := range last(r).Results {
		if id := agentID(res.Text); res.Name == "replicate_agent" && id != "" {
			sends = append(sends, use(fmt.Sprint("s", i), "send_signal", map[string]any{"member": id, "data": "work"}))
		}
	}
	switch {
	case len(sends) > 0 && do != 0 && !strings.Contains(last(r).Results[0].Text, "working"):
		return llm.Message{Calls: sends}
	case do <= 1:
		return llm.Message{Text: "done"}
	case do == 2:
		return llm.Message{Calls: []llm.ToolCall{use("1", "slow", waitArgs{"7s"})}}
	case do <= 4:
		return llm.Message{Calls: []llm.ToolCall{use("1", "replicate_agent", here)}}
	case do <= 6:
		return llm.Message{Calls: []llm.ToolCall{use("1", "replicate_agent", there)}}
	}
	there["task"], here["task"] = fmt.Sprint("work on ", s.counted()), fmt.Sprint("work on ", s.counted())
	switch do {
	case 9:
		return llm.Message{Calls: []llm.ToolCall{use("1", "replicate_agent", there), use("2", "replicate_agent", here), use("3", "wait_agents", map[string]any{"seconds": 20})}}
	case 10:
		there["budget"] = map[string]any{"model_calls": 4, "agents": 1}
		return llm.Message{Calls: []llm.ToolCall{use("1", "replicate_agent", there), use("2", "wait_agents", map[string]any{"until": "any"})}}
	case 11:
		return llm.Message{Calls: []llm.ToolCall{use("1", "stop_agents", map[string]any{})}}
	}
	return llm.Message{Calls: []llm.ToolCall{use("1", "replicate_agent", here), use("2", "replicate_agent", there), use("3", "replicate_agent", there), use("4", "slow", waitArgs{"1s"})}}
}

// counted is another number each time.
func (s *storm) counted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return s.next
}

// on is where the agent with that system prompt lives.
func (s *storm) on(system string) *place {
	for _, m := range s.b.here() {
		if strings.Contains(system, string(m.ID)) {
			return s.b
		}
	}
	return s.a
}

// descendants are those that live, on both nodes.
func (s *storm) descendants() (n int, lent []community.MemberID) {
	for _, p := range []*place{s.a, s.b} {
		for _, m := range p.here() {
			if m.Metadata["parent"] == "" {
				continue
			}
			n++
			if m.Metadata["lent_to"] != "" {
				lent = append(lent, m.ID)
			}
		}
	}
	return n, lent
}

// look holds what lives now against the limits. One that ends gives its place back before it is no member any more: for
// no time at all there may be one more of them.
func (s *storm) look() {
	n, lent := s.descendants()
	if n > s.limits.Agents {
		time.Sleep(time.Millisecond)
		n, _ = s.descendants()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range lent {
		s.lent[id] = true
	}
	if time.Now().After(s.calm) {
		s.most = max(s.most, n)
	}
}

// trouble is what happens to them from outside.
func (s *storm) trouble(do int, cancel context.CancelFunc) {
	switch do {
	case 0:
		cancel()
	case 1:
		for _, m := range s.b.here() {
			if m.Metadata["lent_to"] != "" {
				_ = s.b.community.Terminate(context.Background(), m.ID)
				break
			}
		}
	case 2:
		s.mu.Lock()
		s.calm = time.Now().Add(20 * time.Second)
		s.mu.Unlock()
		s.network.Partition(s.b.id)
		time.Sleep(5 * time.Second)
		s.network.Heal()
		time.Sleep(5 * time.Second)
	}
	time.Sleep(3 * time.Second)
	s.look()
}

// rage lets it happen, and holds what came of it against the limits.
func (s *storm) rage(t *testing.T) {
	root := s.a.spawn(t, agent.Order{Limits: s.limits, LifetimeBudget: true})
	for _, do := range s.troubles {
		ctx, cancel := context.WithCancel(context.Background())
		var task sync.WaitGroup
		task.Go(func() { _, _ = s.a.task(ctx, root, "work") })
		s.trouble(do, cancel)
		task.Wait()
		cancel()
	}
	time.Sleep(20 * time.Second)
	s.mu.Lock()
	calls := s.calls // some may still work, and go on until the end
	s.mu.Unlock()
	time.Sleep(time.Second)
	spent, ok := s.a.factory.Spent(root.ID)
	if !ok || spent.ModelCalls > s.limits.ModelCalls || spent.Tokens > s.limits.Tokens {
		s.fault("the root says that %+v is spent, of %+v", spent, s.limits)
	}
	if err := s.a.community.Terminate(context.Background(), root.ID); err != nil {
		s.fault("the end: %v", err)
	}
	time.Sleep(10 * time.Second)
	synctest.Wait()
	if left := append(s.a.here(), s.b.here()...); len(left) > 0 {
		s.fault("%d agents are left: %v", len(left), left)
	}
	if s.calls > s.limits.ModelCalls || s.tokens > s.limits.Tokens || s.most > s.limits.Agents {
		s.fault("%d calls, %d tokens and %d agents at once, of %+v", s.calls, s.tokens, s.most, s.limits)
	}
	if spent.ModelCalls < calls {
		s.fault("%d calls are accounted for, and there were %d", spent.ModelCalls, calls)
	}
	var made []time.Time
	for _, p := range []*place{s.a, s.b} {
		made = append(made, p.spawned...)
	}
	slices.SortFunc(made, time.Time.Compare)
	for i := range made {
		if j := i + s.limits.SpawnsPerMinute; j < len(made) && made[j].Sub(made[i]) < time.Minute {
			s.fault("%d agents were spawned within %v, and %d a minute may be", s.limits.SpawnsPerMinute+1, made[j].Sub(made[i]), s.limits.SpawnsPerMinute)
			break
		}
	}
}

// Whatever a tree of agents over two nodes does, in whatever order, and whatever goes wrong with it: no limit is exceeded, all
// is accounted for, and nothing is left.
func TestNoBudgetIsExceededOverTwoNodes(t *testing.T) {
	spawned, lent := 0, 0
	// A check takes a twentieth of a second, so there are fewer than usual unless -rapid.checks asks for another number.
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := flag.Set("rapid.checks", "40"); err != nil {
			t.Fatal(err)
		}
		defer flag.Set("rapid.checks", checks.DefValue)
	}
	rapid.Check(t, func(rt *rapid.T) {
		// What rapid draws tends to be small, and a small plan does nothing.
		draw := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		between := func(least, most int) int { return least + draw.IntN(most-least+1) }
		s := &storm{
			lent: map[community.MemberID]bool{},
			limits: budget.Limits{
				Depth: between(1, 3), Agents: between(1, 6), SpawnsPerMinute: between(1, 9),
				ModelCalls: between(3, 60), Tokens: int64(between(5, 200)) * 1000, Wall: 10 * time.Minute,
			},
		}
		for range between(2, 20) {
			s.plan = append(s.plan, between(0, 11))
		}
		for range between(1, 4) {
			s.troubles = append(s.troubles, between(0, 4))
		}
		synctest.Test(t, func(t *testing.T) {
			cfg := general()
			cfg.Max, cfg.PerNode, cfg.Limits = 99, 99, budget.Limits{Depth: 99, Agents: 99, SpawnsPerMinute: 999}
			s.lan = newLAN(t, llm.Func(s.answer), cfg, slow())
			s.a.lend(t, cfg)
			time.Sleep(time.Second)
			s.rage(t)
			spawned, lent = spawned+len(s.a.spawned)+len(s.b.spawned), lent+len(s.lent)
		})
		for _, w := range s.wrong {
			rt.Error(w)
		}
	})
	t.Logf("%d agents were spawned, %d of them on the other node", spawned, lent)
	if !t.Failed() && (spawned < 16 || lent < 8) {
		t.Errorf("%d agents were spawned, %d of them on the other node: too little happened", spawned, lent)
	}
}
