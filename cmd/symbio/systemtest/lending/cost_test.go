//go:build system && linux

package lending_test

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"symbio/agent/session"
	"symbio/cmd/symbio/symbiotest"
	symbiov1 "symbio/proto/symbio/v1"
)

// bill returns what `symbio sessions cost` prints about all nodes of the state directory, by the node's name if by is node.
func bill(n *symbiotest.CrashNode, by string) map[string]session.BillRow {
	n.T.Helper()
	cmd := exec.Command(n.Binary, "sessions", "cost", "--json", "--since", "1h", "--by", by)
	cmd.Env = n.Command("").Env
	out, err := cmd.Output()
	if err != nil {
		n.T.Fatal(err)
	}
	var rows []session.BillRow
	if err := json.Unmarshal(out, &rows); err != nil {
		n.T.Fatalf("%v: %s", err, out)
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
	binary := symbiotest.BuildFaulty(t)
	for i, c := range []struct {
		name, victim string
		turn         int // that of the victim which is never answered; -1 = all are
	}{
		{"no kill", "", -1}, {"no kill", "", -1}, {"borrower at first", "a", 0}, {"borrower after lending", "a", 3}, {"lender at first", "b", 0}, {"lender at last", "b", 1},
	} {
		// The wires take turns: what they report is read by code of their own, what a kill leaves by the same code.
		provider := symbiotest.Providers[i%2]
		t.Run(c.name+" "+provider, func(t *testing.T) {
			t.Parallel()
			costOverKill(t, binary, provider, c.victim, c.turn)
		})
	}
}

func costOverKill(t *testing.T, binary, provider, victim string, turn int) {
	asked, killed := make(chan bool), make(chan bool)
	var once atomic.Bool // sub-agents may ask at the same time, and the victim asks again after the restart
	m := symbiotest.NewStrictModel(t, nil)
	m.Answer = func(history []symbiotest.ModelMessage) symbiotest.ModelAnswer {
		turns := 0
		for _, msg := range history {
			if len(msg.Calls) > 0 {
				turns++
			}
		}
		if strings.HasPrefix(history[0].Text, symbiotest.ChildWord) == (victim == "b") && turns == turn && once.CompareAndSwap(false, true) {
			close(asked)
			<-killed
			panic(http.ErrAbortHandler) // nothing is reported
		}
		return nextLentAnswer(history)
	}
	a, b := newLendingPair(t, binary, provider, m)
	b.Start("")
	a.Start("")
	seesLender(a)
	if victim != "" {
		nodes := map[string]*symbiotest.CrashNode{"a": a, "b": b}
		done := make(chan bool)
		go func() {
			defer close(done)
			<-asked
			_ = nodes[victim].Cmd.Process.Kill()
			close(killed)
		}()
		defer func() { <-done }()
	}
	if _, ended := a.Converse(&symbiov1.RunRequest{Task: symbiotest.CrashTask}); ended {
		a.Kill()
		a.Start("")
		seesLender(a)
		if !a.Finish() {
			t.Fatalf("node a ended again\n%s", a.LogTail())
		}
	}
	a.Kill()
	b.Kill()
	rows := bill(a, "node")
	m.Mu.Lock()
	defer m.Mu.Unlock()
	parent, _, _ := strings.Cut(symbiotest.CrashTask, " ")
	for node, word := range map[string]string{"a": parent, "b": symbiotest.ChildWord} {
		want, got := m.Reported[word], rows[node]
		lost := int64(0)
		if victim == node {
			lost = 1
		}
		if got.Input != want.Input || got.Output != want.Output || got.Calls != want.Calls+lost || (got.Estimated > 0) != (lost > 0) || want.Calls+lost == 0 {
			t.Errorf("node %s: the bill is %+v, and the server reported %+v and was left without an answer %d times", node, got, want, lost)
		}
	}
}
