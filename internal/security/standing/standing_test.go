package standing_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"symbio/internal/security/standing"
	"symbio/security/permission"
)

const dir = "/work/shop"

var (
	scope = strings.Repeat("ab", 32)
	other = strings.Repeat("cd", 32)
)

func open(t *testing.T, file string) *standing.Book {
	t.Helper()
	b, err := standing.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// exact is what lasts of commands.
func exact(t *testing.T, commands ...string) (all []permission.Grant) {
	t.Helper()
	for _, command := range commands {
		c := permission.Call{Tool: "Bash", Args: map[string]any{"command": command}, Dir: dir}
		if all = append(all, permission.Grant{Call: c.Key()}); c.Key() == "" {
			t.Fatal(command)
		}
	}
	return all
}

func keep(t *testing.T, b *standing.Book, scope, dir string, granted []permission.Grant) {
	t.Helper()
	for _, g := range granted {
		if err := b.Keep(standing.Entry{Call: g.Call, Scope: scope, Dir: dir, Shown: "the call", By: "terminal"}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLastingApprovalSurvivesRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "allowed.json")
	call := permission.Call{Tool: "WebFetch", Args: map[string]any{"url": "https://example.com/"}, Dir: dir}
	keep(t, open(t, file), scope, dir, append(exact(t, "git push", "git status"), permission.Grant{Call: call.Key()}))
	b := open(t, file)
	keep(t, b, scope, dir, exact(t, "git push")) // again
	if got := b.Entries(); len(got) != 3 || got[0].Shown != "the call" || got[2].Call != call.Key() || got[2].Shown != "the call" ||
		got[0].By != "terminal" {
		t.Fatalf("kept are %+v", got)
	}
	push := permission.Call{Tool: "Bash", Args: map[string]any{"command": "git push"}, Dir: dir}
	force := permission.Call{Tool: "Bash", Args: map[string]any{"command": "git push --force"}, Dir: dir}
	elsewhere := permission.Call{Tool: "WebFetch", Args: call.Args, Dir: "/work"}
	another := permission.Call{Tool: "WebFetch", Args: map[string]any{"url": "https://example.com/x"}, Dir: dir}
	judge := func(c permission.Call, scope, at string) permission.Verdict {
		p := permission.Policy{Default: permission.Ask}
		return permission.Chain{{Policy: p, Granted: func() []permission.Grant { return b.Granted(scope, at, "") }}}.Judge(c)
	}
	for _, tt := range []struct {
		name      string
		call      permission.Call
		scope, at string
		want      permission.Action
	}{
		{"the command", push, scope, dir, permission.Allow},
		{"the call", call, scope, dir, permission.Allow},
		{"another option", force, scope, dir, permission.Ask},
		{"another URL", another, scope, dir, permission.Ask},
		{"another policy", push, other, dir, permission.Ask},
		{"another policy for the call", call, other, dir, permission.Ask},
		{"another directory", push, scope, "/work", permission.Ask},
		{"the call in another directory", elsewhere, scope, dir, permission.Ask},
	} {
		v := judge(tt.call, tt.scope, tt.at)
		if v.Action != tt.want || tt.want == permission.Allow && !strings.HasPrefix(v.Source, "lasting:") {
			t.Errorf("%s: got %v by %q, want %v", tt.name, v.Action, v.Source, tt.want)
		}
	}
	for _, e := range b.Entries() {
		if ok, err := b.Forget(e.ID); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if ok, _ := b.Forget(e.ID); ok {
			t.Error("forgotten twice")
		}
	}
	if v := judge(push, scope, dir); v.Action != permission.Ask || len(open(t, file).Entries()) != 0 {
		t.Errorf("after it was taken back: %v", v.Action)
	}
}

func TestLastingApprovalLiftsNoDenial(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "allowed.json"))
	call := permission.Call{Tool: "Write", Args: map[string]any{"file_path": "a", "content": "x"}, Dir: dir}
	push := permission.Call{Tool: "Bash", Args: map[string]any{"command": "git push"}, Dir: dir}
	keep(t, b, scope, dir, append(exact(t, "git push"), permission.Grant{Call: call.Key()}))
	granted := func() []permission.Grant { return b.Granted(scope, dir, "") }
	var rules []permission.Rule
	for _, text := range []string{"Bash(git push:*)", "Edit(./*)"} {
		r, err := permission.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	for _, c := range []permission.Call{call, push} {
		for name, p := range map[string]permission.Policy{
			"deny": {Deny: rules, Default: permission.Ask}, "final deny": {FinalDeny: rules, Default: permission.Ask},
		} {
			if v := (permission.Chain{{Policy: p, Granted: granted}}).Judge(c); v.Action != permission.Deny {
				t.Errorf("%s, %s: got %v", c.Tool, name, v.Action)
			}
		}
		inner := c
		inner.Within = []permission.Guardrail{{Deny: rules}}
		if v := (permission.Chain{{Policy: permission.Policy{Default: permission.Ask},
			Granted: granted}}).Judge(inner); v.Action != permission.Deny {
			t.Errorf("%s, in a guardrail: got %v", c.Tool, v.Action)
		}
	}
}

func TestOnlyExactThingsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "allowed.json")
	b := open(t, file)
	for name, g := range map[string]permission.Grant{"nothing": {}, "no key": {Call: "Write"}, "a key of another form": {Call: "Write *"}} {
		if b.Keep(standing.Entry{Call: g.Call, Scope: scope, Dir: dir}) == nil {
			t.Errorf("%s was kept", name)
		}
	}
	key := exact(t, "ls -l")[0].Call
	for name, e := range map[string]standing.Entry{
		"no directory": {Call: key, Scope: scope, Dir: "shop"}, "no policy": {Call: key, Scope: "x", Dir: dir}, "a call and rules": {Call: key, Rules: []string{"Write"}, Scope: scope, Dir: dir},
		"what is no rule": {Rules: []string{"Write("}, Scope: scope, Dir: dir}, "a rule that allows nothing": {Rules: []string{"Bash(git * x:*)"}, Scope: scope, Dir: dir},
	} {
		if b.Keep(e) == nil {
			t.Errorf("%s: kept", name)
		}
	}
	if _, err := os.Stat(file); err == nil || len(b.Entries()) != 0 {
		t.Error("something was written")
	}
}

