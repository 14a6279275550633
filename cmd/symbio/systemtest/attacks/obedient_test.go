//go:build system && linux

package attacks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/coder/acp-go-sdk"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// obedient is the argument with which this test binary plays an agent that speaks ACP and does all that it is told.
const obedient = "obedient"

// orders begins the list of acts in a prompt, which is JSON.
const orders = "DO THIS: "

// marked is in everything that the agent must not find.
const marked = "SECRET-OF-ANN"

// act is one thing to do: what is set of it.
type act struct {
	Sh     string // a command, in the agent's own box
	Method string // a request to the client, with Params; the session's id is added unless Params has one
	Notify bool   // the method without an id
	Params map[string]any
	Raw    string // a line on the agent's standard output; SESSION stands for the id of the session
	Fill   int    // FILL in Raw stands for so many bytes
	Dial   string // NETWORK ADDRESS: a socket, which is sent Data
	Proxy  string // sent to the proxy; then what it answers is read
	Data   string
	Tool   string // by MCP, with Params
	Socket string // sent to the socket of MCP, by a connection of its own
	Call   string // a function below
	PID    int
	Times  int  // how often; 0 = once
	Part   int  // with Times: how many at a time; 0 = one
	After  bool // when the prompt has ended
	Deaf   bool // from here on the agent reads nothing
}

// agent is the obedient agent.
type agent struct {
	conn *acp.Connection
	in   *deafReader
	out  *lockedWriter

	mu     sync.Mutex
	mcp    []string           // guarded by mu
	tools  *sdk.ClientSession // guarded by mu
	cancel context.CancelFunc // guarded by mu
}

const sessionID = "the-only-one"

// obey plays the agent until its input ends.
func obey() {
	a := &agent{in: &deafReader{from: os.Stdin}, out: &lockedWriter{to: os.Stdout}}
	a.conn = acp.NewConnection(a.handle, a.out, a.in)
	a.conn.SetLogger(slog.New(slog.DiscardHandler))
	<-a.conn.Done()
}

// deafReader reads until it is told to stop.
type deafReader struct {
	from io.Reader
	mu   sync.Mutex
	deaf bool // guarded by mu
}

func (r *deafReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.mu.Lock()
	deaf := r.deaf
	r.mu.Unlock()
	if deaf {
		select {} // until it is killed
	}
	return n, err
}

// lockedWriter keeps lines whole.
type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

func (a *agent) handle(ctx context.Context, method string, raw json.RawMessage) (any, *acp.RequestError) {
	switch method {
	case acp.AgentMethodInitialize:
		return map[string]any{"protocolVersion": 1, "agentCapabilities": map[string]any{}}, nil
	case acp.AgentMethodSessionNew:
		var r struct {
			McpServers []struct {
				Command string
				Args    []string
			}
		}
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, acp.NewInvalidParams(err.Error())
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, s := range r.McpServers {
			a.mcp = append([]string{s.Command}, s.Args...)
		}
		return map[string]any{"sessionId": sessionID}, nil
	case acp.AgentMethodSessionPrompt:
		return a.prompt(ctx, raw)
	case acp.AgentMethodSessionCancel:
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.cancel != nil {
			a.cancel()
		}
	}
	return map[string]any{}, nil
}

// prompt does what the prompt says, and answers with what came of it.
func (a *agent) prompt(ctx context.Context, raw json.RawMessage) (any, *acp.RequestError) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.mu.Lock()
	a.cancel = cancel
	a.mu.Unlock()
	var r struct{ Prompt []struct{ Text string } }
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, acp.NewInvalidParams(err.Error())
	}
	var acts []act
	text := r.Prompt[0].Text
	if at := strings.LastIndex(text, orders); at >= 0 {
		if err := json.NewDecoder(strings.NewReader(text[at+len(orders):])).Decode(&acts); err != nil {
			return nil, acp.NewInvalidParams(err.Error())
		}
	}
	for _, one := range acts {
		if one.After {
			go a.do(context.Background(), one)
			continue
		}
		got := a.do(ctx, one)
		found := ""
		if strings.Contains(got, marked) {
			found = "found " + marked + ": "
		}
		a.says(fmt.Sprintf("%s%.2000s\n", found, got))
	}
	return map[string]any{"stopReason": "end_turn"}, nil
}

func (a *agent) says(text string) {
	_ = a.conn.SendNotification(context.Background(), acp.ClientMethodSessionUpdate, map[string]any{"sessionId": sessionID,
		"update": map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "text", "text": text}}})
}

