//go:build linux

package main

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"symbio/agent/session"
	symbiov1 "symbio/proto/symbio/v1"
)

// bill returns what `symbio cost` prints about all nodes of the state directory, by the node's name if by is node.
func (n *crashNode) bill(by string) map[string]session.BillRow {
	n.t.Helper()
	cmd := exec.Command(n.binary, "cost", "--json", "--since", "1h", "--by", by)
	cmd.Env = n.command("").Env
	out, err := cmd.Output()
	if err != nil {
		n.t.Fatal(err)
	}
	var rows []session.BillRow
	if err := json.Unmarshal(out, &rows); err != nil {
		n.t.Fatalf("%v: %s", err, out)
	}
	bill := map[string]session.BillRow{}
	for _, r := range rows {
		bill[r.Node] = r
	}
	return bill
}

// The bill of two nodes, of which one lends an agent, equals what the server of the models has reported, to the token, whichever of them
// is killed in the middle of a request. That request alone is estimated.
func TestCostEqualsReportsOfServer(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves it out: it builds a program and starts many nodes")
	}
	t.Parallel()
	binary := buildFaulty(t)
	for i, c := range []struct {
		name, victim string
		turn         int // that of the victim which is never answered; -1 = all are
	}{
		{"no kill", "", -1}, {"no kill", "", -1}, {"borrower at first", "a", 0}, {"borrower after lending", "a", 3}, {"lender at first", "b", 0}, {"lender at last", "b", 1},
	} {
		// The wires take turns: what they report is read by code of their own, what a kill leaves by the same code.
		provider := providers[i%2]
		t.Run(c.name+" "+provider, func(t *testing.T) {
			t.Parallel()
			costOverKill(t, binary, provider, c.victim, c.turn)
		})
	}
}

func costOverKill(t *testing.T, binary, provider, victim string, turn int) {
	asked, killed := make(chan bool), make(chan bool)
	var once atomic.Bool // sub-agents may ask at the same time, and the victim asks again after the restart
	m := newStrictModel(t, nil)
	m.answer = func(history []modelMessage) modelAnswer {
		turns := 0
		for _, msg := range history {
			if len(msg.Calls) > 0 {
				turns++
			}
		}
		if strings.HasPrefix(history[0].Text, childWord) == (victim == "b") && turns == turn && once.CompareAndSwap(false, true) {
			close(asked)
			<-killed
			panic(http.ErrAbortHandler) // nothing is reported
		}
		return nextLentAnswer(history)
	}
	a, b := newLendingPair(t, binary, provider, m)
	b.start("")
	a.start("")
	a.seesLender()
	if victim != "" {
		nodes := map[string]*crashNode{"a": a, "b": b}
		done := make(chan bool)
		go func() {
			defer close(done)
			<-asked
			_ = nodes[victim].cmd.Process.Kill()
			close(killed)
		}()
		defer func() { <-done }()
	}
	if _, ended := a.converse(&symbiov1.RunRequest{Task: crashTask}); ended {
		a.kill()
		a.start("")
		a.seesLender()
		if !a.finish() {
			t.Fatalf("node a ended again\n%s", a.said())
		}
	}
	a.kill()
	b.kill()
	bill := a.bill("node")
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, _, _ := strings.Cut(crashTask, " ")
	for node, word := range map[string]string{"a": parent, "b": childWord} {
		want, got := m.reported[word], bill[node]
		lost := int64(0)
		if victim == node {
			lost = 1
		}
		if got.Input != want.Input || got.Output != want.Output || got.Calls != want.Calls+lost || (got.Estimated > 0) != (lost > 0) || want.Calls+lost == 0 {
			t.Errorf("node %s: the bill is %+v, and the server reported %+v and was left without an answer %d times", node, got, want, lost)
		}
	}
}
