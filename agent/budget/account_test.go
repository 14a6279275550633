package budget

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"symbio/agent/llm"
	"symbio/community"
)

// paid is a model with a price; it is never asked.
type paid struct{ prices llm.Prices }

func (paid) Name() string { return "paid" }

func (paid) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] { return nil }

func (m paid) CostOf(u llm.Usage) (float64, bool) { return m.prices.Cost("paid", u) }

// books is a tree of accounts and what should be in it, counted by the simplest means.
type books struct {
	t        *rapid.T
	limits   Limits
	model    paid
	root     *Account
	open     []*Account
	shut     []*Account // ended sub-agents that may be restarted
	purses   map[*Account]*Task
	inFlight []*reservation
	ended    map[*Task]bool // those that have had their last words
	spawns   []time.Time
	unknown  []unknownEnds // agents of nodes that are gone
	spent    amounts       // in this task
	picked   int
}

func newBooks(t *rapid.T) *books {
	b := &books{t: t, purses: map[*Account]*Task{}, ended: map[*Task]bool{}, model: paid{llm.Prices{"paid": {Input: 3, Output: 15}}},
		picked: rapid.IntRange(0, 1000).Draw(t, "seed")}
	b.limits = Limits{
		Depth: b.between(1, 4, "depth"), Agents: b.between(1, 8, "agents"), SpawnsPerMinute: b.between(1, 12, "rate"), Wall: time.Hour,
		ModelCalls: b.between(1, 30, "calls"), Tokens: int64(b.between(1, 200, "tokens")) * 1000,
		Cost: float64(b.between(1, 50, "cost")) / 20,
	}
	b.root = New(b.limits)
	b.open = []*Account{b.root}
	return b
}

// pick draws a number below n. What is drawn tends to be small; the steps so far spread it.
func (b *books) pick(n int, name string) int {
	b.picked++
	return (rapid.IntRange(0, 1000).Draw(b.t, name) + b.picked*7) % n
}

// between draws a number of that range.
func (b *books) between(least, most int, name string) int { return least + b.pick(most-least+1, name) }

func (b *books) some(of []*Account, name string) *Account {
	if len(of) == 0 {
		return nil
	}
	return of[b.pick(len(of), name)]
}

func (b *books) step() {
	a := b.some(b.open, "account")
	do := []string{"spawn", "spawn", "share", "share", "call", "call", "call", "call", "call", "settle", "settle", "settle", "end",
		"restart", "wait", "report", "report", "lost", "task", "elsewhere", "elsewhere", "elsewhere", "ended elsewhere"}
	switch do[b.pick(len(do), "do")] {
	case "spawn":
		b.spawn(a, Limits{}, false)
	case "share":
		b.spawn(a, Limits{
			Depth: b.between(-1, 2, "depth"), Agents: b.between(-1, 3, "agents"), SpawnsPerMinute: b.between(-1, 4, "rate"),
			ModelCalls: b.between(-1, 8, "calls"), Tokens: int64(b.between(-1, 40, "tokens")) * 1000,
			Cost: float64(b.between(-1, 10, "cost")) / 20,
		}, b.pick(3, "elsewhere") == 0)
	case "call":
		b.call(a)
	case "settle":
		b.settle()
	case "end":
		b.end(a)
	case "restart":
		b.restart()
	case "wait":
		time.Sleep(time.Duration(b.between(1, 40, "seconds")) * time.Second)
	case "report":
		b.report(a, false)
	case "lost":
		b.report(a, true)
	case "elsewhere":
		if a.loan != nil && a.loan.OpenElsewhere(context.Background()) == nil {
			b.spawns = append(b.spawns, time.Now())
		}
	case "ended elsewhere":
		if a.loan != nil {
			a.loan.EndedElsewhere(a.loan.saidEnded + b.between(-1, 3, "ended"))
		}
	case "task":
		b.root.Renew()
		b.spent = amounts{}
		for _, share := range b.open { // what was spent of a share stays so until that is given back
			for k, q := range share.quotas {
				if q.own && share != b.root {
					b.spent[k] += q.spent
				}
			}
		}
	}
}

