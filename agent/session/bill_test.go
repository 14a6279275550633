package session_test

import (
	"os/user"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/agent/session"
)

// request returns the entry of a request of an estimated size, some hours after started.
func request(hours, size int, model string) session.Entry {
	return session.Entry{Kind: session.Request, Time: started.Add(time.Duration(hours) * time.Hour), Usage: &llm.Usage{Input: size, Model: model}}
}

// answer returns the entry of an answer, and report that of a request without one.
func answer(u llm.Usage) session.Entry {
	return session.Entry{Kind: session.Answer, Time: started, Message: &llm.Message{}, Usage: &u}
}

func report(u llm.Usage) session.Entry {
	return session.Entry{Kind: session.Report, Time: started, Usage: &u}
}

// bill returns the bill of a store.
func bill(t *testing.T, s session.Store, q session.BillQuery) []session.BillRow {
	t.Helper()
	rows, err := session.Bill(t.Context(), s, q)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// addsUpCalls groups the calls of a conversation, its sub-agent, and one for another node.
func addsUpCalls(t *testing.T, s session.Store) {
	a, child, b := info("a", 0), info("child", 0), info("b", 0)
	a.Agent, b.Agent, b.User = "general", "worker", "0-kitchen"
	child.Root, child.Parent, child.Agent = "a", "a", "worker"
	commit(t, s, a, request(0, 100, "m"), answer(llm.Usage{Input: 80, Output: 5, CacheRead: 60, CacheWrite: 10, Cost: new(0.25)}))
	commit(t, s, child, request(1, 50, "m,n"), answer(llm.Usage{Input: 40, Output: 4, Model: "n"}))
	commit(t, s, b, request(12, 30, "m"))
	commit(t, s, b, answer(llm.Usage{Input: 20, Output: 2, Cost: new(0.5)}))
	commit(t, s, a, request(24, 1000, "m"))
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	first := session.BillRow{Calls: 1, Input: 80, Output: 5, CacheRead: 60, CacheWrite: 10, Cost: 0.25}
	second := session.BillRow{Calls: 1, Input: 40, Output: 4, Unpriced: 1}
	third := session.BillRow{Calls: 1, Input: 20, Output: 2, Cost: 0.5}
	open := session.BillRow{Calls: 1, Estimated: 1000, Unpriced: 1}
	sum := func(of session.BillRow, rows ...session.BillRow) session.BillRow {
		for _, r := range rows {
			of.Add(r)
		}
		return of
	}
	for name, c := range map[string]struct {
		q    session.BillQuery
		want []session.BillRow
	}{
		"all":     {session.BillQuery{}, []session.BillRow{sum(session.BillRow{}, first, second, third, open)}},
		"until":   {session.BillQuery{Since: started.Add(time.Hour + time.Minute), Until: started.Add(11 * time.Hour)}, []session.BillRow{second}},
		"nothing": {session.BillQuery{Since: started.Add(25 * time.Hour)}, []session.BillRow{}},
		"day":     {session.BillQuery{By: []string{"day"}}, []session.BillRow{sum(session.BillRow{Day: "2026-03-01"}, first, second), sum(session.BillRow{Day: "2026-03-02"}, third, open)}},
		"agent":   {session.BillQuery{By: []string{"agent"}}, []session.BillRow{sum(session.BillRow{Agent: "general"}, first, open), sum(session.BillRow{Agent: "worker"}, second, third)}},
		"model":   {session.BillQuery{By: []string{"model"}}, []session.BillRow{sum(session.BillRow{Model: "m"}, first, third, open), sum(session.BillRow{Model: "n"}, second)}},
		"session": {session.BillQuery{By: []string{"session"}}, []session.BillRow{sum(session.BillRow{Session: "a"}, first, second, open), sum(session.BillRow{Session: "b"}, third)}},
		"two": {session.BillQuery{By: []string{"user", "node"}, Node: "n"}, []session.BillRow{
			sum(session.BillRow{User: "0-kitchen", Node: "n"}, third), sum(session.BillRow{User: me.Username, Node: "n"}, first, second, open),
		}},
	} {
		if d := cmp.Diff(c.want, bill(t, s, c.q)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// countsCallsOnce counts what was reported in all ways, and nothing twice: not in a fork, and not when the session is deleted.
func countsCallsOnce(t *testing.T, s session.Store) {
	i := info("a", 0)
	commit(t, s, i, session.Entry{Kind: session.Task, Message: &llm.Message{Text: "x"}})
	for _, e := range []session.Entry{
		request(0, 1, "m"), report(llm.Usage{}), // refused
		request(0, 1, "m"), report(llm.Usage{Input: 10}), // broken off
		request(0, 1, "m"), report(llm.Usage{Input: 100}), {Kind: session.Compaction, Began: -1},
		request(0, 2000, "m"), // lost
		request(0, 1, "m"), answer(llm.Usage{Input: 200}),
		request(0, 3000, "m"), answer(llm.Usage{}), // of a server that reports nothing
		request(0, 0, "m"), answer(llm.Usage{Input: 400}),
		{Kind: session.End, Status: session.Done},
	} {
		commit(t, s, i, e)
	}
	want := []session.BillRow{{Calls: 7, Input: 710, Estimated: 5000, Unpriced: 6}}
	check := func(when string) {
		t.Helper()
		if d := cmp.Diff(want, bill(t, s, session.BillQuery{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", when, d)
		}
	}
	check("at first")
	if _, err := session.Fork(t.Context(), s, i, 1); err != nil {
		t.Fatal(err)
	}
	check("after a fork")
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	check("after the session was deleted")
	if _, err := s.Prune(t.Context(), time.Now().Add(time.Hour), 0); err != nil {
		t.Fatal(err)
	}
	check("after all sessions were pruned")
	// The store may give them ids of deleted entries. They are too many for one transaction of SQLite's store.
	var many []session.Entry
	for range 600 {
		many = append(many, request(0, 1, "m"), answer(llm.Usage{Input: 7}))
	}
	commit(t, s, info("b", 0), many...)
	want[0].Calls, want[0].Input, want[0].Unpriced = 607, 710+600*7, 606
	check("with a session after that")
}

func refusesUnknownColumn(t *testing.T, s session.Store) {
	q := session.BillQuery{By: []string{"model", "cost; DROP TABLE calls"}}
	if _, err := s.Bill(t.Context(), q); err == nil || !strings.Contains(err.Error(), "none of day, node,") {
		t.Errorf("the bill by %q: %v", q.By, err)
	}
	if _, err := session.Bill(t.Context(), s, q); err == nil {
		t.Error("Bill adds up by an unknown column")
	}
}
