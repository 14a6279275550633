//go:build unix

package telemetry_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/internal/agent/node/state"
	"symbio/internal/community/waittest"
	"symbio/internal/security/permission/authorize"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

// The words of the task that are content, and a secret of the exporters.
const (
	taskWord   = "word-of-task"
	answerWord = "word-of-answer"
	argsWord   = "word-of-args"
	headerWord = "word-of-header"
)

// script calls one tool after the other for the task, and answers at once for the parts that its
// sub-agents are given.
func script(_ context.Context, r llm.Request) (llm.Response, error) {
	out := llm.Response{Usage: llm.Usage{Input: 11, Output: 5}}
	calls := []llm.ToolCall{
		{Name: "Bash", Args: json.RawMessage(`{"command":"env; echo ` + argsWord + `","description":"x"}`)},
		{Name: "replicate_agent", Args: json.RawMessage(`{"reason":"a part","name":"helper","task":"part"}`)},
		{Name: "wait_agents", Args: json.RawMessage(`{}`)},
		{Name: "replicate_agent", Args: json.RawMessage(`{"reason":"a part there","agent":"general","node":"b","name":"lent","task":"part"}`)},
		{Name: "wait_agents", Args: json.RawMessage(`{}`)},
		{Name: "invoke_capability", Args: json.RawMessage(`{"capability":"text.echo","data":"\"x\""}`)},
		{Name: "invoke_capability", Args: json.RawMessage(`{"capability":"text.review","data":"\"part\""}`)},
	}
	done := 0
	for _, m := range r.Messages {
		done += len(m.Results)
	}
	if r.Messages[0].Text != taskWord || done == len(calls) {
		out.Message.Text = answerWord
		return out, nil
	}
	out.Message.Calls = calls[done : done+1]
	return out, nil
}

// settings of a node of the test: nothing leaves this machine, and other nodes may do all.
func settings(name string) config.Config {
	c := config.Default()
	c.Node.Name, c.Node.Listen, c.Discovery.MDNS, c.Skills.Enabled = name, "127.0.0.1:0", false, false
	c.Model, c.Approvals.Unattended = config.Models("func:script"), true
	c.Permissions = permission.Config{Preset: "none", Default: "ask", Allow: permission.Rules("replicate_agent", "wait_agents", "invoke_capability")}
	c.Sandbox.Preset = "off"
	c.Authorize = []authorize.Rule{{From: "local", Invoke: []string{"*"}}}
	return c
}

// doTask runs two nodes and gives the first one the task, which it also needs the other one for. It
// returns when both have ended. output is what the command printed.
func doTask(t *testing.T) (output string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sy") // short: sockets live below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	options := func(c config.Config) node.Config {
		return node.Config{Settings: c, State: state.Dir(filepath.Join(dir, "state")), Dir: dir, Home: dir, Version: "1.2.3", Models: map[string]llm.Model{"script": llm.Func(script)}}
	}
	ctx := waittest.Context(t)
	b := settings("b")
	b.Capabilities = []config.Capability{
		{Name: "text.echo", Exec: []string{"/bin/cat"}}, {Name: "text.review", Agent: "general"},
		{Name: "agents.spawn", Lending: config.Lending{Agents: []string{"general"}}},
	}
	err = node.Run(ctx, options(b), func(ctx context.Context, _ *node.Node) error {
		a := settings("a")
		a.Discovery.Peers = []string{addressOf(t, filepath.Join(dir, "state"))}
		return node.Run(ctx, options(a), func(ctx context.Context, n *node.Node) error {
			awaitProvider(ctx, t, n, "text.review")
			events := n.Events().Subscribe(time.Time{})
			defer events.Close()
			answer := make(chan error, 1)
			go func() {
				a, err := n.Ask(ctx, "general", taskWord)
				if err == nil && a.Text != answerWord {
					t.Errorf("the answer is %q", a.Text)
				}
				answer <- err
			}()
			for {
				select {
				case err := <-answer:
					return err
				case <-events.Ready():
				}
				for e, ok := events.Take(); ok; e, ok = events.Take() {
					switch part := e.Part.(type) {
					case event.Approval:
						if _, err := n.Approvals().Answer(ctx, &symbiov1.AnswerRequest{Id: part.ID, Digest: part.Digest, Allow: true}); err != nil {
							return err
						}
					case event.Tool:
						switch {
						case e.Type != event.TypeToolResult:
						case part.Failed:
							t.Errorf("%s failed: %s", part.Tool, e.Text)
						case part.Tool == "Bash":
							output = e.Text
						}
					}
				}
			}
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// addressOf returns the address at which other nodes reach the node b.
func addressOf(t *testing.T, dir string) string {
	t.Helper()
	conn, err := state.Dir(dir).Node("b").Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s, err := symbiov1.NewControlClient(conn).Status(t.Context(), &symbiov1.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return s.GetListen()
}

// awaitProvider waits until n sees a node that provides a capability.
func awaitProvider(ctx context.Context, t *testing.T, n *node.Node, capability string) {
	t.Helper()
	changes := n.Community().Subscribe()
	defer changes.Close()
	for len(n.Community().WhoProvides(capability)) == 0 {
		if _, err := changes.Next(ctx); err != nil {
			t.Fatalf("no node provides %s: %v", capability, err)
		}
	}
}