func (b *books) spawn(a *Account, share Limits, away bool) {
	if a.loan != nil {
		return // what is spawned there is that node's to count
	}
	var most Limits
	if b.pick(3, "capped") == 0 {
		most = Limits{Agents: b.between(-1, 3, "most agents"), ModelCalls: b.between(-1, 8, "most calls"),
			Tokens: int64(b.between(-1, 40, "most tokens")) * 1000}
	}
	open := func() (*Account, error) { return a.Open(context.Background(), most, share) }
	if away {
		open = func() (*Account, error) {
			loan, err := a.OpenLoan(context.Background(), share)
			return loan.Account, err
		}
	}
	child, err := open()
	if err != nil {
		if !errors.Is(err, ErrExceeded) {
			b.t.Fatalf("spawning: %v, want ErrExceeded", err)
		}
		return
	}
	b.open = append(b.open, child)
	b.spawns = append(b.spawns, time.Now())
}

func (b *books) call(a *Account) {
	if a.loan != nil {
		return
	}
	p := b.purses[a]
	if p == nil {
		p = NewTask(a, time.Now(), time.Now().Add(time.Hour))
		b.purses[a] = p
	}
	size := b.between(1, 40, "size") * 100
	t, changed, err := p.try(b.model, size, b.between(0, 20, "tools")*100)
	switch {
	case t != nil && b.ended[p]:
		b.t.Fatal("a call after the last words")
	case t != nil:
		b.ended[p] = t.summary != ""
		b.inFlight = append(b.inFlight, t)
	case err != nil && !errors.Is(err, ErrExceeded):
		b.t.Fatalf("calling: %v, want ErrExceeded", err)
	case err == nil && changed == nil:
		b.t.Fatal("neither a call nor a reason why not")
	case err == nil && len(b.inFlight) != 0:
	case err == nil && len(b.inFlight) == 0:
		b.t.Fatal("it waits for calls in flight, and there are none")
	}
}

// settle ends a call, with as many tokens as it may have had at most, or fewer, or by a failure.
func (b *books) settle() {
	if len(b.inFlight) == 0 {
		return
	}
	i := b.pick(len(b.inFlight), "which")
	t := b.inFlight[i]
	b.inFlight = append(b.inFlight[:i], b.inFlight[i+1:]...)
	b.spent[calls]++
	if b.pick(5, "failed") == 0 {
		t.settle(b.model)
		return
	}
	most := t.output
	if most == 0 {
		most = maxAnswer
	}
	u := llm.Usage{Input: b.between(0, t.size/3, "in"), Output: b.between(0, most, "out")}
	cost, _ := b.model.CostOf(u)
	u.Cost = &cost
	if t.task.account.closed && t.task.account.quotas[calls].own {
	}
	t.usage, t.started = &u, true
	t.settle(b.model)
	b.spent[tokens] += int64(u.Input + u.Output)
	b.spent[nanos] += nano(cost)
}

// end ends an agent and those below it, as the factory does: its calls first.
func (b *books) end(a *Account) {
	if a == b.root {
		return
	}
	for _, c := range append([]*Account(nil), b.open...) {
		if c.parent == a {
			b.end(c)
		}
	}
	for i := 0; i < len(b.inFlight); i++ {
		if t := b.inFlight[i]; t.task.account == a && b.pick(4, "late") > 0 { // else it does not end in time
			t.settle(b.model)
			b.inFlight = append(b.inFlight[:i], b.inFlight[i+1:]...)
			b.spent[calls]++
			i--
		}
	}
	if p := b.purses[a]; p != nil {
		p.Close()
		delete(b.purses, a)
	}
	a.Close()
	for i, c := range b.open {
		if c == a {
			b.open = append(b.open[:i], b.open[i+1:]...)
			break
		}
	}
	if a.loan == nil {
		b.shut = append(b.shut, a)
	}
}

func (b *books) restart() {
	a := b.some(b.shut, "which")
	if a == nil || !a.closed {
		return
	}
	switch err := a.Reopen(context.Background()); {
	case err == nil:
		b.open = append(b.open, a)
		for i, c := range b.shut {
			if c == a {
				b.shut = append(b.shut[:i], b.shut[i+1:]...)
				break
			}
		}
	case !errors.Is(err, ErrExceeded) && !errors.Is(err, community.ErrStopped):
		b.t.Fatalf("restarting: %v", err)
	}
}