// Rules for a session hold for its agent until it ends, and are in no file; lasting ones are.
func TestRulesHoldForTheSessionOrFromNowOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "allowed.json")
	b := open(t, file)
	session := standing.Entry{Rules: []string{"Write(./*)", "Bash(go test:*)"}, Agent: "ann", Scope: scope, Dir: dir,
		Shown: "Write(./*), Bash(go test:*)"}
	lasting := session
	lasting.Agent, lasting.Shown, lasting.Rules = "", "", []string{"WebFetch(domain:go.dev)"}
	for _, e := range []standing.Entry{session, session, lasting} {
		if err := b.Keep(e); err != nil {
			t.Fatal(err)
		}
	}
	call := permission.Call{Tool: "Write", Args: map[string]any{"file_path": "a"}, Dir: dir}
	fetch := permission.Call{Tool: "WebFetch", Args: map[string]any{"url": "https://go.dev/"}, Dir: dir}
	source := func(b *standing.Book, c permission.Call, agent string) string {
		p := permission.Policy{Default: permission.Ask}
		v := permission.Chain{{Policy: p, Granted: func() []permission.Grant { return b.Granted(scope, dir, agent) }}}.Judge(c)
		kind, _, _ := strings.Cut(v.Source, ":")
		return kind
	}
	checks := func(when string, b *standing.Book, anns string) {
		t.Helper()
		for agent, want := range map[string]string{"ann": anns, "bob": "", "": ""} {
			if got := source(b, call, agent); got != want {
				t.Errorf("%s: allowed to %q by %q, want %q", when, agent, got, want)
			}
			if got := source(b, fetch, agent); got != "lasting" {
				t.Errorf("%s: the lasting rule allows %q by %q", when, agent, got)
			}
		}
	}
	checks("kept", b, "session")
	if all := b.Entries(); len(all) != 2 || all[0].Agent != "ann" {
		t.Errorf("kept are %+v", all)
	}
	checks("after a restart", open(t, file), "")
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "go test") || strings.Contains(string(text), "ann") {
		t.Errorf("the file: %s, %v", text, err)
	}
	b.End("bob")
	b.End("")
	checks("another agent has ended", b, "session")
	b.End("ann")
	checks("the agent has ended", b, "")
	if err := b.Keep(session); err != nil {
		t.Fatal(err)
	}
	for _, e := range b.Entries() {
		if e.Agent == "" {
			continue
		}
		if ok, err := b.Forget(e.ID); !ok || err != nil {
			t.Error(ok, err)
		}
	}
	checks("taken back", b, "")
}

func TestFullBookTakesNoMore(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "allowed.json"))
	var all []permission.Grant
	for i := range standing.MaxEntries {
		c := permission.Call{Tool: "T", Args: map[string]any{"n": i}, Dir: dir}
		all = append(all, permission.Grant{Call: c.Key()})
	}
	keep(t, b, scope, dir, all)
	if err := b.Keep(standing.Entry{Call: exact(t, "ls -l")[0].Call, Scope: scope, Dir: dir}); !errors.Is(err, standing.ErrFull) ||
		len(b.Entries()) != standing.MaxEntries {
		t.Errorf("got %v", err)
	}
}

func TestFileThatIsNotAsItWasWrittenCountsForNothing(t *testing.T) {
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "allowed.json")
	keep(t, open(t, file), scope, dir, exact(t, "git push"))
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	replaced := func(old, new string) string { return strings.Replace(string(good), old, new, 1) }
	for name, text := range map[string]string{
		"no call":       replaced(`"Bash `, `"Bash(git:*) `),
		"a rule":        replaced(`"call"`, `"rule"`),
		"no rules":      replaced(`"Bash `, `"", "rules": [], "shown": "`),
		"unknown key":   replaced(`"by"`, `"bye"`),
		"another form":  replaced(`"format": 2`, `"format": 1`),
		"cut off":       string(good[:len(good)-3]),
		"something new": string(good) + "{}",
		"no directory":  replaced(dir, "shop"),
		"no scope":      replaced(scope, "x"),
		"empty":         "",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := standing.Open(file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %v, want an error that names the file", name, err)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{file: 0o640, folder: 0o770} {
		was, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := standing.Open(file); err == nil || !strings.Contains(err.Error(), "chmod") {
			t.Errorf("%s of mode %o: got %v", path, mode, err)
		}
		if err := os.Chmod(path, was.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	open(t, file)
	if err := os.Symlink(file, file+".link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := standing.Open(file); err == nil {
		t.Error("a directory was read")
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte(`{"format":2,"entries":[]}`))
	f.Add([]byte(`{"format":2,"entries":[{"id":"abcdef","call":"Bash ` + scope + `","shown":"","dir":"/","scope":"` + scope + `","since":"2026-01-01T00:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), "allowed.json")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := standing.Open(file)
		if err != nil {
			return
		}
		for _, e := range b.Entries() {
			if !strings.Contains(e.Call, " ") && len(b.Granted(e.Scope, e.Dir, "")) == 0 {
				t.Errorf("%+v counts", e)
			}
			if _, err := json.Marshal(e); err != nil {
				t.Error(err)
			}
		}
	})
}
