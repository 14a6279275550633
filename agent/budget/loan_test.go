package budget

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// No account that a lender gives takes more from the parent's budget than the share, nor gives back what was counted.
func TestReportNeverExceedsShare(t *testing.T) {
	for name, said := range map[string][]Spent{
		"nothing":    {{}},
		"all":        {{ModelCalls: 4, Tokens: 400, Cached: 300, Cost: 0.4}},
		"far more":   {{Agents: 1 << 40, ModelCalls: math.MaxInt, Tokens: math.MaxInt64, Cached: math.MaxInt64, Cost: math.MaxFloat64, Wall: 1e300}},
		"less again": {{ModelCalls: 3, Tokens: 300, Cost: 0.3}, {ModelCalls: 1, Tokens: 1}},
		"negative":   {{ModelCalls: 2, Tokens: 200, Cost: 0.2}, {Agents: math.MinInt, ModelCalls: math.MinInt, Tokens: math.MinInt64, Cost: -math.MaxFloat64}},
		"no number":  {{Cost: math.NaN()}, {Cost: math.Inf(1)}},
	} {
		parent := New(Limits{ModelCalls: 10, Tokens: 1000, Cost: 1})
		remote, err := parent.OpenLoan(context.Background(), Limits{ModelCalls: 4, Tokens: 400, Cost: 0.4})
		if err != nil {
			t.Fatal(err)
		}
		most, least := Spent{}, Spent{}
		for _, s := range said {
			remote.Report(s)
			now := parent.Total()
			most = Spent{ModelCalls: max(most.ModelCalls, s.ModelCalls), Tokens: max(most.Tokens, s.Tokens), Cost: max(most.Cost, s.Cost)}
			if now.ModelCalls > 4 || now.Tokens > 400 || now.Cost > 0.4 {
				t.Errorf("%s: %+v is counted of a share of 4, 400, 0.4", name, now)
			}
			if now.Cached < 0 || now.Cached > now.Tokens {
				t.Errorf("%s: %d tokens of %d came from a cache", name, now.Cached, now.Tokens)
			}
			if now.ModelCalls < least.ModelCalls || now.Tokens < least.Tokens || now.Cost < least.Cost {
				t.Errorf("%s: %+v is counted, and %+v was before", name, now, least)
			}
			least = now
		}
		remote.Account.Close()
		if left, want := parent.free(), 10-int64(min(4, most.ModelCalls)); left[calls] != want {
			t.Errorf("%s: %d calls are left, want %d", name, left[calls], want)
		}
	}
}

// What is made here and on other nodes is together no more than a minute may have, and nothing is set aside for what other
// nodes may make.
func TestSpawnsElsewhereCountForRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := New(Limits{SpawnsPerMinute: 10, Agents: 100})
		remote, err := parent.OpenLoan(t.Context(), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := remote.Granted().SpawnsPerMinute; got != 10 {
			t.Errorf("the other node may make %d a minute, want 10", got)
		}
		for minute := range 3 {
			made := 1
			for made < 20 {
				_, err := parent.Open(t.Context(), Limits{}, Limits{})
				if err == nil {
					made++
				}
				if remote.OpenElsewhere(t.Context()) == nil {
					made++
				} else if err != nil {
					break
				}
			}
			if want := 10 + min(minute, 1); made != want {
				t.Errorf("minute %d: %d were made, want %d", minute, made, want)
			}
			time.Sleep(time.Minute + lentGrace)
		}
	})
}

// borrowed are the places of a borrower's account for a loan.
type borrowed struct{ loan *Loan }

func (b borrowed) Take(ctx context.Context) error { return b.loan.OpenElsewhere(ctx) }
func (borrowed) Ended()                           {}

