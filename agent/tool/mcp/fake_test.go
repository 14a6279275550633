package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/tool"
)

// fake is a server that says what a test has it say, line by line.
type fake struct {
	// answer is the result of a request; nil = none comes.
	answer func(method string, params json.RawMessage) any

	mu    sync.Mutex
	dials int
	now   net.Conn
	got   []string // methods
}

// raw stands in the place of a result, as bytes on the wire.
type raw string

func (f *fake) open(ctx context.Context, _ Server) (*link, error) {
	here, there := net.Pipe()
	f.mu.Lock()
	f.dials++
	f.now = there
	f.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { f.serve(there) })
	stop := context.AfterFunc(ctx, func() { there.Close() })
	return &link{
		transport: &sdk.IOTransport{Reader: &messageReader{r: bufio.NewReader(here), c: here, dropped: func([]byte) {}}, Writer: here,
			MaxLineLength: maxMessage},
		stderr: func() string { return "what it said" },
		end:    sync.OnceFunc(func() { stop(); here.Close(); there.Close(); wg.Wait() }),
	}, nil
}

func (f *fake) serve(c net.Conn) {
	var wg sync.WaitGroup
	defer wg.Wait()
	var writing sync.Mutex
	for in := bufio.NewScanner(c); in.Scan(); {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		f.mu.Lock()
		f.got = append(f.got, m.Method)
		f.mu.Unlock()
		if len(m.ID) == 0 {
			continue
		}
		wg.Go(func() {
			out := f.reply(m.ID, m.Method, m.Params)
			writing.Lock()
			defer writing.Unlock()
			c.Write(out)
		})
	}
}

func (f *fake) reply(id json.RawMessage, method string, params json.RawMessage) []byte {
	message := map[string]any{"jsonrpc": "2.0", "id": id}
	switch result := f.answer(method, params).(type) {
	case nil:
		if method != "server/discover" && method != "initialize" {
			return nil
		}
		message["error"] = map[string]any{"code": -32601, "message": "no such method"}
		if method == "initialize" {
			delete(message, "error")
			message["result"] = map[string]any{"protocolVersion": "2025-06-18",
				"capabilities": map[string]any{"tools": map[string]any{"listChanged": true}},
				"serverInfo":   map[string]any{"name": "fake", "version": "1"}}
		}
	case raw:
		return []byte(result)
	case error:
		message["error"] = map[string]any{"code": -32000, "message": result.Error()}
	default:
		message["result"] = result
	}
	out, err := json.Marshal(message)
	if err != nil {
		return nil
	}
	return append(out, '\n')
}

func (f *fake) say(text string) {
	f.mu.Lock()
	c := f.now
	f.mu.Unlock()
	c.Write([]byte(text))
}

func (f *fake) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now.Close()
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dials
}

func (f *fake) methods() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.got...)
}

// listing answers tools/list with these tools, and calls with what call says.
func listing(call func(json.RawMessage) any, tools ...map[string]any) func(string, json.RawMessage) any {
	return func(method string, params json.RawMessage) any {
		switch method {
		case "tools/list":
			return map[string]any{"tools": tools}
		case "tools/call":
			if call != nil {
				return call(params)
			}
		}
		return nil
	}
}

func described(name, description string) map[string]any {
	return map[string]any{"name": name, "description": description, "inputSchema": map[string]any{"type": "object"}}
}

func text(s string) any {
	return map[string]any{"content": []any{map[string]any{"type": "text", "text": s}}}
}

// bubbled runs a test with a manager of one server, in a bubble; all has to have ended at its end.
func bubbled(t *testing.T, cfg Config, open func(context.Context, Server) (*link, error),
	test func(*testing.T, context.Context, *Manager)) {
	synctest.Test(t, func(t *testing.T) {
		if cfg.Servers == nil {
			cfg.Servers = []Server{{Name: "s", Type: Stdio, Command: "x", Hash: "h"}}
		}
		m := New(cfg)
		m.open = open
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		test(t, ctx, m)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// turnTools returns the tools of a turn that waits briefly.
func turnTools(ctx context.Context, m *Manager) []tool.Tool {
	all, _ := m.Tools(ctx, false)
	return all
}

// run runs a manager for a test.
func run(t *testing.T, cfg Config) (*Manager, context.Context) {
	t.Helper()
	m := New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = m.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return m, ctx
}

var errBroken = errors.New("no such program")

const aWhile = 10 * time.Second
