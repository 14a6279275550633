//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"symbio/agent/llm"
	"symbio/agent/node/control"
	"symbio/agent/session"
	"symbio/agent/session/sqlite"
	symbiov1 "symbio/proto/symbio/v1"
)

// crashTask is the task of every case, and crashAnswer its answer. The sub-agent's task begins with
// childWord.
const (
	crashTask   = "Work through the list."
	crashAnswer = "All is done."
	childWord   = "Part"
	childAnswer = "The part is done."
)

// crashConfig is that of a node whose model is a strictModel. Calls without a rule wait for a person.
const crashConfig = `
node: {name: %s, listen: %q}
model: %s:m
providers: {openai: {base_url: "%s"}, anthropic: {base_url: "%s"}}
agents: agents
workspace: .
sandbox: {preset: "off"}
skills: {enabled: false}
permissions:
  preset: none
  default: ask
  allow: [Read, Edit, replicate_agent, wait_agents, "invoke_capability(agents.spawn)", "Bash(./effect 1)", "Bash(./effect 3)"]
`

// loneConfig is added to that of a node without others.
const loneConfig = "discovery: {mdns: false}\n"

// effectScript is the tool whose effects are counted: it adds a line to a file beside it.
const effectScript = `#!/bin/sh
sleep 0.01
echo "effect-$1" >>effects
sleep 0.01
echo "effect-$1 is done"
`

// faulty has the path of `symbio` with the build tag faults, which is built once, for all tests.
var faulty = sync.OnceValues(func() (string, error) {
	if err := os.Mkdir(faultyDir(), 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(faultyDir(), "symbio")
	return path, goBuild("-tags", "faults", "-o", path, "symbio/cmd/symbio")
})

// goBuild builds a program as it is released: without C, also if these tests are built with it, so that what was compiled
// once serves all. What a debugger reads is most of the linker's work.
func goBuild(args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-ldflags=-w"}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}

// buildFaulty returns the path of `symbio` with the build tag faults.
func buildFaulty(t *testing.T) string {
	t.Helper()
	path, err := faulty()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// nextAnswer is what the model answers to a history: the first step that it has not asked for yet. It
// never repeats a call.
func nextAnswer(history []modelMessage) modelAnswer {
	if strings.HasPrefix(history[0].Text, childWord) {
		return stepAnswer(history, childAnswer, bash(3))
	}
	return stepAnswer(history, crashAnswer,
		[]modelCall{{Name: "Read", Args: json.RawMessage(`{"file_path":"notes.txt"}`)}, bash(1)[0]},
		bash(2),
		[]modelCall{{Name: "replicate_agent", Args: json.RawMessage(`{"reason":"a part of it","name":"helper","task":"` + childWord + ` three of the list."}`)}},
		[]modelCall{{Name: "wait_agents", Args: json.RawMessage(`{}`)}},
		[]modelCall{{Name: "Edit", Args: json.RawMessage(`{"file_path":"notes.txt","old_string":"(mark)","new_string":"(mark)(edited)"}`)}},
	)
}

// bash is the call for an effect.
func bash(n int) []modelCall {
	return []modelCall{{Name: "Bash", Args: json.RawMessage(fmt.Sprintf(`{"command":"./effect %d"}`, n))}}
}

// stepAnswer returns the calls of the first step that is not in the history, or the final answer.
func stepAnswer(history []modelMessage, final string, steps ...[]modelCall) modelAnswer {
	n := 0
	for _, m := range history {
		if len(m.Calls) > 0 {
			n++
		}
	}
	if n >= len(steps) {
		return modelAnswer{Text: final}
	}
	a := modelAnswer{Text: fmt.Sprintf("Step %d.", n+1)}
	for i, c := range steps[n] {
		c.ID = fmt.Sprintf("call_%d_%d", n+1, i+1)
		a.Calls = append(a.Calls, c)
	}
	return a
}

// crashNode is a node that is killed and started again.
type crashNode struct {
	t                 *testing.T
	binary, dir, name string
	mounts            string // shell commands for a mount namespace of the node's own; "" = it has none
	cmd               *exec.Cmd
	log               *os.File
	conn              *grpc.ClientConn
	client            symbiov1.ControlClient
}

// newCrashNode lays out a workspace and the node's state in a directory. more is added to its configuration.
func newCrashNode(t *testing.T, binary, dir, name, listen, provider string, m *strictModel, more string) *crashNode {
	t.Helper()
	n := &crashNode{t: t, binary: binary, dir: dir, name: name}
	if err := os.MkdirAll(filepath.Join(n.dir, "agents"), 0o700); err != nil {
		t.Fatal(err)
	}
	n.write(name+".yaml", fmt.Sprintf(crashConfig, name, listen, provider, m.URL+"/v1", m.URL)+more, 0o600)
	n.write("effect", effectScript, 0o700)
	n.write("notes.txt", "(mark)\n", 0o600)
	n.write("effects", "", 0o600)
	var err error
	if n.log, err = os.Create(filepath.Join(n.dir, name+".log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.kill()
		n.log.Close()
	})
	return n
}

// write writes a file of the workspace.
func (n *crashNode) write(file, text string, mode os.FileMode) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, file), []byte(text), mode); err != nil {
		n.t.Fatal(err)
	}
}

