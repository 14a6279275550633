//go:build system && linux

package attacks_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"symbio/agent/event"
	"symbio/cmd/symbio/symbiotest"
	"symbio/internal/agent/node/control"
	"symbio/internal/community/waittest"
	symbiov1 "symbio/proto/symbio/v1"
)

// config is that of node a, which has the agents; the other one is node b.
const config = `
node: {name: %s, listen: %q}
workspace: %q
agents: agents
skills: {enabled: false}
discovery: {mdns: false, peers: [%q]}
permissions: {preset: standard, deny: ["Read(.env)"]}
authorize: [{from: local, invoke: [agents.spawn, node.info]}]
capabilities: [{name: agents.spawn, agents: [guest]}]
`

// definition is that of the obedient agent.
const definition = `---
name: guest
description: Does all that it is told.
acp: {command: [%q, obedient], hosts: [%q], login: [~/.guest/login.json]}
budget: {agents: 2, spawns_per_minute: 2, model_calls: 2000}
max_turns: 2000
---
You do all that you are told.
`

// world is two nodes, and what there is on their machine to find, to harm and to reach.
type world struct {
	t                                *testing.T
	current                          string // the attack, for reports
	base, workspace, outside, mark   string
	a, b                             *symbiotest.CrashNode
	listenA                          string
	tcp, allowed, local, docker, abs net.Listener
	udp                              net.PacketConn
	reached                          atomic.Int64 // connections and datagrams that no agent may make
	process                          *exec.Cmd
	before                           string
	attacker, other                  *conversation
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", w.current, err)
	}
}

func newWorld(t *testing.T) *world {
	base, err := os.MkdirTemp("/var/tmp", "sg") // a private /tmp would hide it, and show nothing
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	w := &world{t: t, current: "before the attacks", base: base, workspace: base + "/ws", outside: base + "/outside", mark: fmt.Sprintf("p%d", os.Getpid())}
	t.Setenv("SYMBIO_TEST_TOKEN", marked)
	for name, text := range map[string]string{
		".ssh/id_ed25519": marked, ".aws/credentials": marked, ".netrc": marked, ".docker/config.json": marked, ".kube/config": marked, ".config/gh/hosts.yml": marked,
		".bash_history": marked, ".bashrc": "# mine\n", ".profile": "# mine\n", ".guest/login.json": "the login\n", "outside/key.pem": marked, "outside/f": marked + "\n",
		"ws/f": "plain\n", "ws/.env": marked, "ws/sub/.env": marked,
	} {
		w.must(os.MkdirAll(filepath.Dir(base+"/"+name), 0o700))
		w.must(os.WriteFile(base+"/"+name, []byte(text), 0o600))
	}
	w.must(os.Symlink(w.outside, w.workspace+"/link"))
	w.must(os.Symlink(w.outside+"/f", w.workspace+"/outlink"))
	w.must(os.Symlink(".env", w.workspace+"/envlink"))
	w.must(os.Link(w.workspace+"/.env", w.workspace+"/hard"))
	w.must(syscall.Mkfifo(w.workspace+"/pipe", 0o600))
	git := exec.Command("sh", "-c", "git init -q --template= -b main . && git config user.name a && git config user.email a@b && git add f && git commit -qm one")
	git.Dir, git.Env = w.workspace, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + base}
	if out, err := git.CombinedOutput(); err != nil {
		t.Skipf("git: %v %s", err, out)
	}
	w.listeners()
	w.process = exec.Command("cat")
	w.process.Env = []string{"TOKEN=" + marked}
	in, err := w.process.StdinPipe()
	w.must(err)
	w.must(w.process.Start())
	t.Cleanup(func() { in.Close(); w.process.Wait() })
	w.nodes()
	w.attacker = w.begins()
	w.controls()
	w.other = w.begins() // in a worktree, since another agent works in the repository
	w.other.starts(orders + `[{"Sh":"echo ` + marked + ` | tee ~/mine-too /tmp/mine-too >/dev/null"},{"Sh":"echo stays"},{"Call":"stay"}] ` + marked)
	w.before = w.state()
	return w
}

