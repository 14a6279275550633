package exec

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"symbio/agent/node/config"
	"symbio/community"
)

// place is a machine with a user, a node and its workspace, none of it in /tmp, which commands do not share.
func place(t *testing.T) site {
	t.Helper()
	top, err := os.MkdirTemp("/var/tmp", "symbio-test-")
	if err != nil {
		t.Skip("no directory outside of /tmp to try it in:", err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	if top, err = filepath.EvalSymlinks(top); err != nil {
		t.Fatal(err)
	}
	o := site{config.Default(), filepath.Join(top, "ann"), filepath.Join(top, "work"), filepath.Join(top, "state")}
	for _, file := range []string{filepath.Join(o.home, ".ssh/id"), filepath.Join(o.home, ".aws/credentials"), filepath.Join(o.state, "nodes/n/key.pem"), filepath.Join(o.home, "mine/notes"), filepath.Join(o.dir, "f")} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(filepath.Base(file)), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// TestCapabilityMayWhatItsSandboxSays tries the same with each sandbox of a capability: to write in the workspace and
// beside it, to read keys and notes, and to reach the machine's network.
func TestCapabilityMayWhatItsSandboxSays(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	const script = `did=; try() { if sh -c "$2" >/dev/null 2>&1; then did="$did $1"; fi; }
try inside 'echo x >inside'
try outside 'echo x >HOME/outside'
try mine 'echo x >HOME/mine/new'
try ssh 'cat HOME/.ssh/id'
try aws 'cat HOME/.aws/credentials'
try key 'cat STATE/nodes/n/key.pem'
try notes 'cat HOME/mine/notes'
try network 'bash -c ": </dev/tcp/127.0.0.1/PORT"'
echo "\"$did\""`
	for name, test := range map[string]struct {
		node config.Sandbox
		own  *config.Sandbox
		did  string
	}{
		"the node's, as it is":       {config.Sandbox{Preset: "standard"}, nil, "inside notes"},
		"the node's, permissive":     {config.Sandbox{Preset: "permissive"}, nil, "inside outside mine notes network"},
		"narrower":                   {config.Sandbox{Preset: "permissive"}, &config.Sandbox{Preset: "standard"}, "inside notes"},
		"a network":                  {config.Sandbox{Preset: "standard"}, &config.Sandbox{Network: "full"}, "inside notes network"},
		"a directory":                {config.Sandbox{Preset: "standard"}, &config.Sandbox{Write: []string{"~/mine"}}, "inside mine notes"},
		"a key":                      {config.Sandbox{Preset: "standard"}, &config.Sandbox{Show: []string{"~/.ssh"}}, "inside ssh notes"},
		"the node's, without notes":  {config.Sandbox{Preset: "standard", Hide: []string{"~/mine"}}, nil, "inside"},
		"hidden for those alone too": {config.Sandbox{Preset: "standard", Hide: []string{"~/mine"}}, &config.Sandbox{Preset: "standard", Network: "full"}, "inside network"},
		"alone, not what the node's": {config.Sandbox{Preset: "standard", Network: "full", Show: []string{"~/.aws"}}, &config.Sandbox{Preset: "standard"}, "inside notes"},
		"off for it":                 {config.Sandbox{Preset: "standard"}, &config.Sandbox{Preset: "off"}, "inside outside mine ssh aws key notes network"},
		"off for all but it":         {config.Sandbox{Preset: "off"}, &config.Sandbox{Preset: "standard"}, "inside notes"},
	} {
		t.Run(name, func(t *testing.T) {
			o := place(t)
			o.config.Sandbox = test.node
			c := sh(t, strings.NewReplacer("HOME", o.home, "STATE", o.state, "PORT", port).Replace(script))
			c.Sandbox = test.own
			run := o.command(t, c)
			if _, err := held(run); err != nil {
				t.Skip("this machine cannot hold it:", err)
			}
			got, err := run.Answer(t.Context(), []byte("1"), "")
			if did := strings.Trim(string(got), `" `); err != nil || did != test.did {
				t.Errorf("it did %q, %v; want %q", did, err, test.did)
			}
		})
	}
}

// A capability has one of the two boxes by one word. Both read the workspace, and a program elsewhere; only one changes files.
func TestCapabilityHasABoxByOneWord(t *testing.T) {
	for word, writes := range map[string]bool{"look": false, "work": true} {
		o := place(t)
		program := filepath.Join(o.home, "program")
		if err := os.WriteFile(program, []byte("#!/bin/sh\n(echo x >made) 2>/dev/null\ncat f >/dev/null && echo '\"read\"'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		own, err := config.ParseSandbox([]byte(word))
		if err != nil {
			t.Fatal(err)
		}
		run := o.command(t, config.Capability{Name: "x", Exec: []string{program}, Sandbox: own})
		if _, err := held(run); err != nil {
			t.Skip("this machine cannot hold it:", err)
		}
		got, err := run.Answer(t.Context(), []byte("1"), "")
		if err != nil || strings.TrimSpace(string(got)) != `"read"` {
			t.Errorf("%s: it read %s, %v", word, got, err)
		}
		if _, err := os.Stat(filepath.Join(o.dir, "made")); (err == nil) != writes {
			t.Errorf("%s: it has written: %t, want %t", word, err == nil, writes)
		}
	}
}

func TestCapabilityThatCannotBeHeldIsRefusedWithTheWayToMendIt(t *testing.T) {
	o := place(t)
	o.config.Sandbox.Levels = []string{}
	c := sh(t, "echo 1; touch here")
	run := o.command(t, c)
	_, err := run.Answer(t.Context(), []byte("1"), "")
	said := community.Explanation(err)
	if !errors.Is(err, community.ErrDenied) || !strings.Contains(said, "cannot hold the command") || !strings.Contains(said, "To mend it there: ") || strings.Contains(said, o.dir) {
		t.Errorf("%v, told to the caller: %q; want that it is denied, how to mend it, and no path", err, said)
	}
	if _, err := os.Stat(filepath.Join(o.dir, "here")); err == nil {
		t.Error("it ran")
	}
	c.Sandbox = &config.Sandbox{Preset: "off"}
	o.config.Capabilities = []config.Capability{{Name: "held", Exec: []string{"x"}}, c, {Name: "an.agent", Agent: "a"}}
	all, err := o.runner().Refusals(o.config.Capabilities, o.runner().Held)
	if err != nil || len(all) != 1 || all[0].Capability != "held" || !strings.Contains(all[0].Why, "none is run") || !strings.Contains(all[0].Mend, "sandbox: {preset: off}") {
		t.Errorf("refusing: %+v, %v; want the one that is not off", all, err)
	}
}