// state is the state directory of the node.
func (n *crashNode) state() string { return filepath.Join(n.dir, "symbio", "nodes", n.name) }

// command returns the command that runs the node. killAt names the commit at which it dies; "" = none.
func (n *crashNode) command(killAt string) *exec.Cmd {
	cmd := exec.Command(n.binary, "up", "--config", n.name+".yaml")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if n.mounts != "" {
		own := namespace("", "-c", "mount --make-rprivate / && "+n.mounts+` && exec "$@"`, "sh", n.binary, "up", "--config", n.name+".yaml")
		own.SysProcAttr.Cloneflags = own.SysProcAttr.Cloneflags&^syscall.CLONE_NEWNET | syscall.CLONE_NEWNS
		own.Path = "/bin/sh"
		cmd = own
	}
	cmd.Dir = n.dir
	cmd.Env = append(os.Environ(), "HOME="+n.dir, "XDG_STATE_HOME="+n.dir, "XDG_CONFIG_HOME="+n.dir, "OPENAI_API_KEY=k", "ANTHROPIC_API_KEY=k", "SYMBIO_KILL_AT="+killAt)
	return cmd
}

// start starts the node and waits until it answers.
func (n *crashNode) start(killAt string) {
	n.t.Helper()
	cmd := n.command(killAt)
	cmd.Stdout, cmd.Stderr = n.log, n.log
	err := cmd.Start()
	if n.mounts != "" && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL)) {
		n.t.Skipf("mount namespaces are missing: this user may not make them (root may): %v", err)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	n.cmd = cmd
	socket := filepath.Join(n.state(), "control.sock")
	if n.mounts != "" {
		socket = fmt.Sprintf("/proc/%d/root%s", cmd.Process.Pid, socket)
	}
	// A connection of its own: the one before may not have noticed the end of its node yet.
	quick := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.2, MaxDelay: 50 * time.Millisecond}, MinConnectTimeout: time.Second}
	n.conn, err = grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(quick))
	if err != nil {
		n.t.Fatal(err)
	}
	n.client = symbiov1.NewControlClient(n.conn)
	ctx, cancel := context.WithTimeout(n.t.Context(), limit)
	defer cancel()
	if _, err := n.client.Status(ctx, &symbiov1.StatusRequest{}, grpc.WaitForReady(true)); err != nil {
		n.t.Fatalf("node %s is not ready: %v\n%s", n.name, err, n.said())
	}
}

// kill ends the node as a crash does, and returns when it is gone.
func (n *crashNode) kill() {
	if n.cmd != nil {
		_ = n.cmd.Process.Kill() // it may be gone
		_ = n.cmd.Wait()
		_ = n.conn.Close()
		n.cmd = nil
	}
}

