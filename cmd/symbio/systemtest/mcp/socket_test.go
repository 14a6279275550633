//go:build system && linux

package mcp_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

// greets is an MCP server with one tool, for each connection.
func greets(c net.Conn) {
	defer c.Close()
	greet(bufio.NewScanner(c), c)
}

// greet answers the lines of a client.
func greet(lines *bufio.Scanner, out io.Writer) {
	results := map[string]any{
		"initialize": map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": struct{}{}}, "serverInfo": map[string]any{"name": "s", "version": "1"}},
		"tools/list": map[string]any{"tools": []any{map[string]any{"name": "greet", "inputSchema": map[string]any{"type": "object"}}}},
	}
	for lines.Scan() {
		var r struct {
			ID     any
			Method string
		}
		if json.Unmarshal(lines.Bytes(), &r) != nil || r.ID == nil {
			continue
		}
		if json.NewEncoder(out).Encode(map[string]any{"jsonrpc": "2.0", "id": r.ID, "result": results[r.Method]}) != nil {
			return
		}
	}
}

func TestMCPServerUsesSocketOfItsEntry(t *testing.T) {
	t.Parallel()
	dir, work := symbiotest.ShortDir(t), t.TempDir()
	for _, name := range []string{"named", "other"} {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				go greets(c)
			}
		}()
		t.Cleanup(func() { l.Close(); <-ended })
	}
	program, err := exec.LookPath("symbio-relay")
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]any{}
	for name, socket := range map[string]string{"right": "named", "wrong": "other"} {
		servers[name] = map[string]any{"command": program, "args": []string{filepath.Join(dir, socket)}, "sandbox": map[string]any{"sockets": []string{filepath.Join(dir, "named")}}}
	}
	servers["without"] = map[string]any{"command": program, "args": []string{filepath.Join(dir, "named")}}
	list, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err := errors.Join(err, os.MkdirAll(filepath.Join(work, "symbio"), 0o700), os.WriteFile(filepath.Join(work, "symbio", "mcp.json"), list, 0o600)); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "symbio", "mcp", "list", "--start")
	c.Dir = work
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "GORACE=" + os.Getenv("GORACE"), "HOME=" + work, "XDG_STATE_HOME=" + symbiotest.ShortDir(t), "XDG_CONFIG_HOME=" + work}
	out, err := c.Output() // its status is 1, since two fail
	if strings.Contains(string(out), "level landlock") {
		t.Skip("this machine cannot hide sockets")
	}
	for name, want := range map[string]string{"right": "ready", "wrong": "failed", "without": "failed"} {
		if !strings.Contains(string(out), name+"\tstdio\t"+want) {
			t.Errorf("%s is not %s: %v\n%s", name, want, err, out)
		}
	}
}
