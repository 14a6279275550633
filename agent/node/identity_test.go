//go:build unix

package node

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"symbio/agent/event"
	"symbio/agent/node/config"
	"symbio/agent/session"
	"symbio/internal/agent/node/state"
	"symbio/internal/community/waittest"
)

// steps is a model that calls a tool, and is never heard after it, unless it is told of a restart.
const steps = `
name: steps
turns:
- match: {user: 'The program was stopped'}
  text: went on
- match: {user: 'wait$', turn: 0}
  calls:
  - {tool: Glob, args: {pattern: '*.yaml'}}
- match: {user: 'wait$'}
  text: never heard
  stall: 1h
`

// A node that joins a cluster ends its agents. Their tasks go on under the new identity.
func TestTaskGoesOnUnderNewIdentity(t *testing.T) {
	dir, err := os.MkdirTemp("", "sy") // short: a socket lives below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "steps.yaml"), []byte(steps), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Node.Name, c.Node.Listen, c.Discovery.MDNS, c.Session.Resume = "one", "127.0.0.1:0", false, config.ResumeAuto
	c.Model, c.Directories, c.Skills.Enabled = config.Models("scripted:"+filepath.Join(dir, "steps.yaml")), nil, false
	n, err := New(Config{Settings: c, State: state.Dir(filepath.Join(dir, "state")), Dir: dir, Home: dir, Host: "one", Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(waittest.Context(t))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	<-n.Ready()
	events := n.Events().Subscribe(time.Time{})
	defer events.Close()
	await := func(is func(event.Event) bool) {
		t.Helper()
		for {
			e, err := events.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if is(e) {
				return
			}
		}
	}
	asked := make(chan error, 1)
	go func() {
		_, err := n.Ask(ctx, "", "wait")
		asked <- err
	}()
	await(func(e event.Event) bool { return e.Type == event.TypeToolResult })
	n.parts.Load().newIdentity <- struct{}{}
	if err := <-asked; err == nil {
		t.Error("the task was answered under the old identity")
	}
	await(func(e event.Event) bool { return event.PartOf[event.Session](e).State == string(session.Done) })
	all, err := n.sessions.Store().Sessions(t.Context(), session.Filter{})
	if err != nil || len(all) != 1 || all[0].State != session.Done || all[0].Exchange.Open || all[0].Tasks != 1 {
		t.Errorf("the sessions are %+v, %v", all, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the node ended with %v", err)
	}
}