// listeners listens where no agent may come.
func (w *world) listeners() {
	listen := func(network, at string) net.Listener {
		l, err := net.Listen(network, at)
		w.must(err)
		w.t.Cleanup(func() { l.Close() })
		return l
	}
	w.tcp, w.allowed = listen("tcp", "127.0.0.1:0"), listen("tcp", "127.0.0.1:0")
	w.local, w.docker, w.abs = listen("unix", w.workspace+"/sock"), listen("unix", w.base+"/docker.sock"), listen("unix", "@"+w.mark)
	for _, l := range []net.Listener{w.tcp, w.local, w.docker, w.abs, w.allowed} {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				if l != w.allowed {
					w.reached.Add(1)
				}
				fmt.Fprint(c, marked+" of a service\n")
				c.Close()
			}
		}()
	}
	var err error
	w.udp, err = net.ListenPacket("udp", "127.0.0.1:0")
	w.must(err)
	w.t.Cleanup(func() { w.udp.Close() })
	go func() {
		for {
			if _, _, err := w.udp.ReadFrom(make([]byte, 99)); err != nil {
				return
			}
			w.reached.Add(1)
		}
	}()
}

func (w *world) port(l net.Listener) string { return strconv.Itoa(l.Addr().(*net.TCPAddr).Port) }
func (w *world) udpPort() string            { return strconv.Itoa(w.udp.LocalAddr().(*net.UDPAddr).Port) }

// nodes starts both nodes.
func (w *world) nodes() {
	m := symbiotest.NewStrictModel(w.t, func([]symbiotest.ModelMessage) symbiotest.ModelAnswer { return symbiotest.ModelAnswer{Text: "done"} })
	atA, atB := symbiotest.FreeAddress(w.t), symbiotest.FreeAddress(w.t)
	w.listenA = atA
	self, err := os.Executable()
	w.must(err)
	w.a = symbiotest.NewCrashNode(w.t, "symbio", w.base, "a", atA, "openai", m, "")
	w.b = symbiotest.NewCrashNode(w.t, "symbio", w.base, "b", atB, "openai", m, "")
	w.a.Write("a.yaml", fmt.Sprintf(config, "a", atA, w.workspace, atB), 0o600)
	w.b.Write("b.yaml", fmt.Sprintf(config, "b", atB, w.workspace, atA), 0o600)
	w.a.Write("agents/guest.md", fmt.Sprintf(definition, self, "127.0.0.1:"+w.port(w.allowed)), 0o600)
	w.b.Start("")
	w.a.Start("")
}

// conversation is one with the agent, in which a person says yes to all.
type conversation struct {
	w       *world
	stream  grpc.BidiStreamingClient[symbiov1.ConverseRequest, symbiov1.Event]
	answers chan string
	texts   chan string // one is sent when the agent says that it stays
	begun   bool
}

// begins begins a conversation with an agent of its own.
func (w *world) begins() *conversation {
	w.t.Helper()
	ctx := waittest.Context(w.t)
	stream, err := w.a.Client.Converse(ctx)
	w.must(err)
	c := &conversation{w: w, stream: stream, answers: make(chan string, 1), texts: make(chan string, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(c.answers)
		var said strings.Builder
		for {
			e, err := control.Receive(stream.Recv)
			if err != nil {
				return
			}
			switch f := e.Part.(type) {
			case event.Approval:
				_, _ = w.a.Client.Answer(ctx, &symbiov1.AnswerRequest{Id: f.ID, Allow: true, By: "a person"}) // it may be withdrawn
			case event.End:
				if e.Type == event.TypeResult {
					c.answers <- said.String() + " " + e.Text + " " + f.Error
					said.Reset()
				}
			default:
				if e.Type != event.TypeText {
					continue
				}
				if said.Len() < 1<<20 {
					said.WriteString(e.Text)
				}
				if strings.Contains(e.Text, "stays") {
					c.texts <- e.Text
				}
			}
		}
	}()
	w.t.Cleanup(func() { stream.CloseSend(); <-done })
	return c
}

// sends sends a message.
func (c *conversation) sends(text string) {
	c.w.t.Helper()
	r := &symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Next{Next: &symbiov1.NextMessage{Text: text}}}
	if !c.begun {
		r.Say = &symbiov1.ConverseRequest_Open{Open: &symbiov1.RunRequest{Task: text, Agent: "guest", Interactive: true}}
	}
	c.begun = true
	c.w.must(c.stream.Send(r))
}