// Places are counted where agents live: no loan keeps others from one that nobody has. What ends is free again, over two nodes as
// over one.
func TestLoansTakeOnlyPlacesOfAgentsThatLive(t *testing.T) {
	for name, tt := range map[string]struct {
		limits Limits
		loans  int
		each   int // agents that each lent agent has
		alive  int
	}{
		"40 over four nodes": {Limits{Agents: 64, SpawnsPerMinute: 100, ModelCalls: 10_000, Tokens: 1 << 40}, 40, 0, 40},
		"all that may live":  {Limits{Agents: 64, SpawnsPerMinute: 100, ModelCalls: 10_000, Tokens: 1 << 40}, 4, 15, 64},
		"the defaults":       {Limits{}, 5, 2, 15},
		"one more than may":  {Limits{}, 6, 2, 16},
	} {
		root := New(tt.limits)
		alive := 0
		var lent, agents []*Account
		var loans []*Loan
		for range tt.loans {
			loan, err := root.OpenLoan(t.Context(), Limits{})
			if err != nil {
				break
			}
			alive++
			// It is lent by a node that lends an agent of a third one.
			middle := NewLent(loan.Granted(), borrowed{loan})
			loans, lent = append(loans, loan), append(lent, middle)
			for n := range tt.each {
				open := func() (*Account, error) { return middle.Open(t.Context(), Limits{}, Limits{}) }
				if n == 0 {
					open = func() (*Account, error) { l, err := middle.OpenLoan(t.Context(), Limits{}); return l.Account, err }
				}
				one, err := open()
				if err != nil {
					break
				}
				alive, agents = alive+1, append(agents, one)
			}
		}
		if alive != tt.alive {
			t.Errorf("%s: %d live, want %d", name, alive, tt.alive)
		}
		if _, _, left := root.binding(places); int(left) != root.Limits().Agents-alive {
			t.Errorf("%s: %d places are left", name, left)
		}
		for _, one := range agents {
			one.Close()
		}
		for i, loan := range loans {
			loan.EndedElsewhere(lent[i].Ended())
		}
		if _, _, left := root.binding(places); int(left) != root.Limits().Agents-len(loans) {
			t.Errorf("%s: when all but %d lent ones have ended, %d places are left", name, len(loans), left)
		}
	}
}

// A place of a node that is gone is free when that node must have noticed: agents that cannot be seen may live until then.
func TestPlacesOfLostLoanAreFreeAfterGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := New(Limits{Agents: 3})
		loan, err := root.OpenLoan(t.Context(), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := loan.OpenElsewhere(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		loan.CloseLost()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := root.Open(over, Limits{}, Limits{}); !errors.Is(err, ErrExceeded) {
			t.Errorf("at once: %v, want ErrExceeded", err)
		}
		began := time.Now()
		if _, err := root.Open(t.Context(), Limits{}, Limits{}); err != nil || time.Since(began) != lentGrace {
			t.Errorf("after %v: %v, want one after %v", time.Since(began), err, lentGrace)
		}
	})
}

// What a lost lender may have spent since its latest report counts, and not the whole share: before, the first of these
// loans was charged with 499 calls and 4,999,000 tokens.
func TestLostLoanIsChargedForTimeSinceReport(t *testing.T) {
	for name, tt := range map[string]struct {
		share   Limits
		reports []Spent
		silent  time.Duration
		want    Spent // in all
		below   int   // agents on that node
	}{
		"lived 1.5 s":          {Limits{}, []Spent{{ModelCalls: 1, Tokens: 1000}}, 1500 * time.Millisecond, Spent{ModelCalls: 1 + 43, Tokens: 1000 + 430_000}, 0},
		"never reported":       {Limits{}, nil, 1500 * time.Millisecond, Spent{ModelCalls: 43, Tokens: 430_000}, 0},
		"large requests":       {Limits{}, []Spent{{ModelCalls: 1, Tokens: 10}, {ModelCalls: 3, Tokens: 24_010}}, 0, Spent{ModelCalls: 3 + 35, Tokens: 24_010 + 35*24_000}, 0},
		"with three below it":  {Limits{}, []Spent{{ModelCalls: 9, Tokens: 90, Agents: 3}}, 0, Spent{Agents: 4, ModelCalls: 9 + 4*35, Tokens: 90 + 4*350_000}, 3},
		"a long time":          {Limits{}, []Spent{{ModelCalls: 9, Tokens: 90}}, time.Hour, Spent{ModelCalls: 500, Tokens: 5_000_000}, 0},
		"a small share":        {Limits{ModelCalls: 20, Tokens: 100_000, Cost: 2}, []Spent{{ModelCalls: 2, Tokens: 8000, Cost: 0.5}}, 0, Spent{ModelCalls: 20, Tokens: 100_000, Cost: 2}, 0},
		"its part of the cost": {Limits{ModelCalls: 350, Tokens: 1_000_000, Cost: 3.5}, nil, 0, Spent{ModelCalls: 35, Tokens: 350_000, Cost: 0.35}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			parent := New(Limits{Cost: 10})
			remote, err := parent.OpenLoan(context.Background(), tt.share)
			if err != nil {
				t.Fatal(err)
			}
			for range tt.below {
				if err := remote.OpenElsewhere(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute)
			for _, s := range tt.reports {
				remote.Report(s)
			}
			if tt.reports == nil {
				remote.reportedAt = time.Now()
			}
			time.Sleep(tt.silent)
			remote.CloseLost()
			got := parent.Total()
			tt.want.Agents = max(tt.want.Agents, 1)
			tt.want.Wall = got.Wall
			if tt.want.Cost == 0 {
				tt.want.Cost = got.Cost
			}
			if got != tt.want {
				t.Errorf("%s: %+v, want %+v", name, got, tt.want)
			}
		})
	}
}

