//go:build system && linux

package editor_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

// denied is the exit status of acpx for a prompt with a call that was denied.
const denied = 5

// acpx drives an agent by ACP from a command line. A process of its own holds the session between its commands.
func TestSessionsOfACPX(t *testing.T) {
	t.Parallel()
	program := installed(t, "acpx/dist/cli.js")
	dir, env := home(t)
	start := func(args ...string) (*exec.Cmd, *strings.Builder) {
		t.Helper()
		c := exec.Command("node", append([]string{program, "--agent", "symbio acp --config " + filepath.Join(dir, "c.yaml"),
			"--cwd", dir, "--ttl", "60", "--format", "json"}, args...)...)
		out := new(strings.Builder)
		c.Dir, c.Env, c.Stdout, c.Stderr = dir, env, out, os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c, out
	}
	acpx := func(args ...string) string {
		t.Helper()
		c, out := start(args...)
		if err := c.Wait(); err != nil && c.ProcessState.ExitCode() != denied {
			t.Errorf("acpx %q: %v: %s", args, err, out)
		}
		return out.String()
	}
	want := func(out string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("no %s in %s", part, out)
			}
		}
	}
	acpx("sessions", "new")
	t.Cleanup(func() { want(acpx("sessions", "close"), `"session_closed"`) })
	want(acpx("--deny-all", "prompt", "write it down"), `"failed"`, `"end_turn"`)
	if _, err := os.Stat(filepath.Join(dir, "notes.txt")); err == nil {
		t.Error("a call that was denied has run")
	}
	want(acpx("--approve-all", "prompt", "write it now"), `"completed"`, `"end_turn"`)
	if text, err := os.ReadFile(filepath.Join(dir, "notes.txt")); err != nil || string(text) != "2\n" {
		t.Errorf("notes.txt has %q, %v", text, err)
	}
	c, out := start("prompt", "wait")
	defer symbiotest.HoldGate(t, dir).Close() // the call runs
	want(acpx("cancel"), `"cancelled":true`)
	if err := c.Wait(); err != nil {
		t.Errorf("the prompt that was cancelled: %v", err)
	}
	want(out.String(), `"cancelled"`)
	want(acpx("sessions", "list"), "write it down", dir)
	want(acpx("set-mode", "plan"), `"mode_set"`)
}