// said is the end of the node's log.
func (n *crashNode) said() string {
	text, err := os.ReadFile(n.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}

// exchange is what a conversation reported until its result or the end of the node.
type exchange struct {
	session string // "" = the node did not say
	Text    string
	Status  string
	Error   string
}

// converse begins a conversation, allows what waits for a person, and returns at its result. ended is
// true if the node ended before.
func (n *crashNode) converse(open *symbiov1.RunRequest) (x exchange, ended bool) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), limit)
	defer cancel()
	open.Interactive = true
	stream, err := n.client.Converse(ctx)
	if err == nil {
		err = stream.Send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Open{Open: open}})
	}
	for err == nil {
		e, failed := control.Receive(stream.Recv)
		if err = failed; err != nil {
			break
		}
		var fields struct{ ID string }
		switch e.Type {
		case "session":
			err = json.Unmarshal(e.Data, &fields)
			x.session = fields.ID
		case "approval":
			if err = json.Unmarshal(e.Data, &fields); err == nil {
				_, err = n.client.Answer(ctx, &symbiov1.AnswerRequest{Id: fields.ID, Allow: true, By: "test"})
			}
		case "result":
			if err := json.Unmarshal(e.Data, &x); err != nil {
				n.t.Fatal(err)
			}
			// At the end of the stream the agent has ended, and its session is free.
			for err := stream.CloseSend(); err == nil; {
				_, err = stream.Recv()
			}
			return x, false
		}
	}
	if ctx.Err() != nil {
		n.t.Errorf("no end of the conversation: %v\n%s", err, n.said())
	}
	x.Error = fmt.Sprint(err)
	return x, true
}

// history is what the store has of the sessions of a node.
type crashHistory struct {
	infos   []session.Info
	entries map[string][]session.Entry
}

// history reads the sessions from the node's file.
func (n *crashNode) history() (h crashHistory) {
	n.t.Helper()
	store, err := sqlite.OpenReader(filepath.Join(n.state(), "sessions.db"))
	if err != nil {
		n.t.Fatal(err)
	}
	defer store.Close()
	if h.infos, err = store.Sessions(n.t.Context(), session.Filter{}); err != nil {
		n.t.Fatal(err)
	}
	h.entries = map[string][]session.Entry{}
	for _, i := range h.infos {
		if h.entries[i.ID], err = store.Entries(n.t.Context(), i.ID, 0); err != nil {
			n.t.Fatal(err)
		}
	}
	return h
}

// root returns the session of the task; ok is false if there is none.
func (h crashHistory) root() (session.Info, bool) {
	i := slices.IndexFunc(h.infos, func(s session.Info) bool { return s.Parent == "" })
	if i < 0 {
		return session.Info{}, false
	}
	return h.infos[i], true
}

// finish goes on with the task on a node that was started again, as a person would: with the session if
// there is one, else with the task. It returns true at the result.
func (n *crashNode) finish() bool {
	n.t.Helper()
	root, ok := n.history().root()
	switch {
	case !ok:
		_, ended := n.converse(&symbiov1.RunRequest{Task: crashTask})
		return !ended
	case root.State == session.Done:
		return true
	}
	if root.State != session.Interrupted {
		n.t.Errorf("after the restart the session is %s, want interrupted", root.State)
	}
	x, ended := n.converse(&symbiov1.RunRequest{Session: root.ID})
	if !ended && (x.Status != "done" || x.Text != crashAnswer) {
		n.t.Errorf("the resumed task ended %s with %q, %s; want done", x.Status, x.Text, x.Error)
	}
	return !ended
}