// An honest lender makes no more calls than its borrower counts for the time, however fast its models are.
func TestLentCallsKeepRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := NewLent(Limits{}, nil)
		done := 0
		began := time.Now()
		for done < 100 {
			a.ledger.waitPace(ctx)
			done++
			if most := lentBurst + int(lentRate*time.Since(began).Seconds()+0.001); done > most {
				t.Fatalf("%d calls after %v, and at most %d may be", done, time.Since(began), most)
			}
		}
		if took := time.Since(began); took > 19*time.Second {
			t.Errorf("100 calls took %v", took)
		}
		New(Limits{}).ledger.waitPace(ctx) // not held to any rate
		began = time.Now()
		cancel()
		a.ledger.waitPace(ctx)
		if time.Since(began) != 0 {
			t.Error("the end of the context does not end the wait")
		}
	})
}

func TestLoansWithoutNumbersShareWhatIsLeft(t *testing.T) {
	parent := New(Limits{Agents: 256, ModelCalls: 1000, Tokens: 1_000_000, SpawnsPerMinute: 1000})
	var loans []*Loan
	for n := range int64(15) {
		loan, err := parent.OpenLoan(context.Background(), Limits{})
		if err != nil {
			t.Fatalf("loan %d: %v", n+1, err)
		}
		if got, least := loan.Granted().Tokens, 1_000_000/((n+1)*(n+2))-1; got < least {
			t.Errorf("loan %d has %d tokens, want at least %d", n+1, got, least)
		}
		loans = append(loans, loan)
	}
	for _, loan := range loans {
		loan.Account.Close()
	}
	again, err := parent.OpenLoan(context.Background(), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Granted().Tokens; got != 500_000 {
		t.Errorf("when all have ended the next has %d tokens, want half", got)
	}
}

// Places of agents that a lender lost just before the lease ended may still be taken.
func TestPlacesThatALenderLostAreFreeAfterGrace(t *testing.T) {
	for name, tt := range map[string]struct {
		close func(*Loan)
		free  int // at once, of three
	}{
		"all have ended":  {func(l *Loan) { l.CloseEnded(2) }, 3},
		"one has not":     {func(l *Loan) { l.CloseEnded(1) }, 2},
		"all are lost":    {func(l *Loan) { l.CloseUnknown() }, 0},
		"said too much":   {func(l *Loan) { l.CloseEnded(99) }, 3},
		"closed, and so?": {func(l *Loan) { l.CloseUnknown(); l.CloseEnded(2) }, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			root := New(Limits{Agents: 3})
			loan, err := root.OpenLoan(t.Context(), Limits{})
			for range 2 {
				err = errors.Join(err, loan.OpenElsewhere(t.Context()))
			}
			if err != nil {
				t.Fatal(err)
			}
			tt.close(loan)
			for _, want := range []int{tt.free, 3} {
				root.ledger.mu.Lock()
				root.ledger.expire()
				_, _, left := root.binding(places)
				root.ledger.mu.Unlock()
				if int(left) != want {
					t.Errorf("%s: %d places are free, want %d", name, left, want)
				}
				time.Sleep(lentGrace)
			}
		})
	}
}

// A spawn waits for places of a lost node only where they are what it lacks.
func TestSpawnDoesNotWaitInVain(t *testing.T) {
	for name, tt := range map[string]struct {
		child Limits // of the account that spawns
		use   bool   // the calls are used up
	}{"its own places": {Limits{Agents: -1}, false}, "calls": {Limits{}, true}} {
		synctest.Test(t, func(t *testing.T) {
			root := New(Limits{Agents: 2, ModelCalls: 1})
			child, err := root.Open(t.Context(), tt.child, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			loan, err := root.OpenLoan(t.Context(), Limits{ModelCalls: 1})
			if err != nil {
				t.Fatal(err)
			}
			loan.CloseUnknown()
			if tt.use {
				child.Charge(Spent{ModelCalls: 1})
			}
			began := time.Now()
			if _, err := child.Open(t.Context(), Limits{}, Limits{}); !errors.Is(err, ErrExceeded) || time.Since(began) != 0 {
				t.Errorf("%s: %v after %v, want ErrExceeded at once", name, err, time.Since(began))
			}
		})
	}
}
