//go:build system && linux

package mcp_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

// calling is `symbio mcp call everything TOOL ARGS`, with a server that nobody here wrote. What the server's shell is
// called, its pid stands in the file pid.
type calling struct {
	*exec.Cmd
	out      strings.Builder
	progress *bufio.Scanner // its standard error
	dir      string
}

func callEverything(t *testing.T, tool, args string) *calling {
	t.Helper()
	program := filepath.Join(os.Getenv(symbiotest.NPMDirectory), "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
	node, err := exec.LookPath("node")
	if _, missing := os.Stat(program); os.Getenv(symbiotest.NPMDirectory) == "" || errors.Join(err, missing) != nil {
		t.Skipf("it needs node, and server-everything in the node_modules of $%s: %v", symbiotest.NPMDirectory, errors.Join(err, missing))
	}
	c := &calling{dir: t.TempDir()}
	list, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"everything": map[string]any{
		"command": "sh", "args": []string{"-c", `echo $$ >"$1"; exec "$2" "$3" stdio`, "sh", filepath.Join(c.dir, "pid"), node, program}, "sandbox": map[string]any{"preset": "off"},
	}}})
	if err := errors.Join(err, os.MkdirAll(filepath.Join(c.dir, "symbio"), 0o700), os.WriteFile(filepath.Join(c.dir, "symbio", "mcp.json"), list, 0o600)); err != nil {
		t.Fatal(err)
	}
	c.Cmd = exec.CommandContext(t.Context(), "symbio", "mcp", "call", "everything", tool, args)
	c.Dir = c.dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "GORACE=" + os.Getenv("GORACE"), "HOME=" + c.dir, "XDG_STATE_HOME=" + symbiotest.ShortDir(t), "XDG_CONFIG_HOME=" + c.dir}
	c.Stdout = &c.out
	said, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.progress = bufio.NewScanner(said)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// server is the pid of the server, once it has told of some progress.
func (c *calling) server(t *testing.T) int {
	t.Helper()
	if !c.progress.Scan() || !strings.HasPrefix(c.progress.Text(), "progress: ") {
		t.Fatalf("it said %q, want its progress", c.progress.Text())
	}
	text, err := os.ReadFile(filepath.Join(c.dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// end waits for the command, and returns what else it said.
func (c *calling) end(t *testing.T) (told string, status int) {
	t.Helper()
	var lines []string
	for c.progress.Scan() {
		lines = append(lines, c.progress.Text())
	}
	err := c.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n"), c.ProcessState.ExitCode()
}

func TestProgressOfALongCallIsShownAsItIsMade(t *testing.T) {
	t.Parallel()
	c := callEverything(t, "trigger-long-running-operation", `{"duration": 1, "steps": 4}`)
	told, status := c.end(t)
	// The last one comes together with the answer, which ends the listening: it may be there or not.
	if want := "progress: 1 of 4 \nprogress: 2 of 4 \nprogress: 3 of 4 "; strings.TrimSuffix(told, "\nprogress: 4 of 4 ") != want || status != 0 || !strings.Contains(c.out.String(), "Long running operation completed") {
		t.Errorf("status %d, %q and %q; want %q", status, c.out.String(), told, want)
	}
}

func TestCtrlCEndsACallAndItsServer(t *testing.T) {
	t.Parallel()
	c := callEverything(t, "trigger-long-running-operation", `{"duration": 60, "steps": 120}`)
	pid := c.server(t)
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	told, status := c.end(t)
	if status != 1 || !strings.HasSuffix(told, "symbio mcp call: interrupted") || c.out.String() != "" {
		t.Errorf("status %d, %q", status, told)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the server %d runs on: %v", pid, err)
	}
}

func TestMCPCallOfKilledServerSaysSo(t *testing.T) {
	t.Parallel()
	c := callEverything(t, "trigger-long-running-operation", `{"duration": 60, "steps": 120}`)
	if err := syscall.Kill(c.server(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if told, status := c.end(t); status != 5 || !strings.Contains(told, "the MCP server is not there any more: everything: ") || !strings.Contains(told, "whether the call was done is not known") {
		t.Errorf("status %d, %q", status, told)
	}
}

func TestMCPToolThatHasToBeATaskIsRefused(t *testing.T) {
	t.Parallel()
	c := callEverything(t, "simulate-research-query", `{"topic": "x"}`)
	told, status := c.end(t)
	if status != 1 || c.out.String() != "" || !strings.Contains(told, "this tool has to be called as a task") || !strings.Contains(told, "other tools can be used") {
		t.Errorf("status %d, %q and %q", status, c.out.String(), told)
	}
}