// report has another node say what it has spent, which may be nonsense.
func (b *books) report(a *Account, lost bool) {
	if a.loan == nil {
		return
	}
	before := a.used.amounts
	if lost {
		b.unknown = append(b.unknown, unknownEnds{until: time.Now().Add(lentGrace), count: 1 + len(a.loan.elsewhere)})
		a.loan.CloseLost()
		for i, c := range b.open {
			if c == a {
				b.open = append(b.open[:i], b.open[i+1:]...)
				break
			}
		}
	} else {
		a.loan.Report(Spent{
			Agents: b.between(-5, 1000, "made"), ModelCalls: b.between(-5, 20, "calls"),
			Tokens: rapid.Int64().Draw(b.t, "tokens"), Cost: rapid.Float64().Draw(b.t, "cost"),
		})
	}
	for k := range kinds {
		if a.used.amounts[k] < before[k] {
			b.t.Fatalf("%s were spent, and then %s", k.words(before[k]), k.words(a.used.amounts[k]))
		}
		b.spent[k] += a.used.amounts[k] - before[k]
	}
}

func (b *books) check() {
	b.t.Helper()
	free := amounts{places: int64(len(b.open) - 1)}
	for _, a := range b.open {
		if a.loan != nil {
			free[places] += int64(len(a.loan.elsewhere))
		}
	}
	alive := free[places] // at most
	for _, gone := range b.unknown {
		if time.Now().Before(gone.until) {
			alive += int64(gone.count)
		}
	}
	for _, gone := range b.root.ledger.unknown {
		free[places] += int64(gone.count)
	}
	for k := range kinds {
		for _, a := range b.open {
			if a.quotas[k].own {
				if left := a.quotas[k].limit - a.quotas[k].taken; left < 0 {
					b.t.Fatalf("%s too many are taken of %s", k.words(-left), k.words(a.quotas[k].limit))
				} else {
					free[k] += left
				}
			}
		}
		for _, p := range b.purses {
			free[k] += p.summaryReserve[k]
		}
		for _, t := range b.inFlight {
			free[k] += t.reserved[k]
		}
		if k != places {
			free[k] += b.spent[k]
		}
		if free[k] != b.root.quotas[k].limit {
			b.t.Fatalf("the parts sum to %d of %s", free[k], k.words(b.root.quotas[k].limit))
		}
		if k != places && b.spent[k] > b.root.quotas[k].limit {
			b.t.Fatalf("spent %s of %s", k.words(b.spent[k]), k.words(b.root.quotas[k].limit))
		}
	}
	for _, a := range b.open {
		for k := range kinds {
			if most := max(a.quotas[k].upper, 0); a.quotas[k].upper != 0 && (a.quotas[k].taken > most || a.quotas[k].spent > most) {
				b.t.Fatalf("%s are taken by one that may take %s", k.words(a.quotas[k].taken), k.words(most))
			}
		}
	}
	if alive > int64(b.limits.Agents) {
		b.t.Fatalf("%d agents live, of %d", alive, b.limits.Agents)
	}
	for _, a := range b.open {
		if a.generation > b.limits.Depth || a.generation+a.depthLeft > b.limits.Depth {
			b.t.Fatalf("generation %d, and %d below it, of %d", a.generation, a.depthLeft, b.limits.Depth)
		}
	}
	now, recent := time.Now(), 0
	for _, s := range b.spawns {
		if now.Sub(s) < time.Minute {
			recent++
		}
	}
	if recent > b.limits.SpawnsPerMinute {
		b.t.Fatalf("%d spawns in a minute, of %d", recent, b.limits.SpawnsPerMinute)
	}
}

// Any order of spawns, calls, ends, failures, restarts and what other nodes say.
func TestNoLimitIsExceededAndTheSharesAreTheWhole(t *testing.T) {
	for range 5 { // a check ends by itself after a day, which is not long in a bubble
		synctest.Test(t, checkBooks)
	}
}

func checkBooks(t *testing.T) {
	rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
		b := newBooks(rt)
		for range rapid.IntRange(25, 80).Draw(rt, "steps") {
			b.step()
			b.check()
		}
		for len(b.open) > 1 {
			b.end(b.open[1])
			b.check()
		}
		for len(b.inFlight) > 0 {
			b.settle()
			b.check()
		}
		for _, p := range b.purses {
			p.Close()
		}
		clear(b.purses)
		time.Sleep(lentGrace)
		b.root.Ended()
		b.check()
		for k, left := range b.root.free() {
			if want := b.root.quotas[k].limit - b.spent[k]; left != want {
				rt.Fatalf("in the end %s are left, want %s", kind(k).words(left), kind(k).words(want))
			}
			if b.root.quotas[k].reserved != 0 {
				rt.Fatalf("in the end %s are in flight", kind(k).words(b.root.quotas[k].reserved))
			}
		}
	})
}
