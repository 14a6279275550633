package budget

import (
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
		remote, err := parent.Open(Limits{}, Limits{ModelCalls: 4, Tokens: 400, Cost: 0.4}, true)
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
		remote.Close()
		if left, want := parent.free(), 10-int64(min(4, most.ModelCalls)); left[calls] != want {
			t.Errorf("%s: %d calls are left, want %d", name, left[calls], want)
		}
	}
}

// What was made in this minute, and what may be made elsewhere, are together no more than a minute may have.
func TestRateShareCountsThisMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := New(Limits{SpawnsPerMinute: 10, Agents: 100})
		for range 5 {
			if _, err := parent.Open(Limits{}, Limits{}, false); err != nil {
				t.Fatal(err)
			}
		}
		remote, err := parent.Open(Limits{}, Limits{}, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := remote.Granted().SpawnsPerMinute; got != 2 {
			t.Errorf("after 6 of 10 in this minute %d a minute are shared out, want half of 4", got)
		}
		made := 0
		for ; made < 10; made++ {
			if _, err := parent.Open(Limits{}, Limits{}, false); err != nil {
				break
			}
		}
		if made != 2 {
			t.Errorf("%d more were made here, want 2: 2 are left to the other node", made)
		}
		time.Sleep(time.Minute)
		if all, err := parent.Open(Limits{}, Limits{SpawnsPerMinute: 99}, true); err != nil || all.Granted().SpawnsPerMinute != 7 {
			t.Errorf("a minute later: %v, want a share of all 7 that are left", err)
		}
	})
}