// do does an act as often as it says, and returns what came of it.
func (a *agent) do(ctx context.Context, one act) string {
	if one.Deaf {
		a.in.mu.Lock()
		a.in.deaf = true
		a.in.mu.Unlock()
	}
	if one.Raw != "" { // the same line: it is made once
		line := append(bytes.ReplaceAll([]byte(strings.ReplaceAll(one.Raw, "SESSION", sessionID)), []byte("FILL"), bytes.Repeat([]byte("x"), one.Fill)), '\n')
		for range max(1, one.Times) {
			if ctx.Err() != nil {
				return "cancelled"
			}
			if _, err := a.out.Write(line); err != nil {
				return err.Error()
			}
		}
		return fmt.Sprintf("wrote %d bytes", len(line))
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var results []string
	free := make(chan struct{}, max(1, one.Part))
	for range max(1, one.Times) {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			got := a.once(ctx, one)
			mu.Lock()
			defer mu.Unlock()
			if len(results) < 20 && !slices.Contains(results, got) {
				results = append(results, got)
			}
		})
	}
	all.Wait()
	return strings.Join(results, "\n")
}

func (a *agent) once(ctx context.Context, one act) string {
	switch {
	case one.Sh != "":
		out, err := exec.CommandContext(ctx, "bash", "-c", one.Sh).CombinedOutput()
		return fmt.Sprintf("%s %v", out, err)
	case one.Method != "":
		return a.request(ctx, one)
	case one.Dial != "":
		network, address, _ := strings.Cut(one.Dial, " ")
		return talk(network, address, one.Data)
	case one.Proxy != "":
		return talk("tcp", strings.TrimPrefix(os.Getenv("HTTPS_PROXY"), "http://"), one.Proxy)
	case one.Tool != "":
		return a.tool(ctx, one)
	case one.Socket != "":
		a.mu.Lock()
		argv := a.mcp
		a.mu.Unlock()
		return talk("unix", argv[len(argv)-1], strings.ReplaceAll(one.Socket, "FILL", strings.Repeat("x", one.Fill)))
	}
	return one.call(ctx)
}

// talk sends data by a socket and returns the beginning of the answer.
func talk(network, address, data string) string {
	c, err := net.Dial(network, address)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	if _, err := io.WriteString(c, data); err != nil {
		return err.Error()
	}
	switch c := c.(type) {
	case *net.UDPConn:
		return "sent"
	case *net.UnixConn:
		_ = c.CloseWrite() // else the server of MCP waits for more
	}
	text := make([]byte, 4096)
	n, err := c.Read(text)
	return fmt.Sprintf("%s %v", text[:n], err)
}

func (a *agent) request(ctx context.Context, one act) string {
	params := map[string]any{"sessionId": sessionID}
	for k, v := range one.Params {
		params[k] = v
	}
	if one.Notify {
		return fmt.Sprint(a.conn.SendNotification(ctx, one.Method, params))
	}
	got, err := acp.SendRequest[json.RawMessage](a.conn, ctx, one.Method, params)
	if err != nil || one.Method != acp.ClientMethodTerminalCreate {
		return fmt.Sprintf("%s %v", got, err)
	}
	var made struct{ TerminalID string }
	if err := json.Unmarshal(got, &made); err != nil {
		return err.Error()
	}
	id := map[string]any{"sessionId": sessionID, "terminalId": made.TerminalID}
	ended, err := acp.SendRequest[json.RawMessage](a.conn, ctx, acp.ClientMethodTerminalWaitForExit, id)
	out, err2 := acp.SendRequest[json.RawMessage](a.conn, ctx, acp.ClientMethodTerminalOutput, id)
	_, err3 := acp.SendRequest[json.RawMessage](a.conn, ctx, acp.ClientMethodTerminalRelease, id)
	return fmt.Sprintf("%s %s %v %v %v", ended, out, err, err2, err3)
}

// tool calls a tool of the node by MCP.
func (a *agent) tool(ctx context.Context, one act) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tools == nil {
		var err error
		c := sdk.NewClient(&sdk.Implementation{Name: obedient, Version: "1"}, nil)
		if a.tools, err = c.Connect(context.Background(), &sdk.CommandTransport{Command: exec.Command(a.mcp[0], a.mcp[1:]...)}, nil); err != nil {
			return err.Error()
		}
	}
	session := a.tools
	a.mu.Unlock()
	defer a.mu.Lock()
	if one.Tool == "list" {
		got, err := session.ListTools(ctx, nil)
		if err != nil {
			return err.Error()
		}
		names := ""
		for _, t := range got.Tools {
			names += t.Name + " "
		}
		return names
	}
	got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: one.Tool, Arguments: one.Params})
	if err != nil {
		return err.Error()
	}
	text, _ := json.Marshal(got)
	return string(text)
}

// call runs an act in this process.
func (one act) call(ctx context.Context) string {
	switch one.Call {
	case "stay":
		<-ctx.Done()
	case "ptrace":
		return fmt.Sprint(syscall.PtraceAttach(one.PID))
	case "stderr":
		n, err := io.CopyN(os.Stderr, endless{}, 64<<20)
		return fmt.Sprint(n, err)
	case "fork":
		for n := range 3000 {
			c := &exec.Cmd{Path: "/bin/sleep", Args: []string{one.Data, "1000"}}
			if err := c.Start(); err != nil {
				return fmt.Sprint(n, err)
			}
		}
		return "no limit"
	case "memory":
		got, err := syscall.Mmap(-1, 0, 64<<30, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		return fmt.Sprint(len(got), err)
	}
	return "done"
}

// endless is a stream without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
