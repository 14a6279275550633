//go:build linux

package symbiotest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"symbio/internal/community/waittest"

	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/internal/agent/node/control"
	"symbio/internal/agent/session/sqlite"
	symbiov1 "symbio/proto/symbio/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// FreeAddress returns an address of loopback at which nothing listens. Its port is below those that the system gives to
// outgoing connections: one of them could hold it while the node that listens there is started again.
func FreeAddress(t *testing.T) string {
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

// CrashTask is the task of every case, and crashAnswer its answer. The sub-agent's task begins with
// childWord.
const (
	CrashTask   = "Work through the list."
	CrashAnswer = "All is done."
	ChildWord   = "Part"
	ChildAnswer = "The part is done."
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

// LoneConfig is added to that of a node without others.
const LoneConfig = "discovery: {mdns: false}\n"

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
	return path, GoBuild("-tags", "faults", "-o", path, "symbio/cmd/symbio")
})

// GoBuild builds a program as it is released: without C, also if these tests are built with it, so that what was compiled
// once serves all. What a debugger reads is most of the linker's work.
func GoBuild(args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-ldflags=-w"}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}

// BuildFaulty returns the path of `symbio` with the build tag faults.
func BuildFaulty(t *testing.T) string {
	t.Helper()
	path, err := faulty()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Bash is the call for an effect.
func Bash(n int) []ModelCall {
	return []ModelCall{{Name: "Bash", Args: json.RawMessage(fmt.Sprintf(`{"command":"./effect %d"}`, n))}}
}

// StepAnswer returns the calls of the first step that is not in the history, or the final answer.
func StepAnswer(history []ModelMessage, final string, steps ...[]ModelCall) ModelAnswer {
	n := 0
	for _, m := range history {
		if len(m.Calls) > 0 {
			n++
		}
	}
	if n >= len(steps) {
		return ModelAnswer{Text: final}
	}
	a := ModelAnswer{Text: fmt.Sprintf("Step %d.", n+1)}
	for i, c := range steps[n] {
		c.ID = fmt.Sprintf("call_%d_%d", n+1, i+1)
		a.Calls = append(a.Calls, c)
	}
	return a
}

// CrashNode is a node that is killed and started again.
type CrashNode struct {
	T                 *testing.T
	Binary, Dir, Name string
	Mounts            string // shell commands for a mount namespace of the node's own; "" = it has none
	Cmd               *exec.Cmd
	log               *os.File
	Conn              *grpc.ClientConn
	Client            symbiov1.ControlClient
}

// NewCrashNode lays out a workspace and the node's state in a directory. more is added to its configuration.
func NewCrashNode(t *testing.T, binary, dir, name, listen, provider string, m *StrictModel, more string) *CrashNode {
	t.Helper()
	n := &CrashNode{T: t, Binary: binary, Dir: dir, Name: name}
	if err := os.MkdirAll(filepath.Join(n.Dir, "agents"), 0o700); err != nil {
		t.Fatal(err)
	}
	n.Write(name+".yaml", fmt.Sprintf(crashConfig, name, listen, provider, m.URL+"/v1", m.URL)+more, 0o600)
	n.Write("effect", effectScript, 0o700)
	n.Write("notes.txt", "(mark)\n", 0o600)
	n.Write("effects", "", 0o600)
	var err error
	if n.log, err = os.Create(filepath.Join(n.Dir, name+".log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.Kill()
		n.log.Close()
	})
	return n
}

// Write writes a file of the workspace.
func (n *CrashNode) Write(file, text string, mode os.FileMode) {
	n.T.Helper()
	if err := os.WriteFile(filepath.Join(n.Dir, file), []byte(text), mode); err != nil {
		n.T.Fatal(err)
	}
}

// State is the state directory of the node.
func (n *CrashNode) State() string { return filepath.Join(n.Dir, "symbio", "nodes", n.Name) }

// Command returns the command that runs the node. killAt names the commit at which it dies; "" = none.
func (n *CrashNode) Command(killAt string) *exec.Cmd {
	cmd := exec.Command(n.Binary, "up", "--config", n.Name+".yaml")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if n.Mounts != "" {
		own := Namespace("", "-c", "mount --make-rprivate / && "+n.Mounts+` && exec "$@"`, "sh", n.Binary, "up", "--config", n.Name+".yaml")
		own.SysProcAttr.Cloneflags = own.SysProcAttr.Cloneflags&^syscall.CLONE_NEWNET | syscall.CLONE_NEWNS
		own.Path = "/bin/sh"
		cmd = own
	}
	cmd.Dir = n.Dir
	cmd.Env = append(os.Environ(), "HOME="+n.Dir, "XDG_STATE_HOME="+n.Dir, "XDG_CONFIG_HOME="+n.Dir, "OPENAI_API_KEY=k", "ANTHROPIC_API_KEY=k", "SYMBIO_KILL_AT="+killAt)
	return cmd
}

// Start starts the node and waits until it answers.
func (n *CrashNode) Start(killAt string) {
	n.T.Helper()
	cmd := n.Command(killAt)
	cmd.Stdout, cmd.Stderr = n.log, n.log
	err := cmd.Start()
	if n.Mounts != "" && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL)) {
		n.T.Skipf("mount namespaces are missing: this user may not make them (root may): %v", err)
	}
	if err != nil {
		n.T.Fatal(err)
	}
	n.Cmd = cmd
	socket := filepath.Join(n.State(), "control.sock")
	if n.Mounts != "" {
		socket = fmt.Sprintf("/proc/%d/root%s", cmd.Process.Pid, socket)
	}
	// A connection of its own: the one before may not have noticed the end of its node yet.
	quick := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.2, MaxDelay: 50 * time.Millisecond}, MinConnectTimeout: time.Second}
	n.Conn, err = grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(quick))
	if err != nil {
		n.T.Fatal(err)
	}
	n.Client = symbiov1.NewControlClient(n.Conn)
	if _, err := n.Client.Status(waittest.Context(n.T), &symbiov1.StatusRequest{}, grpc.WaitForReady(true)); err != nil {
		n.T.Fatalf("node %s is not ready: %v\n%s", n.Name, err, n.LogTail())
	}
}

