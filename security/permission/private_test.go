package permission_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/security/permission"
)

// keyring is a home with a workspace, keys, and links to them; it is the user's for this test.
func keyring(t *testing.T) (home, work string) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home = filepath.Join(top, "ann")
	work = filepath.Join(home, "src")
	for _, file := range []string{".ssh/id", ".ssh/config", ".aws/credentials", ".config/gh/hosts.yml", ".config/plain", "notes",
		"src/f", ".netrc"} {
		at := filepath.Join(home, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{filepath.Join(work, "k"): filepath.Join(home, ".ssh"), filepath.Join(top, "other"): home} {
		if err := os.Symlink(to, link); err != nil {
			t.Skip("no symbolic links here:", err)
		}
	}
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	return home, work
}

func TestKeysAreReadOnlyByARuleThatNamesThem(t *testing.T) {
	const a, k, d = permission.Allow, permission.Ask, permission.Deny
	home, work := keyring(t)
	top := filepath.Dir(home)
	policy := func(c permission.Config) permission.Policy {
		p, err := c.Policy()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	read := func(path string) permission.Call {
		return permission.Call{Tool: "Read", Args: map[string]any{"file_path": path}, Dir: work}
	}
	policies := []permission.Policy{
		policy(permission.Config{Preset: "standard"}), policy(permission.Config{Preset: "permissive"}),
		policy(permission.Config{Preset: "read_only"}),
		policy(permission.Config{Preset: "standard", Allow: permission.Rules("Read(~/.ssh/config)", "Read(~/.config/*)")}),
		policy(permission.Config{Preset: "standard", Allow: permission.Rules("Read(~/*)")}),
		policy(permission.Config{Preset: "standard", Deny: permission.Rules("Read(~/.ssh/*)"), Allow: permission.Rules("Read(~/.aws/*)")}),
	}
	for _, c := range []struct {
		call permission.Call
		want [6]permission.Action // by policy
	}{
		{read("f"), [6]permission.Action{a, a, a, a, a, a}},
		{read(home + "/notes"), [6]permission.Action{a, a, a, a, a, a}},
		{read(home + "/.config/plain"), [6]permission.Action{a, a, a, a, a, a}},
		{read(home + "/.ssh/id"), [6]permission.Action{k, k, d, k, k, d}},
		{read(home + "/.SSH/id"), [6]permission.Action{k, k, d, k, k, k}},
		{read("../.ssh/id"), [6]permission.Action{k, k, d, k, k, d}},
		{read("k/id"), [6]permission.Action{k, k, d, k, k, d}},
		{read(top + "/other/.ssh/id"), [6]permission.Action{k, k, d, k, k, d}},
		{read(home + "/.ssh/config"), [6]permission.Action{k, k, d, a, k, d}},
		{read(home + "/.ssh"), [6]permission.Action{k, k, d, k, k, d}},
		{read(home + "/.config/gh/hosts.yml"), [6]permission.Action{k, k, d, k, k, k}},
		{read(home + "/.aws/credentials"), [6]permission.Action{k, k, d, k, k, a}},
		{read(home + "/.netrc"), [6]permission.Action{k, k, d, k, k, k}},
		{read(home + "/.netrcs"), [6]permission.Action{a, a, a, a, a, a}},
		{permission.Call{Tool: "Write", Args: map[string]any{"file_path": home + "/.netrc"}, Dir: work}, [6]permission.Action{k, k, d, k, k, k}},
		{permission.Call{Tool: "Grep", Args: map[string]any{"path": home + "/.ssh"}, Dir: work}, [6]permission.Action{k, k, d, k, k, d}},
		{permission.Call{Tool: "Glob", Args: map[string]any{"path": "k"}, Dir: work}, [6]permission.Action{k, k, d, k, k, d}},
		{permission.Call{Tool: "Grep", Args: map[string]any{"path": home}, Dir: work}, [6]permission.Action{a, a, a, a, a, a}},
	} {
		for i, want := range c.want {
			v := permission.Chain{{Policy: policies[i]}}.Judge(c.call)
			if !fits(v, want) {
				t.Errorf("%s %v, policy %d: got %v (%s), want %v", c.call.Tool, c.call.Args, i, v.Action, v.Why, want)
			}
			if v.Action == permission.Ask && !strings.Contains(v.Why, "keys or passwords") {
				t.Errorf("%s %v, policy %d: %q does not say why", c.call.Tool, c.call.Args, i, v.Why)
			}
		}
	}
}

func TestWalkLeavesKeysOut(t *testing.T) {
	home, work := keyring(t)
	top := filepath.Dir(home)
	for _, c := range []struct {
		allow permission.Config
		path  string
		out   string // of the names below the path
		stays string
	}{
		{permission.Config{Preset: "standard"}, home, ".ssh .ssh/id .aws/credentials .netrc .config/gh .SSH/id", "notes src/f .config .config/plain .sshx"},
		{permission.Config{Preset: "permissive"}, home, ".ssh/id", "notes"},
		{permission.Config{Preset: "standard"}, top, "ann/.ssh ann/.netrc", "ann/notes x/.ssh"},
		{permission.Config{Preset: "standard"}, top + "/other", ".ssh .netrc", "notes"},
		{permission.Config{Preset: "standard"}, home + "/.config", "gh gh/hosts.yml", "plain"},
		{permission.Config{Preset: "standard"}, work, "", "f .ssh"},
		{permission.Config{Preset: "standard", Allow: permission.Rules("Grep(~/.ssh/*)")}, home, ".netrc", ".ssh/id notes"},
		{permission.Config{Preset: "standard", Allow: permission.Rules("Read(~/.ssh/*)")}, home, ".netrc .ssh/id", "notes"},
	} {
		p, err := c.allow.Policy()
		if err != nil {
			t.Fatal(err)
		}
		v := permission.Chain{{Policy: p}}.Judge(permission.Call{Tool: "Grep", Args: map[string]any{"path": c.path}, Dir: work})
		for _, name := range strings.Fields(c.out) {
			if fold := strings.ToLower(name) != name; !v.Except.Covers(name) && !fold {
				t.Errorf("a walk from %s with %v comes to %s", c.path, c.allow.Allow, name)
			}
		}
		for _, name := range strings.Fields(c.stays) {
			if v.Except.Covers(name) {
				t.Errorf("a walk from %s with %v leaves %s out", c.path, c.allow.Allow, name)
			}
		}
	}
}
