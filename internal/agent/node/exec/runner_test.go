package exec

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent/node/config"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// Capabilities and MCP servers are kept from what the node's rules deny, as it is when they start.
func TestDeniedFilesAreKeptFromCapabilities(t *testing.T) {
	c := config.Default()
	c.Permissions = permission.Config{Deny: permission.Rules("Read(.env)", "Write(keep)")}
	dir := t.TempDir()
	o := site{c, t.TempDir(), dir, t.TempDir()}
	run := o.command(t, sh(t, `cat .env; (echo x > keep) 2>/dev/null; echo "\"$(cat keep)\""`))
	for _, name := range []string{".env", "keep"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	policy, err := o.runner().Policy(c.Sandbox) // of MCP servers
	if hidden := policy.Files.Denied.Hidden; err != nil || !slices.ContainsFunc(hidden, func(p string) bool { return filepath.Base(p) == ".env" }) {
		t.Errorf("hidden from MCP servers: %q, %v; want .env", hidden, err)
	}
	if box, err := run.runner.Held(); err != nil || box.Status().Level < sandbox.Bwrap {
		t.Skipf("this machine cannot hide files: %v", err)
	}
	if got, err := run.Answer(t.Context(), nil, ""); err != nil || string(got) != `"secret"` {
		t.Errorf("the command printed %s, %v; want what it may not write, and not what it may not read", got, err)
	}
}

// A machine that was too busy to say what it can hold is asked again, and not at each command.
func TestSandboxIsProbedAgainWhileUnsure(t *testing.T) {
	late, cancel := context.WithCancel(t.Context())
	cancel()
	unsure := sandbox.Probe(late, sandbox.Config{})
	if s := unsure.Status(); !s.Unsure {
		t.Skipf("nothing is tried on this machine: %+v", s)
	}
	sure := sandbox.Probe(t.Context(), sandbox.Config{Levels: []sandbox.Level{sandbox.Off}})
	synctest.Test(t, func(t *testing.T) {
		probes := 0
		get := settled(func() (*sandbox.Box, error) {
			if probes++; probes < 3 {
				return unsure, nil
			}
			return sure, nil
		})
		for i, want := range []int{1, 1, 2, 2, 3, 3, 3, 3} {
			if b, err := get(); err != nil || probes != want || (b == sure) != (want == 3) {
				t.Errorf("call %d: %d probes, %v, %v; want %d", i, probes, b.Status(), err, want)
			}
			time.Sleep(30 * time.Second)
		}
	})
}