// Kill ends the node as a crash does, and returns when it is gone.
func (n *CrashNode) Kill() {
	if n.Cmd != nil {
		_ = n.Cmd.Process.Kill() // it may be gone
		_ = n.Cmd.Wait()
		_ = n.Conn.Close()
		n.Cmd = nil
	}
}

// LogTail is the end of the node's log.
func (n *CrashNode) LogTail() string {
	text, err := os.ReadFile(n.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}

// exchange is what a conversation reported until its result or the end of the node.
type exchange struct {
	Session string // "" = the node did not say
	Text    string
	Status  string
	Error   string
}

// Converse begins a conversation, allows what waits for a person, and returns at its result. ended is
// true if the node ended before.
func (n *CrashNode) Converse(open *symbiov1.RunRequest) (x exchange, ended bool) {
	n.T.Helper()
	ctx := waittest.Context(n.T)
	open.Interactive = true
	stream, err := n.Client.Converse(ctx)
	if err == nil {
		err = stream.Send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Open{Open: open}})
	}
	for err == nil {
		e, failed := control.Receive(stream.Recv)
		if err = failed; err != nil {
			break
		}
		switch f := e.Part.(type) {
		case event.Session:
			x.Session = f.ID
		case event.Approval:
			_, err = n.Client.Answer(ctx, &symbiov1.AnswerRequest{Id: f.ID, Allow: true, By: "test"})
		case event.End:
			if e.Type != event.TypeResult {
				continue
			}
			x.Text, x.Status, x.Error = e.Text, f.Status, f.Error
			// At the end of the stream the agent has ended, and its session is free.
			for err := stream.CloseSend(); err == nil; {
				_, err = stream.Recv()
			}
			return x, false
		}
	}
	if ctx.Err() != nil {
		n.T.Errorf("no end of the conversation: %v\n%s", err, n.LogTail())
	}
	x.Error = fmt.Sprint(err)
	return x, true
}

// history is what the store has of the sessions of a node.
type crashHistory struct {
	Infos   []session.Info
	Entries map[string][]session.Entry
}

// History reads the sessions from the node's file.
func (n *CrashNode) History() (h crashHistory) {
	n.T.Helper()
	store, err := sqlite.OpenReader(filepath.Join(n.State(), "sessions.db"))
	if err != nil {
		n.T.Fatal(err)
	}
	defer store.Close()
	if h.Infos, err = store.Sessions(n.T.Context(), session.Filter{}); err != nil {
		n.T.Fatal(err)
	}
	h.Entries = map[string][]session.Entry{}
	for _, i := range h.Infos {
		if h.Entries[i.ID], err = store.Entries(n.T.Context(), i.ID, 0); err != nil {
			n.T.Fatal(err)
		}
	}
	return h
}

// Root returns the session of the task; ok is false if there is none.
func (h crashHistory) Root() (session.Info, bool) {
	i := slices.IndexFunc(h.Infos, func(s session.Info) bool { return s.Parent == "" })
	if i < 0 {
		return session.Info{}, false
	}
	return h.Infos[i], true
}

// Finish goes on with the task on a node that was started again, as a person would: with the session if
// there is one, else with the task. It returns true at the result.
func (n *CrashNode) Finish() bool {
	n.T.Helper()
	root, ok := n.History().Root()
	switch {
	case !ok:
		_, ended := n.Converse(&symbiov1.RunRequest{Task: CrashTask})
		return !ended
	case root.State == session.Done:
		return true
	}
	if root.State != session.Interrupted {
		n.T.Errorf("after the restart the session is %s, want interrupted", root.State)
	}
	x, ended := n.Converse(&symbiov1.RunRequest{Session: root.ID})
	if !ended && (x.Status != "done" || x.Text != CrashAnswer) {
		n.T.Errorf("the resumed task ended %s with %q, %s; want done", x.Status, x.Text, x.Error)
	}
	return !ended
}

