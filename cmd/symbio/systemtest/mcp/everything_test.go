//go:build system && linux

package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"symbio/security/permission"

	"symbio/cmd/symbio/symbiotest"
	"symbio/internal/community/waittest"

	"symbio/agent/llm"
	"symbio/agent/llm/scripted"
	"symbio/agent/tool"
	"symbio/agent/tool/mcp"
	"symbio/community"
	"symbio/security/sandbox"
)

// npm is where servers are installed that nobody here wrote.
func npm(t *testing.T, name string) (node, program string) {
	t.Helper()
	dir := os.Getenv(symbiotest.NPMDirectory)
	if dir == "" {
		t.Skipf("%s names no directory with %s in its node_modules", symbiotest.NPMDirectory, name)
	}
	program = filepath.Join(dir, "node_modules", "@modelcontextprotocol", name, "dist", "index.js")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("%s is not installed in $%s: %v", name, symbiotest.NPMDirectory, err)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skipf("%s needs node: %v", name, err)
	}
	return node, program
}

// run runs the servers until the test ends.
func run(t *testing.T, cfg mcp.Config) (*mcp.Manager, context.Context) {
	t.Helper()
	m := mcp.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return m, ctx
}

func ignore(community.Progress) {}

// asking allows the tools of MCP servers, and asks about what those ask for.
type asking struct{}

func (asking) Judge(c permission.Call) permission.Verdict {
	if strings.HasPrefix(c.Tool, "mcp__") {
		return permission.Verdict{Action: permission.Allow}
	}
	return permission.Verdict{Action: permission.Ask}
}

// boxed holds programs as well as this machine can.
func boxed(t *testing.T, levels ...sandbox.Level) func(mcp.Server) (mcp.Box, error) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := sandbox.Probe(t.Context(), sandbox.Config{Levels: levels, Env: os.Environ(), Home: dir})
	if b.Status().Level == sandbox.None {
		t.Skip("this machine has no sandbox")
	}
	policy, err := sandbox.Standard(dir)
	if err != nil {
		t.Fatal(err)
	}
	return func(s mcp.Server) (mcp.Box, error) {
		p := policy
		for _, arg := range s.Args {
			modules, _, ok := strings.Cut(arg, "/@modelcontextprotocol")
			if !ok {
				continue
			}
			real, err := filepath.EvalSymlinks(modules)
			if err != nil {
				return mcp.Box{}, err
			}
			p.Files.Read = append(p.Files.Read, real) // it may lie in /tmp, of which a program has its own
		}
		return mcp.Box{Box: b, Policy: p, Dir: dir}, nil
	}
}