// check compares what happened with what the sessions say and what the model was told. lent are the
// sessions of lent agents on another node.
func (n *crashNode) check(m *strictModel, lent ...session.Info) {
	n.t.Helper()
	h := n.history()
	root, ok := h.root()
	if !ok || root.State != session.Done || root.Open || len(h.infos) > 2 {
		n.t.Errorf("the sessions are %+v; want one that is done, and at most one of a sub-agent", h.infos)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.violations {
		n.t.Errorf("the model was sent what no server accepts: %s", v)
	}
	if text := session.LastAnswer(h.entries[root.ID]); text != crashAnswer {
		n.t.Errorf("the last answer is %q, want %q", text, crashAnswer)
	}
	known := results(h.entries[root.ID])
	for _, r := range lastHistory(m, strings.Fields(crashTask)[0]) {
		if e, ok := known[r.ID]; !ok || !strings.Contains(r.Text, e.Text) {
			n.t.Errorf("the model read %q as the result of %s, the session has %q", r.Text, r.ID, e.Text)
		}
	}
	var tokens int64
	for _, i := range lent {
		tokens += i.Spent.Tokens
	}
	for _, i := range h.infos {
		tokens += i.Spent.Tokens
		for _, e := range h.entries[i.ID] {
			if e.Kind == session.Lent {
				tokens -= e.Spent.Tokens // the lender's session has them, too
			}
		}
		if i.Parent == "" {
			continue
		}
		if i.Open {
			n.t.Errorf("the session of the sub-agent is open: %+v", i)
		}
		if i.State == session.Done && !strings.Contains(told(h.entries[root.ID]), childAnswer) {
			n.t.Errorf("the sub-agent is done, and its parent was not told: %q", told(h.entries[root.ID]))
		}
	}
	if tokens < int64(m.tokens) {
		n.t.Errorf("the sessions have spent %d tokens, and the model has answered with %d", tokens, m.tokens)
	}
	n.checkEffects(h, root)
}

// checkEffects counts the effects: none happened twice, and each call has a result that fits.
func (n *crashNode) checkEffects(h crashHistory, root session.Info) {
	n.t.Helper()
	lines := n.read("effects")
	for _, i := range h.infos {
		entries := h.entries[i.ID]
		known := results(entries)
		for _, c := range calls(entries) {
			count, ok := 0, false
			switch c.Name {
			case "Bash":
				count, ok = strings.Count(lines, strings.Replace(commandOf(c), "./effect ", "effect-", 1)+"\n"), true
			case "Edit":
				count, ok = strings.Count(n.read("notes.txt"), "(edited)"), true
			}
			r, answered := known[c.ID]
			switch {
			case !answered && i.ID == root.ID:
				n.t.Errorf("the call %s of %s has no result", c.ID, c.Name)
			case !answered: // the sub-agent was lost, which its parent was told: see below
				if !strings.Contains(told(h.entries[root.ID]), i.Member) || count > 1 {
					n.t.Errorf("effect of %s: %d times, and the parent was not told that its sub-agent is lost", c.Args, count)
				}
			case !ok:
			case strings.HasPrefix(r.Text, "Interrupted"):
				if count > 1 {
					n.t.Errorf("effect of %s: %d times after an interruption", c.Args, count)
				}
			case r.IsError == (count > 0) || count > 1:
				n.t.Errorf("effect of %s: %d times, and its result is %q (error %v)", c.Args, count, r.Text, r.IsError)
			}
		}
	}
	for _, line := range strings.Fields(lines) {
		if strings.Count(lines, line+"\n") != 1 {
			n.t.Errorf("an effect happened twice:\n%s", lines)
			break
		}
	}
}

func (n *crashNode) read(file string) string {
	n.t.Helper()
	b, err := os.ReadFile(filepath.Join(n.dir, file))
	if err != nil {
		n.t.Fatal(err)
	}
	return string(b)
}

func commandOf(c llm.ToolCall) string {
	var a struct{ Command string }
	_ = json.Unmarshal(c.Args, &a) // the model of the test wrote it
	return a.Command
}

// calls returns the calls that the model asked for; results what is recorded of them, by id.
func calls(entries []session.Entry) (all []llm.ToolCall) {
	for _, e := range entries {
		if e.Kind == session.Answer {
			all = append(all, e.Message.Calls...)
		}
	}
	return all
}

func results(entries []session.Entry) map[string]llm.ToolResult {
	all := map[string]llm.ToolResult{}
	for _, e := range entries {
		if e.Kind == session.Result {
			all[e.Result.CallID] = *e.Result
		}
	}
	return all
}

// told returns all that the model was told after the task: results, and texts of the program.
func told(entries []session.Entry) (all string) {
	for _, e := range entries {
		switch e.Kind {
		case session.Text:
			all += e.Text + "\n"
		case session.Result:
			all += e.Result.Text + "\n"
		}
	}
	return all
}

// lastHistory returns the results in the latest request of a history. The caller holds the lock.
func lastHistory(m *strictModel, word string) (all []modelResult) {
	for _, message := range m.histories[word] {
		all = append(all, message.Results...)
	}
	return all
}

// providers are the two wires.
var providers = []string{"openai", "anthropic"}

// The node is killed before and after each of its commits, and at random moments, also while it resumes.
// SYMBIO_SOAK makes 300 random moments of the 20. Under the race detector, which sees this test only and not the program that
// it builds, it is one commit of five.
func TestKillNineAtEverySeam(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves it out: it builds a program and starts many nodes")
	}
	t.Parallel()
	binary := buildFaulty(t)
	t.Run("seams", func(t *testing.T) { killAtSeams(t, binary) })
	t.Run("lending", func(t *testing.T) { killAtLending(t, binary) })
	t.Run("full disk", func(t *testing.T) { stopAtFullDisk(t, binary) })
	t.Run("read-only disk", func(t *testing.T) { refuseReadOnlyDisk(t, binary) })
	t.Run("moments", func(t *testing.T) { killAtMoments(t, binary) })
}