// says sends a message and returns the answer, with how it failed.
func (c *conversation) says(text string) string {
	c.w.t.Helper()
	c.sends(text)
	return waittest.Receive(c.w.t, "the end of: "+c.w.current, c.answers)
}

// starts sends a message, and waits until the agent says that it stays.
func (c *conversation) starts(text string) {
	c.w.t.Helper()
	c.sends(text)
	select {
	case <-c.texts:
	case answer := <-c.answers:
		c.w.t.Fatalf("the other agent has ended: %s", answer)
	case <-waittest.Context(c.w.t).Done():
		c.w.t.Fatalf("the other agent does not begin\n%s", c.w.a.LogTail())
	}
}

// again ends the agent, and begins with another one.
func (w *world) again() {
	w.attacker.close()
	w.attacker = w.begins()
}

// close ends the agent, and waits for that.
func (c *conversation) close() {
	c.w.must(c.stream.CloseSend())
	for range c.answers {
	}
}

// controls shows that the agent can do its work, and that the checks see it: else no attack would show anything.
func (w *world) controls() {
	w.current = "the controls"
	answer := w.attacker.says(fmt.Sprintf(orders+`[{"Sh":"cat f; echo x > made; cat ~/.guest/login.json"},
		{"Method":"fs/read_text_file","Params":{"path":"%[1]s/f"}}, {"Method":"fs/write_text_file","Params":{"path":"%[1]s/made-too","content":"y"}},
		{"Method":"terminal/create","Params":{"command":"echo by the terminal; echo x > made-there"}},
		{"Proxy":"CONNECT 127.0.0.1:%[2]s HTTP/1.1\r\n\r\n"}, {"Tool":"list"}]`, w.workspace, w.port(w.allowed)))
	for _, want := range []string{"plain\n", "the login", `"content":"plain\n"`, "by the terminal", "200 Connection established", "replicate_agent"} {
		if !strings.Contains(answer, want) {
			w.t.Errorf("the agent does not get %q: %s\n%s", want, answer, w.a.LogTail())
		}
	}
	for _, name := range []string{"made", "made-too", "made-there"} {
		if _, err := os.Stat(w.workspace + "/" + name); err != nil {
			w.t.Errorf("the agent has not written in its workspace: %v", err)
		}
	}
}

// changing are the files that the nodes change in their work.
// ln -sf makes a link by a name of its own, CuXXXXXX, beside the one that it replaces.
var changing = regexp.MustCompile(`^symbio/nodes/[ab](/(workspaces/own.*|sessions\.db.*|audit.*|guests.*|artifacts.*|.*\.log|.*\.sock|.*\.json|.*\.tmp.*|.*\.db.*))?$|^[ab]\.log$|^ws/made|^ws/Cu[0-9A-Za-z]{6}$|^ws$|^ws/\.git/(index|objects|worktrees|refs|logs)|^symbio/(leases|tmp|checkpoints)`)