// callEachTool calls each tool of the server.
func callEachTool(t *testing.T, ctx context.Context, m *mcp.Manager) {
	t.Helper()
	tools, err := m.ToolsOf(ctx, "everything")
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]struct{ args, want string }{
		"echo":                            {`{"message": "hi"}`, "Echo: hi"},
		"get-annotated-message":           {`{"messageType": "error", "includeImage": true}`, "a picture, image/png"},
		"get-env":                         {`{}`, `"PATH"`},
		"get-resource-links":              {`{"count": 2}`, "demo://resource/dynamic/text/2"},
		"get-resource-reference":          {`{"resourceType": "Text", "resourceId": 1}`, "Resource 1: This is a plaintext resource"},
		"get-structured-content":          {`{"location": "New York"}`, `"conditions"`},
		"get-sum":                         {`{"a": 2, "b": 3}`, "5"},
		"get-tiny-image":                  {`{}`, "a picture, image/png"},
		"gzip-file-as-resource":           {`{"name": "x.gz", "data": "data:text/plain;base64,aGVsbG8="}`, "demo://resource/session/x.gz"},
		"toggle-simulated-logging":        {`{}`, "Started"},
		"toggle-subscriber-updates":       {`{}`, "Started"},
		"trigger-elicitation-request":     {`{}`, "elicitation"},
		"trigger-sampling-request":        {`{"prompt": "hi"}`, "the model was not asked"}, // no agent calls it here
		"trigger-long-running-operation":  {`{"duration": 1, "steps": 2}`, "Long running operation completed"},
		"list_resources":                  {`{}`, "architecture.md"},
		"read_resource":                   {`{"uri": "demo://resource/static/document/architecture.md"}`, "# Everything Server"},
		"simulate-research-query":         {args: `{"topic": "x"}`}, // it has to be called as a task
		"not the server's, but a new one": {},
	}
	var wg sync.WaitGroup
	for _, one := range tools {
		c, known := calls[one.Name]
		if !known {
			t.Errorf("the server has a tool %s that this test does not call", one.Name)
			continue
		}
		wg.Go(func() {
			inv, err := one.Decode(json.RawMessage(c.args))
			if err != nil {
				t.Errorf("%s: %v", one.Name, err)
				return
			}
			var mu sync.Mutex
			var progress []community.Progress
			answer, err := one.Call(ctx, inv.Args, func(p community.Progress) { mu.Lock(); progress = append(progress, p); mu.Unlock() })
			if one.Name == "simulate-research-query" {
				if err == nil || !strings.Contains(err.Error(), "the MCP server everything: this tool has to be called as a task") {
					t.Errorf("%s: got %+v, %v, want one error about tasks", one.Name, answer, err)
				}
				return
			}
			if pictures := strings.Count(c.want, "a picture"); err != nil || !strings.Contains(answer.Text, c.want) || answer.IsError != (one.Name == "trigger-sampling-request") || len(answer.Images) != pictures {
				t.Errorf("%s: got %+v, %v, want %q", one.Name, answer.Text, err, c.want)
			}
			mu.Lock()
			defer mu.Unlock()
			if one.Name == "trigger-long-running-operation" && (len(progress) == 0 || progress[0].Total != 2) {
				t.Errorf("its progress: got %v", progress)
			}
		})
	}
	wg.Wait()
	if len(tools) < 14 {
		t.Errorf("%d tools, want those of the server and two for its resources", len(tools))
	}
}

func TestEveryToolOfServerEverythingWorksInTheSandbox(t *testing.T) {
	t.Parallel()
	node, program := npm(t, "server-everything")
	m, ctx := run(t, mcp.Config{Box: boxed(t), Servers: []mcp.Server{{Name: "everything", Type: mcp.Stdio, Command: node, Args: []string{program, "stdio"}, Env: map[string]string{"MARK": "here"}}}})
	callEachTool(t, ctx, m)
	one, err := m.Tool(ctx, "everything", "get-env")
	if err != nil {
		t.Fatal(err)
	}
	answer, err := one.Call(ctx, nil, ignore)
	if err != nil || !strings.Contains(answer.Text, `"MARK": "here"`) || strings.Contains(answer.Text, symbiotest.NPMDirectory) {
		t.Errorf("its environment: got %s, %v", answer.Text, err)
	}
}

func TestServerEverythingAsksModelOfAgent(t *testing.T) {
	t.Parallel()
	node, program := npm(t, "server-everything")
	m, ctx := run(t, mcp.Config{Box: boxed(t), Servers: []mcp.Server{{Name: "everything", Type: mcp.Stdio, Command: node, Args: []string{program, "stdio"}}}})
	one, err := m.Tool(ctx, "everything", "trigger-sampling-request")
	if err != nil {
		t.Fatal(err)
	}
	model, err := scripted.Parse("answers", []byte("turns:\n- {match: {system: helpful, user: How much}, text: forty-two}"))
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	set := tool.NewSet(tool.SetConfig{
		Guard: asking{},
		Ask: func(_ context.Context, d tool.Decision) tool.Answer {
			asked = append(asked, fmt.Sprint(d.Tool, d.Args))
			return tool.Answer{Allow: true, By: "terminal"}
		},
		Sample: func(ctx context.Context, _ string, r llm.Request) (llm.Response, error) {
			return llm.Collect(model.Stream(ctx, r), nil)
		},
	}, one)
	got := set.Run(ctx, []llm.ToolCall{{ID: "1", Name: "mcp__everything__trigger-sampling-request", Args: json.RawMessage(`{"prompt": "How much?", "maxTokens": 7}`)}})[0]
	if got.IsError || !strings.Contains(got.Text, "forty-two") || !strings.Contains(got.Text, "endTurn") {
		t.Errorf("got %+v", got)
	}
	if want := "mcp_sampling__everythingmap[max_tokens:7 messages:[user: Resource trigger-sampling-request context: How much?] system:You are a helpful test server.]"; len(asked) != 1 || asked[0] != want {
		t.Errorf("the person was asked %q, want %q", asked, want)
	}
}

