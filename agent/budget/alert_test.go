package budget_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/budget"
)

func TestAlertsTellOncePerTaskAndKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := budget.New(budget.Limits{ModelCalls: 10, Tokens: 1000, Cost: 1, Wall: 10 * time.Minute})
		child, err := top.Open(context.Background(), budget.Limits{}, budget.Limits{Tokens: 500})
		if err != nil {
			t.Fatal(err)
		}
		begin := func(a *budget.Account) *budget.Task { return budget.NewTask(a, time.Now(), time.Now().Add(a.Wall())) }
		task, below := begin(top), begin(child)
		defer task.Close()
		defer below.Close()
		expect := func(p *budget.Task, share float64, want ...string) {
			t.Helper()
			if d := cmp.Diff(want, p.Alerts(share)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		}
		top.Charge(budget.Spent{ModelCalls: 7, Tokens: 390, Cost: 0.5})
		time.Sleep(7 * time.Minute)
		expect(task, 0.8)
		child.Charge(budget.Spent{ModelCalls: 1, Tokens: 410, Cost: 0.3}) // from a share of its own
		expect(below, 0.8, "80 % of the budget of model calls is used: 8 of 10", "80 % of the budget of tokens is used: 800 of 1000", "80 % of the budget of cost is spent: $0.80 of $1.00")
		time.Sleep(2 * time.Minute)
		expect(below, 0.8)
		expect(task, 0.8, "90 % of the budget of time is used: 9m0s of 10m0s")
		top.Charge(budget.Spent{ModelCalls: 1})
		expect(task, 0.8)
		top.Renew()
		next := begin(top)
		defer next.Close()
		expect(next, 0.8)
		top.Charge(budget.Spent{ModelCalls: 9})
		expect(next, 0.8, "90 % of the budget of model calls is used: 9 of 10")
		unlimited := begin(budget.New(budget.Limits{ModelCalls: -1}))
		defer unlimited.Close()
		expect(unlimited, 0.8)
	})
}