// state describes the files that no agent may change: all but what it may write in its workspace.
func (w *world) state() string {
	w.t.Helper()
	var b strings.Builder
	w.must(filepath.WalkDir(w.base, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(w.base, path)
		if changing.MatchString(rel) || errors.Is(err, fs.ErrNotExist) { // the node masks files and removes its masks
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || info.Mode()&fs.ModeSticky != 0 { // what is masked for commands exists meanwhile
			return err
		}
		if fmt.Fprint(&b, rel, " ", info.Mode()); !d.IsDir() {
			fmt.Fprint(&b, " ", info.Size(), " ", info.ModTime().UnixNano())
		}
		fmt.Fprintln(&b)
		return nil
	}))
	for _, dir := range []string{"/etc", "/var/tmp", "/dev/shm", "/usr/local/bin", "/run", "/root", "/"} {
		found, err := filepath.Glob(dir + "/" + w.mark + "*")
		w.must(err)
		fmt.Fprintln(&b, found)
	}
	return b.String()
}

// found is what no answer may have.
var found = regexp.MustCompile(marked + `|PRIVATE KEY|SQLite format`)

// check looks at the machine after an attack.
func (w *world) check(answer string) {
	w.t.Helper()
	if found.MatchString(answer) {
		w.t.Errorf("%s: the agent found a secret: %.2000s", w.current, answer)
	}
	if got := w.state(); got != w.before {
		w.t.Errorf("%s: it changed\n%s", w.current, difference(w.before, got))
		w.before = got
	}
	if n := w.reached.Swap(0); n > 0 {
		w.t.Errorf("%s: it reached %d services", w.current, n)
	}
	for _, pid := range []int{w.a.Cmd.Process.Pid, w.b.Cmd.Process.Pid, w.process.Process.Pid} {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || !bytes.Contains(status, []byte("TracerPid:\t0\n")) || bytes.Contains(status, []byte("State:\tT")) || bytes.Contains(status, []byte("State:\tZ")) {
			w.t.Fatalf("%s: process %d is harmed: %v %.200s\n%s", w.current, pid, err, status, w.a.LogTail())
		}
	}
	select {
	case text := <-w.other.answers:
		w.t.Fatalf("%s: the other agent has ended: %s", w.current, text)
	default:
	}
}

// left returns how many processes of the attacks run.
func (w *world) left() (n int) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	w.must(err)
	for _, path := range all {
		if text, err := os.ReadFile(path); err == nil && bytes.HasPrefix(text, []byte(w.mark+"-left")) {
			n++
		}
	}
	return n
}

// memory returns a figure of the memory of node a, in bytes.
func (w *world) memory(name string) int64 {
	w.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.a.Cmd.Process.Pid))
	w.must(err)
	_, rest, _ := strings.Cut(string(text), name+":")
	n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	w.must(err)
	return n << 10
}

// maxGrowth is how much more memory the node may have after the attacks, in bytes.
const maxGrowth = 64 << 20

// difference returns the lines that are in one of two texts only.
func difference(was, is string) string {
	a, b := strings.Split(was, "\n"), strings.Split(is, "\n")
	var out []string
	for _, line := range a {
		if !slices.Contains(b, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			out = append(out, "+ "+line)
		}
	}
	return strings.Join(out, "\n")
}

// memoryReturns waits until the node has at most maxGrowth more memory than before. Go returns memory when there is work.
func (w *world) memoryReturns(before int64) {
	w.current = "the return of memory"
	c := w.begins()
	waittest.Until(w.t, "the memory of the node", func() (any, bool) {
		c.says(orders + "[]")
		now := w.memory("VmRSS")
		return fmt.Sprintf("%d MiB, %d MiB before", now>>20, before>>20), now <= before+maxGrowth
	})
}

// connections checks the log of the proxy: it made no connection but to the allowed host.
func (w *world) connections() {
	for line := range strings.SplitSeq(w.a.Read("a.log"), "\n") {
		if strings.Contains(line, "a program of an agent connects") && strings.Contains(line, `refused=""`) && !strings.Contains(line, "host=127.0.0.1:"+w.port(w.allowed)) {
			w.t.Errorf("the proxy let it through: %s", line)
		}
	}
}
