package permission_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/security/permission"
)

// Whatever denies a file to one link of the chain, or to a guardrail, is denied to the command.
func TestDeniedFilesAreThoseOfTheWholeChain(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", filepath.Join(top, "home"))
	dir := filepath.Join(top, "ws")
	for _, name := range []string{"ws/.env", "ws/sub/.env", "ws/s/a", "ws/s/pub/b", "ws/c.pem", "ws/written", "home/key", "home/.env"} {
		at := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../home/key", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	deny := func(texts ...string) permission.Config {
		return permission.Config{Preset: "permissive", Deny: permission.Rules(texts...)}
	}
	lifting := func(c permission.Config, texts ...string) permission.Config {
		c.Override = permission.Rules(texts...)
		return c
	}
	for _, test := range []struct {
		name     string
		links    []permission.Config
		guard    *permission.Guardrail
		command  string
		hidden   string // relative to top, as the others
		readOnly string
		unknown  string
	}{
		{name: "none", links: []permission.Config{deny("Bash(rm:*)", "Read")}},
		{name: "relative, at any depth", links: []permission.Config{deny("Read(.env)")}, hidden: "ws/.env ws/sub/.env"},
		{name: "relative, here", links: []permission.Config{deny("Read(./.env)")}, hidden: "ws/.env"},
		{name: "patterns", links: []permission.Config{deny("Read(**/.env)", "Read(*.pem)", "Read(./s/*)")}, hidden: "ws/.env ws/c.pem ws/s ws/sub/.env"},
		{name: "home", links: []permission.Config{deny("Read(~/key)", "Write(~/k*)")}, hidden: "home/key", readOnly: "home/key"},
		{name: "a link", links: []permission.Config{deny("Read(link)")}, hidden: "home/key"},
		{name: "absent", links: []permission.Config{deny("Read(no)", "Write(~/no/*)", "Read(/no/such/*)")}},
		{name: "the directory of commands", links: []permission.Config{deny("Read(./*)")}, hidden: "home/key ws/.env ws/c.pem ws/s ws/sub ws/written"},
		{name: "every file to write", links: []permission.Config{deny("Write")}, readOnly: "/"},
		{name: "several links", links: []permission.Config{deny("Read(.env)"), deny("Write(written)"), deny("Edit(c.pem)")}, hidden: "ws/.env ws/sub/.env", readOnly: "ws/c.pem ws/written"},
		{name: "a guardrail", links: []permission.Config{deny()}, guard: &permission.Guardrail{Deny: []permission.Rule{rule(t, "Read(written)")}}, hidden: "ws/written"},
		{name: "override", links: []permission.Config{lifting(deny("Read(./s/*)", "Read(.env)"), "Read(./s/pub/*)", "Read(./.env)")}, hidden: "ws/s/a ws/sub/.env"},
		{name: "override of another link", links: []permission.Config{deny("Read(./.env)"), lifting(deny(), "Read(./.env)")}, hidden: "ws/.env"},
		{name: "override of final deny", links: []permission.Config{{Preset: "permissive", FinalDeny: permission.Rules("Read(./.env)"), Override: permission.Rules("Read(./.env)")}}, hidden: "ws/.env"},
		{name: "override of the command", links: []permission.Config{lifting(deny("Read(.env)"), "Bash(cat .env)")}, command: "cat .env"},
		{name: "override of one command", links: []permission.Config{lifting(deny("Read(./.env)"), "Bash(cat .env)")}, command: "cat .env; ls", hidden: "ws/.env"},
		{name: "override of a part to write", links: []permission.Config{lifting(deny("Write(./s/*)"), "Write(./s/pub/*)")}, readOnly: "ws/s/a", unknown: "an override allows a part of"},
		{name: "anywhere", links: []permission.Config{deny("Read(/*/.env)")}, unknown: "may be anywhere"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var chain permission.Chain
			for _, c := range test.links {
				p, err := c.Policy()
				if err != nil {
					t.Fatal(err)
				}
				chain = append(chain, permission.Link{Policy: p})
			}
			call := permission.Call{Tool: "Bash", Args: map[string]any{"command": "ls"}, Dir: dir}
			if test.command != "" {
				call.Args["command"] = test.command
			}
			if test.guard != nil {
				call.Within = []permission.Guardrail{*test.guard}
			}
			got := chain.Judge(call).Plan.Denied.Files()
			for _, list := range []struct {
				name, want string
				got        []string
			}{{"hidden", test.hidden, got.Hidden}, {"read-only", test.readOnly, got.ReadOnly}} {
				have := strings.ReplaceAll(strings.Join(list.got, " "), top+"/", "")
				if diff := cmp.Diff(list.want, have); diff != "" {
					t.Errorf("%s:\n%s", list.name, diff)
				}
			}
			if all := strings.Join(got.Unknown, "; "); (test.unknown == "") != (all == "") || !strings.Contains(all, test.unknown) {
				t.Errorf("unknown: %q, want %q", all, test.unknown)
			}
		})
	}
}

// What a sandbox keeps from a command that may be given any file is no question. What names a denied file is denied.
func TestKeptFilesAreNoQuestion(t *testing.T) {
	policy, err := permission.Config{Preset: "none", Allow: permission.Rules("Bash(ls:*)", "Bash(xargs grep:*)", "Bash(grep:*)"),
		Deny: permission.Rules("Read(.env)")}.Policy()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		command    string
		kept, then permission.Action
	}{
		{"ls | xargs grep X", permission.Allow, permission.Ask},
		{"grep X .env", permission.Deny, permission.Deny},
		{"ls; grep -r X /etc/..", permission.Allow, permission.Ask},
		{"ls | xargs rm", permission.Ask, permission.Ask},
	} {
		call := permission.Call{Tool: "Bash", Args: map[string]any{"command": test.command}, Dir: t.TempDir()}
		for _, kept := range []bool{true, false} {
			want := map[bool]permission.Action{true: test.kept, false: test.then}[kept]
			call.Kept = func(*permission.FileDenials) bool { return kept }
			if v := (permission.Chain{{Policy: policy}}).Judge(call); v.Action != want {
				t.Errorf("%s, kept %v: %v (%s), want %v", test.command, kept, v.Action, v.Why, want)
			}
		}
	}
}