// killAtSeams kills nodes at one commit after the other, until the task ends without reaching it.
func killAtSeams(t *testing.T, binary string) {
	var passed atomic.Int32 // how many points were reached
	for _, point := range []string{"before", "after"} {
		var cases errgroup.Group
		cases.SetLimit(4)
		var over atomic.Bool
		for n := 1 + rand.IntN(slow); !over.Load() && n < 100; n += slow {
			cases.Go(func() error {
				at := fmt.Sprintf("%s:%d", point, n)
				t.Run(at, func(t *testing.T) {
					provider := providers[n%2]
					m := newStrictModel(t, nextAnswer)
					a := newCrashNode(t, binary, shortDir(t), "a", "127.0.0.1:0", provider, m, loneConfig)
					a.start(at)
					if _, ended := a.converse(&symbiov1.RunRequest{Task: crashTask}); !ended {
						over.Store(true)
					} else {
						passed.Add(1)
					}
					a.kill()
					a.start("")
					if !a.finish() {
						t.Errorf("the node ended again\n%s", a.said())
					}
					a.kill()
					a.check(m)
				})
				return nil
			})
		}
		if err := cases.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("killed at %d points", passed.Load())
	if want := int32(30 / slow); passed.Load() < want && !t.Failed() {
		t.Errorf("the task has only %d points, want %d", passed.Load(), want)
	}
}

// killAtMoments kills nodes at random moments, up to three times in one task.
func killAtMoments(t *testing.T, binary string) {
	moments := 20 / slow
	if os.Getenv(soakSpan) != "" {
		moments = 300
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(soakSeed); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	var cases errgroup.Group
	cases.SetLimit(4)
	for i := range moments {
		cases.Go(func() error {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				m := newStrictModel(t, nextAnswer)
				a := newCrashNode(t, binary, shortDir(t), "a", "127.0.0.1:0", providers[i%2], m, loneConfig)
				a.start("")
				for range 1 + random.IntN(3) {
					process := a.cmd.Process
					timer := time.AfterFunc(time.Duration(random.IntN(400))*time.Millisecond, func() { _ = process.Kill() })
					done := a.finishOrBegin()
					timer.Stop()
					a.kill()
					a.start("")
					if done {
						break
					}
				}
				if !a.finish() {
					t.Errorf("the node ended by itself\n%s", a.said())
				}
				a.kill()
				a.check(m)
			})
			return nil
		})
	}
	if err := cases.Wait(); err != nil {
		t.Fatal(err)
	}
}

// finishOrBegin is finish for a node that may be killed meanwhile.
func (n *crashNode) finishOrBegin() bool {
	n.t.Helper()
	if _, err := os.Stat(filepath.Join(n.state(), "sessions.db")); errors.Is(err, os.ErrNotExist) {
		_, ended := n.converse(&symbiov1.RunRequest{Task: crashTask})
		return !ended
	}
	return n.finish()
}
