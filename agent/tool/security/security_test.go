package security_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/agent/tool/security"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

func TestPresetSetsRulesAndSandbox(t *testing.T) {
	dir := t.TempDir()
	standard, err := sandbox.Standard(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		rules   permission.Policy
		sandbox sandbox.Policy
		off     bool
	}{
		"standard":    {permission.Standard(), standard, false},
		"development": {permission.Development(), sandbox.Permissive(), true},
		"restrictive": {permission.Restrictive(), sandbox.Restrictive(), false},
		"read_only":   {permission.ReadOnly(), sandbox.Restrictive(), false},
		"readOnly":    {permission.ReadOnly(), sandbox.Restrictive(), false},
		"read-only":   {permission.ReadOnly(), sandbox.Restrictive(), false},
	} {
		s, err := security.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		rules, err := s.Permissions.Policy()
		if err != nil || rules.Digest() != want.rules.Digest() {
			t.Errorf("%s: the rules are %v, %v", name, rules.Rules(), err)
		}
		held, err := s.SandboxPolicy(dir)
		if diff := cmp.Diff(want.sandbox, held); diff != "" || err != nil || s.Off() != want.off {
			t.Errorf("%s: off %v, %v (-want +got)\n%s", name, s.Off(), err, diff)
		}
	}
	if _, err := security.Preset("lax"); err == nil || !strings.Contains(err.Error(), strings.Join(security.Names(), ", ")) {
		t.Errorf("an unknown preset: %v", err)
	}
	own := sandbox.Policy{Network: sandbox.NetworkFull}
	if p, err := (security.Config{Policy: &own, Sandbox: "off"}).SandboxPolicy(dir); err != nil || p.Network != own.Network {
		t.Errorf("a policy of its own gives %v, %v", p, err)
	}
}

func TestTerminal(t *testing.T) {
	decision := tool.Decision{Agent: "ann", Tool: "Bash", Args: map[string]any{"command": "echo <a>\u202e\x1b[2J"}}
	for typed, want := range map[string]tool.Answer{
		"y\n": {Allow: true, By: "terminal"}, "Always\n": {Allow: true, Always: true, By: "terminal"}, "b\n": {Always: true, By: "terminal"},
		"\nwhat\nn\n": {By: "terminal"}, "": {By: "terminal"}, "y": {By: "terminal"},
	} {
		var out bytes.Buffer
		if got := security.Terminal(strings.NewReader(typed), &out)(t.Context(), decision); got != want {
			t.Errorf("%q is %+v, want %+v", typed, got, want)
		}
		if text := out.String(); !strings.Contains(text, `echo <a>`) || strings.ContainsAny(text, "\u202e\x1b") {
			t.Errorf("it shows %q", text)
		}
	}
}

// A line that comes after a question has ended answers the next one only if that has been shown by then.
func TestTerminalEndsWithItsContext(t *testing.T) {
	in, typing := io.Pipe()
	ask := security.Terminal(in, io.Discard)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := ask(ctx, tool.Decision{}); got.Allow || got.Why == "" {
		t.Errorf("without time it is %+v", got)
	}
	answers := make(chan tool.Answer)
	go func() { answers <- ask(t.Context(), tool.Decision{}) }()
	if _, err := typing.Write([]byte("what\nyes\n")); err != nil {
		t.Fatal(err)
	}
	if got := <-answers; !got.Allow {
		t.Errorf("the answer is %+v", got)
	}
}

// Git runs in a sandbox, also where Bash has none: what a repository's configuration names reaches
// nothing outside of it, and an alias is a question.
func TestGitOfDevelopmentRunsInASandbox(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	if level := sandbox.Probe(t.Context(), sandbox.Config{}).Status().Level; level < sandbox.Bwrap {
		t.Skipf("this machine has the sandbox level %v only", level)
	}
	dir, outside := t.TempDir(), t.TempDir()
	setup := exec.Command("sh", "-ec", `git init -q .; echo a >a; git add .; git -c user.name=n -c user.email=e commit -qm 1; echo b >a
		printf '* diff=evil filter=evil\n' >.gitattributes
		git config diff.external "$EVIL/external #"; git config diff.evil.textconv "$EVIL/textconv #"; git config diff.evil.command "$EVIL/command #"
		git config filter.evil.clean "$EVIL/clean; cat"; git config filter.evil.smudge "$EVIL/smudge; cat"; git config gpg.program "$EVIL/gpg #"; git config log.showSignature true
		git config core.fsmonitor "$EVIL/fsmonitor"; git config core.pager "$EVIL/pager"; git config alias.evil "!$EVIL/alias"
		git config merge.evil.driver "$EVIL/merge"; git config credential.helper "!$EVIL/credential"; git config trailer.evil.command "$EVIL/trailer"`)
	setup.Dir, setup.Env = dir, append(os.Environ(), "EVIL=touch "+outside)
	if out, err := setup.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := security.Development()
	rules, err := s.Permissions.Policy()
	if err != nil {
		t.Fatal(err)
	}
	w, err := builtin.New(builtin.Config{Dir: dir, Security: s})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	asked := 0
	set := tool.NewSet(tool.SetConfig{Guard: permission.Chain{{Policy: rules}}, Dir: dir,
		Ask: func(context.Context, tool.Decision) tool.Answer { asked++; return tool.Answer{} }}, w.Tools()...)
	for _, c := range []struct{ args, want string }{ // in this order: the later ones change the files
		{`{"command": "diff"}`, "-a\n+b"}, {`{"command": "log", "args": ["-p"]}`, "+a"}, {`{"command": "show"}`, "+a"}, {`{"command": "blame", "args": ["a"]}`, "b"},
		{`{"command": "status"}`, "modified"}, {`{"command": "grep", "args": ["a"]}`, ""}, {`{"command": "add", "args": ["a"]}`, ""}, {`{"command": "stash"}`, ""}, {`{"command": "checkout", "args": ["a"]}`, ""},
	} {
		if r := set.Run(t.Context(), []llm.ToolCall{{ID: "1", Name: "Git",
			Args: json.RawMessage(c.args)}})[0]; !strings.Contains(r.Text, c.want) {
			t.Errorf("%s: %s, want %q", c.args, r.Text, c.want)
		}
	}
	if asked > 0 {
		t.Errorf("asked %d times", asked)
	}
	if set.Run(t.Context(), []llm.ToolCall{{ID: "1", Name: "Git", Args: json.RawMessage(`{"command": "evil"}`)}}); asked != 0 {
		t.Errorf("asked %d times about an alias, which looks", asked)
	}
	set.Run(t.Context(), []llm.ToolCall{{ID: "1", Name: "Git", Args: json.RawMessage(`{"command": "evil", "access": "write"}`)}})
	if made, err := os.ReadDir(outside); err != nil || len(made) > 0 {
		t.Errorf("programs of the repository made %v, %v", made, err)
	}
}