func TestServerFilesystemReadsWhatItMay(t *testing.T) {
	t.Parallel()
	node, program := npm(t, "server-filesystem")
	box := boxed(t)
	b, err := box(mcp.Server{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.Dir, "notes.md"), []byte("a note"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, ctx := run(t, mcp.Config{Box: box, Servers: []mcp.Server{{Name: "files", Type: mcp.Stdio, Command: node, Args: []string{program, b.Dir}}}})
	one, err := m.Tool(ctx, "files", "read_text_file")
	if err != nil {
		t.Fatal(err)
	}
	if a, err := one.Call(ctx, map[string]any{"path": filepath.Join(b.Dir, "notes.md")}, ignore); err != nil || a.Text != "a note" {
		t.Errorf("got %+v, %v", a, err)
	}
	if a, err := one.Call(ctx, map[string]any{"path": "/etc/passwd"}, ignore); err != nil || !a.IsError {
		t.Errorf("outside: got %+v, %v", a, err)
	}
}

func TestServerEverythingOverHTTP(t *testing.T) {
	t.Parallel()
	node, program := npm(t, "server-everything")
	// It would listen on all interfaces; a socket is on none.
	dir, err := os.MkdirTemp("", "sy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(node, program, "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+socket)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // its status says only that it was killed
	})
	waittest.Until(t, "the server to listen", func() (any, bool) {
		conn, err := net.Dial("unix", socket) // the file is there before it listens
		if err == nil {
			conn.Close()
		}
		return err, err == nil
	})
	dialer := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer dialer.CloseIdleConnections()
	m, ctx := run(t, mcp.Config{HTTP: dialer, Servers: []mcp.Server{{Name: "everything", Type: mcp.HTTP, URL: "http://localhost/mcp"}}})
	callEachTool(t, ctx, m)
	one, err := m.Tool(ctx, "everything", "trigger-long-running-operation")
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, err := one.Call(short, map[string]any{"duration": 30, "steps": 60}, func(community.Progress) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that is given up: got %v", err)
	}
	if one, err = m.Tool(ctx, "everything", "echo"); err != nil {
		t.Fatal(err)
	}
	if a, err := one.Call(ctx, map[string]any{"message": "still here"}, ignore); err != nil || a.Text != "Echo: still here" {
		t.Errorf("after that: got %+v, %v", a, err)
	}
}

func TestServerThatIsKilledInACallIsStartedAgain(t *testing.T) {
	t.Parallel()
	node, program := npm(t, "server-everything")
	pidFile := filepath.Join(t.TempDir(), "pid")
	m, ctx := run(t, mcp.Config{Box: boxed(t, sandbox.Off), Servers: []mcp.Server{{Name: "everything", Type: mcp.Stdio, Command: "sh", Args: []string{"-c", `echo $$ >"$1"; exec "$2" "$3" stdio`, "sh", pidFile, node, program}}}})
	one, err := m.Tool(ctx, "everything", "trigger-long-running-operation")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	_, err = one.Call(ctx, map[string]any{"duration": 30, "steps": 60}, func(community.Progress) { kill() })
	if !errors.Is(err, mcp.ErrNotReady) || !strings.Contains(err.Error(), "started again") {
		t.Errorf("the call: got %v", err)
	}
	waittest.Until(t, "the server to be back", func() (any, bool) {
		a, err := one.Call(ctx, map[string]any{"duration": 0.1, "steps": 1}, ignore)
		if err != nil && !errors.Is(err, mcp.ErrNotReady) || a.IsError {
			t.Fatalf("got %+v, %v", a, err)
		}
		return err, err == nil
	})
}
