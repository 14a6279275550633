package agent

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsSaidOfAShareIsHeardAsItWasMeant(t *testing.T) {
	for name, l := range map[string]Limits{
		"all of it":      {Depth: 2, Agents: 3, SpawnsPerMinute: 4, Wall: 90 * time.Second, ModelCalls: 5, Tokens: 600, Cost: 0.7},
		"nothing said":   {},
		"nothing at all": {Depth: -1, Agents: -1, SpawnsPerMinute: -1, Wall: -1, ModelCalls: -1, Tokens: -1, Cost: -1},
		"a part":         {Depth: -1, Tokens: 7},
	} {
		data, err := json.Marshal(loanRequest{Agent: "x", Share: share(l)})
		if err != nil {
			t.Fatal(err)
		}
		in, err := readLoan(data)
		if err != nil {
			t.Fatalf("%s: %s: %v", name, data, err)
		}
		if diff := cmp.Diff(l, in.Share.limits()); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, data, diff)
		}
	}
}

func TestNoNumberOfABorrowerIsMoreThanIsLent(t *testing.T) {
	most := Limits{Depth: 1, Agents: 2, SpawnsPerMinute: 3, Wall: time.Minute, ModelCalls: 4, Tokens: 500, Cost: 0.5}
	for _, data := range []string{
		`{"agent":"x"}`, `{"agent":"x","share":{}}`, `{"agent":"x","share":null}`,
		`{"agent":"x","share":{"depth":9,"agents":9,"spawns_per_minute":9,"model_calls":9,"tokens":999,"cost":9,"wall":1e300}}`,
	} {
		in, err := readLoan([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(most, most.Within(in.Share.limits())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", data, diff)
		}
	}
	in, err := readLoan([]byte(`{"agent":"x","share":{"depth":0,"agents":-3,"spawns_per_minute":0,"model_calls":0,"tokens":-1,"cost":0,"wall":0}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]float64{
		"depth": float64(most.Within(in.Share.limits()).Depth), "agents": float64(most.Within(in.Share.limits()).Agents),
		"model calls": float64(most.Within(in.Share.limits()).ModelCalls), "tokens": float64(most.Within(in.Share.limits()).Tokens),
		"cost": most.Within(in.Share.limits()).Cost, "wall": float64(most.Within(in.Share.limits()).Wall),
	} {
		if n > 0 {
			t.Errorf("a share of no %s became %v", name, n)
		}
	}
}

func TestRequestsThatMakeNoSenseAreRefused(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), maxReason+1))
	for name, data := range map[string]string{
		"nothing": ``, "no JSON": `{`, "a list": `[]`, "no agent": `{}`, "something behind": `{"agent":"x"} {}`, "an unknown key": `{"agent":"x","root":true}`,
		"a number too many": `{"agent":"x","share":{"agents":1e400}}`, "a part of an agent": `{"agent":"x","share":{"agents":0.5}}`,
		"a parent that is none": `{"agent":"x","parent":"../etc"}`, "an end of nobody": `{"end":"bob"}`, "a long reason": `{"agent":"x","reason":"` + long + `"}`,
	} {
		if in, err := readLoan([]byte(data)); err == nil {
			t.Errorf("%s: read as %+v", name, in)
		}
	}
}

func TestTheLinesOfALenderAreCutAnyhow(t *testing.T) {
	want := []loanUpdate{
		{Member: &loanMember{ID: "aa000000000000000000000000000000", Name: "w", Accepts: []string{"task"}}}, {Spent: &Spent{Tokens: 7, Wall: 1.5}}, {Spent: &Spent{Tokens: 9}},
	}
	var all []byte
	for _, u := range want {
		line, err := u.line()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, line...)
	}
	for size := 1; size <= len(all); size++ {
		var l loanLines
		var got []loanUpdate
		for part := range slices.Chunk(all, size) {
			us, err := l.take(part)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, us...)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("in parts of %d (-want +got):\n%s", size, diff)
		}
	}
	var l loanLines
	if _, err := l.take(bytes.Repeat([]byte("x"), maxLoanLine+1)); err == nil {
		t.Error("a line without an end is no error")
	}
	for _, line := range []string{"x\n", `{"member":{"id":"bob","accepts":["task"]}}` + "\n", `{"member":{"id":"aa000000000000000000000000000000"}}` + "\n"} {
		l = loanLines{}
		if u, err := l.take([]byte(line)); err == nil {
			t.Errorf("%q is read as %+v", line, u)
		}
	}
}

// No account that a lender gives takes more from the parent's budget than the share, nor gives back what was counted.
func TestAnAccountIsNeverMoreThanTheShare(t *testing.T) {
	for name, said := range map[string][]Spent{
		"nothing":    {{}},
		"all":        {{ModelCalls: 4, Tokens: 400, Cost: 0.4}},
		"far more":   {{Agents: 1 << 40, ModelCalls: math.MaxInt, Tokens: math.MaxInt64, Cost: math.MaxFloat64, Wall: 1e300}},
		"less again": {{ModelCalls: 3, Tokens: 300, Cost: 0.3}, {ModelCalls: 1, Tokens: 1}},
		"negative":   {{ModelCalls: 2, Tokens: 200, Cost: 0.2}, {Agents: math.MinInt, ModelCalls: math.MinInt, Tokens: math.MinInt64, Cost: -math.MaxFloat64}},
		"no number":  {{Cost: math.NaN()}, {Cost: math.Inf(1)}},
	} {
		parent := newAccount(Limits{ModelCalls: 10, Tokens: 1000, Cost: 1})
		away, err := parent.open(Limits{ModelCalls: 4, Tokens: 400, Cost: 0.4}, true)
		if err != nil {
			t.Fatal(err)
		}
		most, least := Spent{}, Spent{}
		for _, s := range said {
			away.report(s.said())
			now := parent.total()
			most = Spent{ModelCalls: max(most.ModelCalls, s.ModelCalls), Tokens: max(most.Tokens, s.Tokens), Cost: max(most.Cost, s.Cost)}
			if now.ModelCalls > 4 || now.Tokens > 400 || now.Cost > 0.4 {
				t.Errorf("%s: %+v is counted of a share of 4, 400, 0.4", name, now)
			}
			if now.ModelCalls < least.ModelCalls || now.Tokens < least.Tokens || now.Cost < least.Cost {
				t.Errorf("%s: %+v is counted, and %+v was before", name, now, least)
			}
			least = now
		}
		away.close()
		if left, want := parent.free(), 10-int64(min(4, most.ModelCalls)); left[calls] != want {
			t.Errorf("%s: %d calls are left, want %d", name, left[calls], want)
		}
	}
}

// What was made in this minute, and what may be made elsewhere, are together no more than a minute may have.
func TestAShareOfTheRateIsOfWhatThisMinuteLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := newAccount(Limits{SpawnsPerMinute: 10, Agents: 100})
		for range 5 {
			if _, err := parent.open(Limits{}, false); err != nil {
				t.Fatal(err)
			}
		}
		away, err := parent.open(Limits{}, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := away.granted().SpawnsPerMinute; got != 2 {
			t.Errorf("after 6 of 10 in this minute %d a minute are shared out, want half of 4", got)
		}
		made := 0
		for ; made < 10; made++ {
			if _, err := parent.open(Limits{}, false); err != nil {
				break
			}
		}
		if made != 2 {
			t.Errorf("%d more were made here, want 2: 2 are left to the other node", made)
		}
		time.Sleep(time.Minute)
		if all, err := parent.open(Limits{SpawnsPerMinute: 99}, true); err != nil || all.granted().SpawnsPerMinute != 7 {
			t.Errorf("a minute later: %v, want a share of all 7 that are left", err)
		}
	})
}

func FuzzReadLoan(f *testing.F) {
	f.Add([]byte(`{"agent":"worker","name":"w","parent":"aa000000000000000000000000000000","tools":["Read"],"share":{"depth":1,"cost":0.5,"wall":60}}`))
	f.Add([]byte(`{"end":"aa000000000000000000000000000000"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := readLoan(data)
		if err != nil {
			return
		}
		most := Limits{}.withDefaults()
		got := most.Within(in.Share.limits())
		if got.Depth > most.Depth || got.Agents > most.Agents || got.SpawnsPerMinute > most.SpawnsPerMinute || got.Wall > most.Wall || got.ModelCalls > most.ModelCalls || got.Tokens > most.Tokens {
			t.Errorf("%s: %+v", data, got)
		}
	})
}

func FuzzLoanLines(f *testing.F) {
	f.Add([]byte(`{"member":{"id":"aa000000000000000000000000000000","name":"w","accepts":["task"]}}`+"\n"+`{"spent":{"tokens":7}}`+"\n"), 3)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		var l loanLines
		parent := newAccount(Limits{Tokens: 100, ModelCalls: 10})
		away, err := parent.open(Limits{Tokens: 40, ModelCalls: 4}, true)
		if err != nil {
			t.Fatal(err)
		}
		for part := range slices.Chunk(data, max(1, min(size, 1<<16))) {
			us, err := l.take(part)
			for _, u := range us {
				if u.Spent != nil {
					away.report(u.Spent.said())
				}
			}
			if err != nil {
				break
			}
		}
		if s := parent.total(); s.Tokens > 40 || s.ModelCalls > 4 {
			t.Errorf("%+v of a share of 40 tokens and 4 calls", s)
		}
	})
}