// Check compares what happened with what the sessions say and what the model was told. lent are the
// sessions of lent agents on another node.
func (n *CrashNode) Check(m *StrictModel, lent ...session.Info) {
	n.T.Helper()
	h := n.History()
	root, ok := h.Root()
	if !ok || root.State != session.Done || root.Exchange.Open || len(h.Infos) > 2 {
		n.T.Errorf("the sessions are %+v; want one that is done, and at most one of a sub-agent", h.Infos)
		return
	}
	m.Mu.Lock()
	defer m.Mu.Unlock()
	for _, v := range m.Violations {
		n.T.Errorf("the model was sent what no server accepts: %s", v)
	}
	if text := session.LastAnswer(h.Entries[root.ID]); text != CrashAnswer {
		n.T.Errorf("the last answer is %q, want %q", text, CrashAnswer)
	}
	known := results(h.Entries[root.ID])
	for _, r := range lastHistory(m, strings.Fields(CrashTask)[0]) {
		if e, ok := known[r.ID]; !ok || !strings.Contains(r.Text, e.Text) {
			n.T.Errorf("the model read %q as the result of %s, the session has %q", r.Text, r.ID, e.Text)
		}
	}
	var tokens int64
	for _, i := range lent {
		tokens += i.Spent.Tokens
	}
	for _, i := range h.Infos {
		tokens += i.Spent.Tokens
		for _, e := range h.Entries[i.ID] {
			if e.Kind == session.Lent {
				tokens -= e.Spent.Tokens // the lender's session has them, too
			}
		}
		if i.Parent == "" {
			continue
		}
		if i.Exchange.Open {
			n.T.Errorf("the session of the sub-agent is open: %+v", i)
		}
		if i.State == session.Done && !strings.Contains(TextsForModel(h.Entries[root.ID]), ChildAnswer) {
			n.T.Errorf("the sub-agent is done, and its parent was not told: %q", TextsForModel(h.Entries[root.ID]))
		}
	}
	if tokens < int64(m.Tokens) {
		n.T.Errorf("the sessions have spent %d tokens, and the model has answered with %d", tokens, m.Tokens)
	}
	n.checkEffects(h, root)
}

// checkEffects counts the effects: none happened twice, and each call has a result that fits.
func (n *CrashNode) checkEffects(h crashHistory, root session.Info) {
	n.T.Helper()
	lines := n.Read("effects")
	for _, i := range h.Infos {
		entries := h.Entries[i.ID]
		known := results(entries)
		for _, c := range calls(entries) {
			count, ok := 0, false
			switch c.Name {
			case "Bash":
				count, ok = strings.Count(lines, strings.Replace(commandOf(c), "./effect ", "effect-", 1)+"\n"), true
			case "Edit":
				count, ok = strings.Count(n.Read("notes.txt"), "(edited)"), true
			}
			r, answered := known[c.ID]
			switch {
			case !answered && i.ID == root.ID:
				n.T.Errorf("the call %s of %s has no result", c.ID, c.Name)
			case !answered: // the sub-agent was lost, which its parent was told: see below
				if !strings.Contains(TextsForModel(h.Entries[root.ID]), i.Member) || count > 1 {
					n.T.Errorf("effect of %s: %d times, and the parent was not told that its sub-agent is lost", c.Args, count)
				}
			case !ok:
			case strings.HasPrefix(r.Text, "Interrupted"):
				if count > 1 {
					n.T.Errorf("effect of %s: %d times after an interruption", c.Args, count)
				}
			case r.IsError == (count > 0) || count > 1:
				n.T.Errorf("effect of %s: %d times, and its result is %q (error %v)", c.Args, count, r.Text, r.IsError)
			}
		}
	}
	for _, line := range strings.Fields(lines) {
		if strings.Count(lines, line+"\n") != 1 {
			n.T.Errorf("an effect happened twice:\n%s", lines)
			break
		}
	}
}

func (n *CrashNode) Read(file string) string {
	n.T.Helper()
	b, err := os.ReadFile(filepath.Join(n.Dir, file))
	if err != nil {
		n.T.Fatal(err)
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

// TextsForModel returns all that the model was told after the task: results, and texts of the program.
func TextsForModel(entries []session.Entry) (all string) {
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
func lastHistory(m *StrictModel, word string) (all []modelResult) {
	for _, message := range m.Histories[word] {
		all = append(all, message.Results...)
	}
	return all
}

// Providers are the two wires.
var Providers = []string{"openai", "anthropic"}

// FinishOrBegin is finish for a node that may be killed meanwhile.
func (n *CrashNode) FinishOrBegin() bool {
	n.T.Helper()
	if _, err := os.Stat(filepath.Join(n.State(), "sessions.db")); errors.Is(err, os.ErrNotExist) {
		_, ended := n.Converse(&symbiov1.RunRequest{Task: CrashTask})
		return !ended
	}
	return n.Finish()
}
