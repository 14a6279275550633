//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/agent/session"
	symbiov1 "symbio/proto/symbio/v1"
)

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

// nextLentAnswer is nextAnswer for a task of which another node's agent does a part.
func nextLentAnswer(history []modelMessage) modelAnswer {
	if strings.HasPrefix(history[0].Text, childWord) {
		return stepAnswer(history, childAnswer, bash(3))
	}
	return stepAnswer(history, crashAnswer,
		bash(1),
		[]modelCall{{Name: "replicate_agent", Args: json.RawMessage(`{"reason":"a part of it","agent":"worker","node":"b","name":"helper","task":"` + childWord + ` three of the list."}`)}},
		[]modelCall{{Name: "wait_agents", Args: json.RawMessage(`{}`)}},
	)
}

// freeAddress returns an address of loopback at which nothing listens. Its port is below those that the system gives to
// outgoing connections: one of them could hold it while the node that listens there is started again.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("of 100 ports none is free")
	return ""
}

// newLendingPair lays out nodes a and b in one workspace; b lends the agent worker. They are not started.
func newLendingPair(t *testing.T, binary, provider string, m *strictModel) (a, b *crashNode) {
	t.Helper()
	dir, atA, atB := shortDir(t), freeAddress(t), freeAddress(t)
	a = newCrashNode(t, binary, dir, "a", atA, provider, m, fmt.Sprintf(borrowerConfig, atB))
	b = newCrashNode(t, binary, dir, "b", atB, provider, m, fmt.Sprintf(lenderConfig, atA))
	a.write("agents/worker.md", workerDefinition, 0o600)
	return a, b
}

// seesLender waits until the node can borrow agents.
func (n *crashNode) seesLender() {
	n.t.Helper()
	for deadline := time.Now().Add(limit); ; pause(n.t, 10*time.Millisecond) {
		reply, err := n.client.Members(n.t.Context(), &symbiov1.MembersRequest{Provides: "agents.spawn"})
		for _, m := range reply.GetMembers() {
			if m.GetAvailable() {
				return
			}
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("node %s sees nobody that lends agents: %v\n%s", n.name, err, n.said())
		}
	}
}

// killAtLending kills the borrower or the lender at one commit after the other.
func killAtLending(t *testing.T, binary string) {
	for _, victim := range []string{"a", "b"} {
		var cases errgroup.Group
		cases.SetLimit(4)
		var over atomic.Bool
		var passed atomic.Int32
		for n := 1 + rand.IntN(slow); !over.Load() && n < 40; n += slow {
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
		if want := int32(4 / slow); passed.Load() < want && !t.Failed() {
			t.Errorf("%s has only %d points, want %d", victim, passed.Load(), want)
		}
	}
}

// killWhileLending kills one of the nodes behind its n-th commit, and returns false if the task ended
// before.
func killWhileLending(t *testing.T, binary, victim string, n int) (reached bool) {
	m := newStrictModel(t, nextLentAnswer)
	a, b := newLendingPair(t, binary, providers[n%2], m)
	killAt := map[string]string{victim: fmt.Sprintf("after:%d", n)}
	b.start(killAt["b"])
	a.start(killAt["a"])
	a.seesLender()
	_, ended := a.converse(&symbiov1.RunRequest{Task: crashTask})
	if reached = ended; ended {
		a.kill()
		a.start("")
		a.seesLender()
		if !a.finish() {
			t.Errorf("node a ended again\n%s", a.said())
		}
	}
	a.kill()
	if victim == "b" {
		reached = !b.isRunning()
		b.kill()
		b.start("")
	}
	b.kill()
	lent := b.history().infos
	for _, i := range lent {
		if victim == "b" && reached && i.State != session.Lost && i.State != session.Done {
			t.Errorf("the session of the lent agent is %s, want lost or done", i.State)
		}
	}
	a.check(m, lent...)
	a.checkPart(victim, reached)
	bill := a.bill("")[""]
	m.mu.Lock()
	defer m.mu.Unlock()
	if missing := int64(m.tokens) - bill.Input - bill.Output; missing < 0 || missing > 0 && bill.Estimated == 0 {
		t.Errorf("the model has answered with %d tokens, and the bill is %+v", m.tokens, bill)
	}
	return reached
}

// isRunning reports whether the process of the node has not ended.
func (n *crashNode) isRunning() bool {
	var e error
	if n.conn != nil {
		_, e = n.client.Status(n.t.Context(), &symbiov1.StatusRequest{})
	}
	return e == nil
}

// checkPart checks that the borrower was told how the part of the lent agent ended.
func (n *crashNode) checkPart(victim string, reached bool) {
	n.t.Helper()
	h := n.history()
	root, _ := h.root()
	text := told(h.entries[root.ID])
	done, lost := strings.Contains(text, childAnswer), strings.Contains(text, "are lost") || strings.Contains(text, `"status":"failed"`) || strings.Contains(text, "Interrupted") || strings.Contains(text, "no sub-agent was spawned")
	if !done && !lost {
		n.t.Errorf("killed %s (%v): the borrower was told neither an answer nor a loss:\n%s", victim, reached, text)
	}
	if !reached && !done {
		n.t.Errorf("without a kill the borrower did not read the answer:\n%s", text)
	}
}
