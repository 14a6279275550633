//go:build system && linux

package lending_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"symbio/internal/community/waittest"

	"symbio/agent/session"
	"symbio/cmd/symbio/symbiotest"
	symbiov1 "symbio/proto/symbio/v1"

	"golang.org/x/sync/errgroup"
)

// nextLentAnswer is nextAnswer for a task of which another node's agent does a part.
func nextLentAnswer(history []symbiotest.ModelMessage) symbiotest.ModelAnswer {
	if strings.HasPrefix(history[0].Text, symbiotest.ChildWord) {
		return symbiotest.StepAnswer(history, symbiotest.ChildAnswer, symbiotest.Bash(3))
	}
	return symbiotest.StepAnswer(history, symbiotest.CrashAnswer,
		symbiotest.Bash(1),
		[]symbiotest.ModelCall{{Name: "replicate_agent", Args: json.RawMessage(`{"reason":"a part of it","agent":"worker","node":"b","name":"helper","task":"` + symbiotest.ChildWord + ` three of the list."}`)}},
		[]symbiotest.ModelCall{{Name: "wait_agents", Args: json.RawMessage(`{}`)}},
	)
}

// borrowerConfig and lenderConfig are added to those of two nodes, of which the first borrows.
const (
	borrowerConfig = `
discovery: {mdns: false, peers: [%q]}
authorize: [{from: local, invoke: [node.info]}]
`
	lenderConfig = `
discovery: {mdns: false, peers: [%q]}
authorize: [{from: local, invoke: [agents.spawn, agents.steer, node.info]}]
capabilities: [{name: agents.spawn, agents: [worker]}]
`
	workerDefinition = "---\nname: worker\ndescription: Does a part of the work.\n---\nYou do a part of the work.\n"
)

// newLendingPair lays out nodes a and b in one workspace; b lends the agent worker. They are not started.
func newLendingPair(t *testing.T, binary, provider string, m *symbiotest.StrictModel) (a, b *symbiotest.CrashNode) {
	t.Helper()
	dir, atA, atB := symbiotest.ShortDir(t), symbiotest.FreeAddress(t), symbiotest.FreeAddress(t)
	a = symbiotest.NewCrashNode(t, binary, dir, "a", atA, provider, m, fmt.Sprintf(borrowerConfig, atB))
	b = symbiotest.NewCrashNode(t, binary, dir, "b", atB, provider, m, fmt.Sprintf(lenderConfig, atA))
	a.Write("agents/worker.md", workerDefinition, 0o600)
	return a, b
}

// seesLender waits until the node can borrow agents.
func seesLender(n *symbiotest.CrashNode) {
	n.T.Helper()
	waittest.Until(n.T, "node "+n.Name+" to see a node that lends agents", func() (any, bool) {
		reply, err := n.Client.Members(waittest.Context(n.T), &symbiov1.MembersRequest{Provides: "agents.spawn"})
		return fmt.Sprint(reply, err), slices.ContainsFunc(reply.GetMembers(), (*symbiov1.LocatedMember).GetAvailable)
	})
}

// Of two nodes, of which one lends the other an agent, one is killed behind each of its commits.
func TestKillNineWhileLending(t *testing.T) {
	t.Parallel()
	killAtLending(t, symbiotest.BuildFaulty(t))
}

// killAtLending kills the borrower or the lender at one commit after the other.
func killAtLending(t *testing.T, binary string) {
	for _, victim := range []string{"a", "b"} {
		var cases errgroup.Group
		cases.SetLimit(4)
		var over atomic.Bool
		var passed atomic.Int32
		for n := 1 + rand.IntN(symbiotest.Slow); !over.Load() && n < 40; n += symbiotest.Slow {
			cases.Go(func() error {
				t.Run(fmt.Sprintf("%s:%d", victim, n), func(t *testing.T) {
					if killWhileLending(t, binary, victim, n) {
						passed.Add(1)
					} else {
						over.Store(true)
					}
				})
				return nil
			})
		}
		if err := cases.Wait(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s was killed at %d points", victim, passed.Load())
		if want := int32(4 / symbiotest.Slow); passed.Load() < want && !t.Failed() {
			t.Errorf("%s has only %d points, want %d", victim, passed.Load(), want)
		}
	}
}

// killWhileLending kills one of the nodes behind its n-th commit, and returns false if the task ended
// before.
func killWhileLending(t *testing.T, binary, victim string, n int) (reached bool) {
	m := symbiotest.NewStrictModel(t, nextLentAnswer)
	a, b := newLendingPair(t, binary, symbiotest.Providers[n%2], m)
	killAt := map[string]string{victim: fmt.Sprintf("after:%d", n)}
	b.Start(killAt["b"])
	a.Start(killAt["a"])
	seesLender(a)
	_, ended := a.Converse(&symbiov1.RunRequest{Task: symbiotest.CrashTask})
	if reached = ended; ended {
		a.Kill()
		a.Start("")
		seesLender(a)
		if !a.Finish() {
			t.Errorf("node a ended again\n%s", a.LogTail())
		}
	}
	a.Kill()
	if victim == "b" {
		reached = !isRunning(b)
		b.Kill()
		b.Start("")
	}
	b.Kill()
	lent := b.History().Infos
	for _, i := range lent {
		if victim == "b" && reached && i.State != session.Lost && i.State != session.Done {
			t.Errorf("the session of the lent agent is %s, want lost or done", i.State)
		}
	}
	a.Check(m, lent...)
	checkPart(a, victim, reached)
	bill := bill(a, "")[""]
	m.Mu.Lock()
	defer m.Mu.Unlock()
	if missing := int64(m.Tokens) - bill.Input - bill.Output; missing < 0 || missing > 0 && bill.Estimated == 0 {
		t.Errorf("the model has answered with %d tokens, and the bill is %+v", m.Tokens, bill)
	}
	return reached
}

// isRunning reports whether the process of the node has not ended.
func isRunning(n *symbiotest.CrashNode) bool {
	var e error
	if n.Conn != nil {
		_, e = n.Client.Status(n.T.Context(), &symbiov1.StatusRequest{})
	}
	return e == nil
}

// checkPart checks that the borrower was told how the part of the lent agent ended.
func checkPart(n *symbiotest.CrashNode, victim string, reached bool) {
	n.T.Helper()
	h := n.History()
	root, _ := h.Root()
	text := symbiotest.TextsForModel(h.Entries[root.ID])
	done, lost := strings.Contains(text, symbiotest.ChildAnswer), strings.Contains(text, "are lost") || strings.Contains(text, `"status":"failed"`) || strings.Contains(text, "Interrupted") || strings.Contains(text, "no sub-agent was spawned")
	if !done && !lost {
		n.T.Errorf("killed %s (%v): the borrower was told neither an answer nor a loss:\n%s", victim, reached, text)
	}
	if !reached && !done {
		n.T.Errorf("without a kill the borrower did not read the answer:\n%s", text)
	}
}
