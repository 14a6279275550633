package permission_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"symbio/security/permission"
)

// on returns a call of a machine that has both boxes.
func on(c permission.Call, access string) permission.Call {
	c = held(c)
	if access != "" {
		c.Args[permission.AccessArg] = access
	}
	return c
}

// held returns the call on a machine whose sandbox holds commands, unless it says itself what holds them.
func held(c permission.Call) permission.Call {
	if c.HasBox == nil && c.Kept == nil {
		c.HasBox, c.Kept = func(permission.Box) bool { return true }, func(*permission.FileDenials) bool { return true }
	}
	return c
}

// fits reports whether a verdict is the wanted one. Where a question is wanted, a box that changes nothing will do.
func fits(v permission.Verdict, want permission.Action) bool {
	return v.Action == want || want == permission.Ask && v.Action == permission.Allow && v.Box == permission.BoxLook
}

func preset(t *testing.T, name string, more permission.Config) permission.Policy {
	t.Helper()
	more.Preset = name
	p, err := more.Policy()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCommandsRunInBoxes(t *testing.T) {
	const a, k, d = permission.Allow, permission.Ask, permission.Deny
	standard, workspace := preset(t, "standard", permission.Config{}), preset(t, "workspace", permission.Config{})
	denies := preset(t, "standard", permission.Config{Deny: permission.Rules("Bash(git push:*)")})
	noRead := preset(t, "standard", permission.Config{Deny: permission.Rules("Read")})
	goTest := preset(t, "standard", permission.Config{Allow: permission.Rules("Bash(go test ./...)")})
	beginning := preset(t, "standard", permission.Config{Allow: permission.Rules("Bash(go test:*)")})
	writes := preset(t, "standard", permission.Config{Allow: permission.Rules("Bash(go list:*)", "Write(./out)")})
	for _, c := range []struct {
		name    string
		policy  permission.Policy
		command string
		access  string
		want    permission.Action
		box     permission.Box
	}{
		{"looks", standard, "ls -la | grep x", "", a, "look"},
		{"looks, whatever the text is", standard, `eval "$(printf '\x72m x')"; python3 -c 'import os'`, "", a, "look"},
		{"looks, and cannot be read", standard, "echo 'a", "", a, "look"},
		{"no rule is needed, and none allows it", standard, `cd sub && true`, "", a, "look"},
		{"no rule is needed, and none allows it to write", standard, `cd sub && true`, "write", a, "look"},
		{"writes", standard, "make", "write", k, "work"},
		{"writes, in the preset workspace", workspace, "make", "write", a, "work"},
		{"nothing said, in the preset workspace", workspace, "make", "", a, "work"},
		{"looks, in the preset workspace", workspace, "make", "look", a, "look"},
		{"network, in the preset workspace", workspace, "git push", "network", k, "network"},
		{"network of a rule for the command", goTest, "go test ./...", "network", k, "network"},
		{"a rule for the command", goTest, "go test ./...", "", a, "work"},
		{"a rule for the command, which only looks", goTest, "go test ./...", "look", a, "look"},
		{"a rule for the beginning of the command", beginning, "go test ./...", "", a, "look"},
		{"a rule for the beginning of the command, which writes", beginning, "go test ./...", "write", a, "work"},
		{"rules for the beginning, and one to write a file", writes, "go list ./... > out", "", a, "work"},
		{"denied for good", standard, "sudo ls", "", d, ""},
		{"denied", denies, "git push", "", d, ""},
		{"denied, perhaps", denies, "$X push", "", k, "look"},
		{"denied by the preset, perhaps", standard, "$X -rf /", "", a, "look"},
		{"reads, and nothing may be read", noRead, "make", "", k, "look"},
		{"reads nothing, and nothing may be read", noRead, "true", "", a, "look"},
		{"no such access", standard, "ls", "all", k, "work"},
		{"no rule that lets look", preset(t, "none", permission.Config{}), "ls", "", k, "work"},
		{"a default that allows", preset(t, "permissive", permission.Config{}), "make", "", a, "work"},
		{"restrictive", preset(t, "restrictive", permission.Config{}), "ls", "", d, ""},
		{"read_only", preset(t, "read_only", permission.Config{}), "ls", "", d, ""},
	} {
		v := permission.Chain{{Policy: c.policy, Memory: new(permission.Memory)}}.Judge(on(bash(c.command), c.access))
		if v.Action != c.want || c.want != d && v.Box != c.box {
			t.Errorf("%s: %q with access %q: %v in box %q (%s), want %v in %q", c.name, c.command, c.access, v.Action, v.Box, v.Why, c.want, c.box)
		}
		if v.Action == a && v.Plan.Script == "" {
			t.Errorf("%s: there is nothing to run", c.name)
		}
	}
}

// The box of a chain is the narrowest of its links, also for what a person allows.
func TestBoxOfChainIsTheNarrowest(t *testing.T) {
	standard := permission.Link{Name: "parent", Policy: preset(t, "standard", permission.Config{})}
	permissive := permission.Link{Name: "child", Policy: preset(t, "permissive", permission.Config{})}
	asks := permission.Link{Name: "child", Policy: preset(t, "none", permission.Config{})}
	for _, c := range []struct {
		chain permission.Chain
		want  permission.Action
	}{{permission.Chain{standard, permissive}, permission.Allow}, {permission.Chain{permissive, standard}, permission.Allow},
		{permission.Chain{standard, asks}, permission.Ask}} {
		if v := c.chain.Judge(on(bash("make"), "")); v.Action != c.want || v.Box != permission.BoxLook {
			t.Errorf("%s, %s: %v in %q, want %v in look", c.chain[0].Name, c.chain[1].Name, v.Action, v.Box, c.want)
		}
	}
}

// Who is asked about a command reads that it would have the network, whatever else it is asked about for.
func TestQuestionTellsOfTheNetwork(t *testing.T) {
	for _, policy := range []permission.Policy{preset(t, "standard", permission.Config{}), preset(t, "permissive", permission.Config{}),
		preset(t, "standard", permission.Config{Deny: permission.Rules("Bash(git push:*)")})} {
		for _, command := range []string{"curl x", "$X push"} {
			if v := (permission.Chain{{Policy: policy, Memory: new(permission.Memory)}}).Judge(on(bash(command),
				"network")); v.Action != permission.Ask || !strings.Contains(v.Why, "network") {
				t.Errorf("%s: %v: %s", command, v.Action, v.Why)
			}
		}
	}
}

// An answer is for the box in which the command was to run.
func TestAnswerKeepsTheBoxOfItsQuestion(t *testing.T) {
	p, memory := preset(t, "standard", permission.Config{Deny: permission.Rules("Bash(evil:*)")}), new(permission.Memory)
	chain := permission.Chain{{Policy: p, Memory: memory}}
	const unsure = `python3 -c 'print("evil")'`
	call := func(access string) permission.Call { return on(bash(unsure), access) }
	if v := chain.Judge(call("")); v.Action != permission.Ask || v.Box != permission.BoxLook {
		t.Fatalf("%v in %q: %s", v.Action, v.Box, v.Why)
	}
	for _, access := range []string{"", "write"} {
		memory.Remember(call(access), p, permission.Allow)
	}
	for access, want := range map[string]permission.Box{"": permission.BoxLook, "write": permission.BoxWork} {
		if v := chain.Judge(call(access)); v.Action != permission.Allow || v.Box != want {
			t.Errorf("access %q: %v in %q, want %q", access, v.Action, v.Box, want)
		}
	}
}

// An answer "from now on" is for the box that was asked for.
func TestKeyOfCallNamesItsBox(t *testing.T) {
	if look, network := on(bash("curl x"), "").Key(), on(bash("curl x"), "network").Key(); look == network {
		t.Error("one key for both")
	}
	call := on(bash("curl x"), "network")
	granted := permission.Link{Policy: preset(t, "standard", permission.Config{}), Memory: new(permission.Memory),
		Granted: func() []permission.Grant {
			return []permission.Grant{{Call: call.Key(), Source: "lasting:1"}}
		}}
	if v := (permission.Chain{granted}).Judge(call); v.Action != permission.Allow || v.Box != permission.BoxNetwork {
		t.Errorf("what a person allowed: %v in %q (%s)", v.Action, v.Box, v.Why)
	}
}

// Where the work box would not hold commands, no rule for it allows them.
func TestCommandsThatTheWorkBoxDoesNotHoldAreAsked(t *testing.T) {
	chain := permission.Chain{{Policy: preset(t, "workspace", permission.Config{}), Memory: new(permission.Memory)}}
	for access, want := range map[string]permission.Action{"": permission.Allow, "look": permission.Allow, "write": permission.Ask} {
		c := on(bash("make"), access)
		c.HasBox = func(b permission.Box) bool { return b == permission.BoxLook }
		if v := chain.Judge(c); v.Action != want || want == permission.Allow && v.Box != permission.BoxLook {
			t.Errorf("access %q: %v in %q", access, v.Action, v.Box)
		}
	}
}

// Where no box holds commands, only programs that read run unasked, with what Read may read.
func TestOnlyPlainCommandsLookUnheld(t *testing.T) {
	p := preset(t, "standard", permission.Config{Deny: permission.Rules("Read(.env)")})
	for command, want := range map[string]permission.Action{
		"ls -la": permission.Allow, "cat a.go | head -n 3": permission.Allow, "git branch": permission.Allow, "pwd && echo done": permission.Allow,
		"cat .env": permission.Deny, "cat ~/.ssh/id_rsa": permission.Ask, "ls $HOME": permission.Ask, "git -c a=b status": permission.Ask, "git log": permission.Ask, "cat x > y": permission.Ask,
		"find . -delete": permission.Ask, "LD_PRELOAD=x ls": permission.Ask, "cd / && ls": permission.Ask, "./ls": permission.Ask, "make": permission.Ask, "ls --color=x": permission.Ask,
		"git status": permission.Ask, "hostname x": permission.Ask, "cat /proc/1/environ": permission.Ask, "cat ../x": permission.Ask, "cat sub/../a.go": permission.Allow, "ls /": permission.Ask,
	} {
		if v := (permission.Chain{{Policy: p}}).Judge(bash(command)); v.Action != want {
			t.Errorf("%s: %v (%s), want %v", command, v.Action, v.Why, want)
		}
	}
}

// A link in the working directory leads where it does for the kernel, also before a "..".
func TestPlainCommandsStayInTheirDirectory(t *testing.T) {
	p, dir, beside := preset(t, "standard", permission.Config{}), t.TempDir(), t.TempDir()
	if err := errors.Join(os.Symlink(beside, filepath.Join(dir, "out")), os.Symlink(dir, filepath.Join(beside, "back")),
		os.Mkdir(filepath.Join(dir, "sub"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]permission.Action{
		"cat out/key": permission.Ask, "cat out/../shadow": permission.Ask, "ls out": permission.Ask, "cat sub/../a": permission.Allow, "cat out/back/a": permission.Allow, "ls " + dir: permission.Allow,
	} {
		c := bash(command)
		c.Dir = dir
		if v := (permission.Chain{{Policy: p}}).Judge(c); v.Action != want {
			t.Errorf("%s: %v (%s), want %v", command, v.Action, v.Why, want)
		}
	}
}

func TestRulesOfBoxes(t *testing.T) {
	for text, want := range map[string]string{"Bash(box:look)": "", "Git(box:work)": "", "Bash(box:network)": "no box",
		"Bash(box:)": "no box"} {
		if _, err := permission.ParseAllow(text); want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := (permission.Config{Deny: permission.Rules("Bash(box:look)")}).Policy(); err == nil ||
		!strings.Contains(err.Error(), "allow list") {
		t.Errorf("a denial: %v", err)
	}
	if _, err := permission.ParseGrant("Bash(box:work)"); err == nil {
		t.Error("a skill is granted every command")
	}
}

// A file that a rule denies by its name alone is kept from commands also where another directory is shown.
func TestDeniedNamesAreHiddenInWhatIsShown(t *testing.T) {
	data, err := filepath.EvalSymlinks(t.TempDir())
	if err := errors.Join(err, os.Mkdir(filepath.Join(data, "sub"), 0o755),
		os.WriteFile(filepath.Join(data, "sub", ".env"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	p := preset(t, "standard", permission.Config{Allow: permission.Rules("Read(" + data + "/*)"), Deny: permission.Rules("Read(.env)")})
	c := on(bash("ls"), "")
	c.Dir = t.TempDir()
	if plan := judged(p, c).Plan; len(plan.Reads) != 1 ||
		!slices.Equal(plan.Denied.Files().Hidden, []string{filepath.Join(data, "sub", ".env")}) {
		t.Errorf("it reads %q, without %q", plan.Reads, plan.Denied.Files().Hidden)
	}
}

// Directories that rules allow to Read are there in the box that looks, if all links agree.
func TestLookBoxShowsWhatReadMayRead(t *testing.T) {
	reads := permission.Link{Policy: preset(t, "standard",
		permission.Config{Allow: permission.Rules("Read(/srv/data/*)", "Read(/srv/*.txt)", "Read(/nowhere/work/data/*)")})}
	narrow := permission.Link{Policy: preset(t, "none", permission.Config{Allow: permission.Rules("Bash", "Read(./*)")})}
	if v := (permission.Chain{reads}).Judge(on(bash("ls"), "")); len(v.Plan.Reads) != 1 || v.Plan.Reads[0] != "/srv/data" {
		t.Errorf("%q, want /srv/data", v.Plan.Reads)
	}
	if v := (permission.Chain{reads, narrow}).Judge(on(bash("ls"), "")); len(v.Plan.Reads) != 0 {
		t.Errorf("%q, want nothing", v.Plan.Reads)
	}
}
