package packages_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/internal/agent/tool/mcp/packages"
	"symbio/security/sandbox"
)

// The stand-ins of the package managers write the lock that lies beside them, and install programs.
const (
	npm = `#!/bin/sh
at=$(dirname "$0")
echo "$* $(cat package.json) git is $npm_config_git" >>"$at/calls"
case $1 in
install) cat "$at/lock" >package-lock.json ;;
ci)
	mkdir -p .cache node_modules/.bin node_modules/@a/b
	cat "$at/manifest" >node_modules/@a/b/package.json
	echo "#!/bin/sh" >node_modules/.bin/prog
;;
esac
`
	uv = `#!/bin/sh
at=$(dirname "$0")
echo "$* $(cat requirements.in)" >>"$at/calls"
case "$1 $2" in
"pip compile") cat "$at/lock" >requirements.txt ;;
"pip sync") mkdir -p .venv/bin && echo "#!/bin/sh" >.venv/bin/a_b ;;
esac
`
	manifest = `{"bin": {"prog": "x.js"}}`
)

// lockOf returns a package-lock.json with @a/b and what it needs.
func lockOf(version string, more ...string) string {
	all := []string{`"": {}`, fmt.Sprintf(`"node_modules/@a/b": {"version": %q, "integrity": "sha512-%[1]s"}`, version)}
	return `{"packages": {` + strings.Join(append(all, more...), ", ") + `}}`
}

// standIn makes a package manager, and returns an Installer that finds it, and its directory.
func standIn(t *testing.T, name, script, lock string) (packages.Installer, string) {
	t.Helper()
	bin := t.TempDir()
	for file, text := range map[string]string{name: script, "lock": lock, "manifest": manifest} {
		write(t, filepath.Join(bin, file), text)
	}
	if err := os.Chmod(filepath.Join(bin, name), 0o700); err != nil {
		t.Fatal(err)
	}
	path := bin + string(filepath.ListSeparator) + os.Getenv("PATH")
	t.Setenv("PATH", path)
	box := sandbox.Probe(t.Context(), sandbox.Config{Levels: []sandbox.Level{sandbox.Off}, Env: []string{"PATH=" + path}})
	return packages.Installer{Store: packages.Store{Dir: filepath.Join(real(t, t.TempDir()), "packages")}, Box: box, Home: t.TempDir()}, bin
}

// real returns a path without links.
func real(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func parse(t *testing.T, words ...string) packages.Package {
	t.Helper()
	p, _, err := packages.Parse(words[0], words[1:])
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// install resolves and installs.
func install(t *testing.T, in packages.Installer, p packages.Package) (*packages.Plan, error) {
	t.Helper()
	plan, err := in.Resolve(t.Context(), p)
	if err != nil {
		return nil, err
	}
	defer plan.Discard()
	return plan, plan.Install(t.Context())
}

// dirs counts the directories with packages.
func dirs(t *testing.T, in packages.Installer) int {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(in.Store.Dir, "*-*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestInstallKeepsLockAndStartsFromStore(t *testing.T) {
	in, bin := standIn(t, "npm", npm, lockOf("1.0.0"))
	entry := []string{"npx", "-y", "@a/b", "--port", "1"}
	if got := in.Store.Argv(entry[0], entry[1:]); got != nil {
		t.Errorf("before it is installed: %q", got)
	}
	plan, err := in.Resolve(t.Context(), parse(t, entry...))
	if err != nil {
		t.Fatal(err)
	}
	if plan.After.Version != "1.0.0" || plan.After.Integrity != "sha512-1.0.0" || plan.Before.Version != "" || plan.Count != 1 {
		t.Errorf("the plan: %+v", plan)
	}
	plan.Discard() // a no
	if n := dirs(t, in); n != 0 || in.Store.Argv(entry[0], entry[1:]) != nil {
		t.Errorf("after a no there are %d directories", n)
	}
	first, err := install(t, in, parse(t, entry...))
	if err != nil {
		t.Fatal(err)
	}
	got := in.Store.Argv(entry[0], entry[1:])
	if len(got) != 3 || !slices.Equal(got[1:], []string{"--port", "1"}) || !strings.HasSuffix(got[0], first.After.Dir+"/node_modules/.bin/prog") {
		t.Errorf("it runs %q", got)
	}
	if _, err := os.Stat(got[0]); err != nil {
		t.Error(err)
	}
	if other := in.Store.Argv("npx", []string{"@a/b@2"}); other != nil {
		t.Errorf("another version runs %q without a yes", other)
	}
	policy := in.Store.Admit(sandbox.Policy{})
	if want := (sandbox.Files{Read: []string{in.Store.Dir}, Show: []string{in.Store.Dir}, Denied: sandbox.DeniedFiles{ReadOnly: []string{in.Store.Dir}}}); cmp.Diff(want, policy.Files) != "" {
		t.Errorf("the server may use %+v", policy.Files)
	}

	// An update says what changes. The directory before it stays for a server that still runs.
	write(t, filepath.Join(bin, "lock"), lockOf("1.1.0", `"node_modules/c": {"version": "3.0.0", "integrity": "sha512-c"}`))
	for i, want := range [][]string{{"@a/b: 1.0.0 -> 1.1.0", "c: none -> 3.0.0"}, nil} {
		second, err := install(t, in, parse(t, entry...))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, second.Changes); diff != "" || dirs(t, in) != 2 {
			t.Errorf("update %d, with %d directories: (-want +got)\n%s", i, dirs(t, in), diff)
		}
	}

	// One that is gone is not installed.
	if err := os.Remove(in.Store.Argv(entry[0], entry[1:])[0]); err != nil {
		t.Fatal(err)
	}
	again, err := install(t, in, parse(t, entry...))
	if err != nil || again.Before.Version != "" || in.Store.Argv(entry[0], entry[1:]) == nil {
		t.Errorf("after it was gone: %+v, %v", again, err)
	}
	calls, err := os.ReadFile(filepath.Join(bin, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(calls)) {
		for _, want := range []string{"--allow-git=none", "--allow-remote=none", "--omit-lockfile-registry-resolved", "git is /nonexistent"} {
			if !strings.Contains(line, want) {
				t.Errorf("npm was called without %s: %s", want, line)
			}
		}
		if !strings.Contains(line, "--ignore-scripts") || !strings.Contains(line, `"dependencies": {"@a/b": "latest"}`) {
			t.Errorf("npm was called as %s", line)
		}
	}
}

func TestInstallByUV(t *testing.T) {
	in, bin := standIn(t, "uv", uv, "a-b==1.2 \\\n    --hash=sha256:x \\\n    --hash=sha256:y\nc==3 ; python_version < '4' \\\n    --hash=sha256:z\n")
	plan, err := install(t, in, parse(t, "uvx", "--from", "A_b[x]>=1", "a_b"))
	if err != nil {
		t.Fatal(err)
	}
	if plan.After.Version != "1.2" || plan.After.Integrity != "sha256:x" || plan.Count != 2 {
		t.Errorf("the plan: %+v", plan)
	}
	if got := in.Store.Argv("uvx", []string{"--from", "A_b[x]>=1", "a_b", "z"}); len(got) != 2 || !strings.HasSuffix(got[0], "/.venv/bin/a_b") {
		t.Errorf("it runs %q", got)
	}
	calls, err := os.ReadFile(filepath.Join(bin, "calls"))
	if err != nil || strings.Count(string(calls), "--no-build") != 2 || !strings.Contains(string(calls), "--require-hashes") || !strings.Contains(string(calls), "A_b[x]>=1\n") {
		t.Errorf("uv was called as %s, %v", calls, err)
	}
}

func TestVersionIsNoPartOfTheName(t *testing.T) {
	for version, want := range map[string]string{"@1.2": "a==1.2", "@v1.2": "a==v1.2", "==1.2": "a==1.2", "~=1": "a~=1", "": "a"} {
		in, bin := standIn(t, "uv", uv, "a==1.2 --hash=sha256:x\n")
		_, _ = install(t, in, parse(t, "uvx", "a"+version)) // the call counts
		calls, err := os.ReadFile(filepath.Join(bin, "calls"))
		if first, _, _ := strings.Cut(string(calls), "\n"); err != nil || !strings.HasSuffix(first, " "+want) {
			t.Errorf("a%s: uv was called as %q, %v", version, first, err)
		}
	}
}

func TestInstallRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		script, lock, entry string
		files               map[string]string
		want                string
	}{
		"package of a repository":  {npm, lockOf("1", `"node_modules/c": {"version": "1", "resolved": "git+ssh://x/c"}`), "npx @a/b", nil, "node_modules/c is not from a registry"},
		"package of an address":    {npm, lockOf("1", `"node_modules/c": {"version": "1", "integrity": "x", "resolved": "http://x/c.tgz"}`), "npx @a/b", nil, "node_modules/c is not from a registry"},
		"lock in a package":        {npm, lockOf("1", `"node_modules/c": {"version": "1", "integrity": "x", "hasShrinkwrap": true}`), "npx @a/b", nil, "npm-shrinkwrap.json"},
		"without a hash":           {npm, lockOf("1", `"node_modules/c": {"version": "1"}`), "npx @a/b", nil, "the package c comes without a hash"},
		"linked directory":         {npm, lockOf("1", `"node_modules/c": {"resolved": "../..", "link": true}`), "npx @a/b", nil, "node_modules/c is not from a registry"},
		"directory of the machine": {npm, lockOf("1", `"../../c": {"version": "1", "integrity": "x"}`), "npx @a/b", nil, "../../c is not from a registry"},
		"without the package":      {npm, lockOf("1"), "npx c", nil, "does not have c"},
		"no lock":                  {"#!/bin/sh\n", "", "npx @a/b", nil, "package-lock.json"},
		"link as lock":             {"#!/bin/sh\nln -s /dev/zero package-lock.json\n", "", "npx @a/b", nil, "no regular file"},
		"no such program":          {npm, lockOf("1"), "npx -p @a/b other", nil, `has no program "other"`},
		"program elsewhere":        {npm, lockOf("1"), "npx @a/b", map[string]string{"manifest": `{"bin": {"../../../../../../bin/sh": "x"}}`}, "has no program"},
		"repository, by uv":        {uv, "a @ git+https://x/a\n", "uvx a", nil, "is not from a registry"},
		"without a hash, by uv":    {uv, "a==1\n", "uvx a", nil, "the package a comes without a hash"},
		"option in the lock of uv": {uv, "--index-url http://x\na==1 --hash=x\n", "uvx a", nil, "is not from a registry"},
		"other lock at the end":    {npm + `[ "$1" = install ] || echo '{}' >package-lock.json`, lockOf("1"), "npx @a/b", nil, "not what you were asked about"},
		"manager fails":            {"#!/bin/sh\nprintf 'no \\033]0 route\\n to the registry' >&2\nexit 7\n", "", "npx @a/b", nil, "npm install failed with status 7: no \\x1b]0 route\n to the registry"},
	} {
		t.Run(name, func(t *testing.T) {
			manager := "npm"
			if test.script == uv {
				manager = "uv"
			}
			in, bin := standIn(t, manager, test.script, test.lock)
			for file, text := range test.files {
				write(t, filepath.Join(bin, file), text)
			}
			_, err := install(t, in, parse(t, strings.Fields(test.entry)...))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if n := dirs(t, in); n != 0 {
				t.Errorf("%d directories are left", n)
			}
			if _, err := fs.ReadDir(os.DirFS(in.Store.Records()), "."); err == nil {
				t.Error("there is a record")
			}
		})
	}
}

func TestResolveNamesMissingManager(t *testing.T) {
	in, bin := standIn(t, "npm", npm, "")
	t.Setenv("PATH", bin)
	if _, err := in.Resolve(t.Context(), parse(t, "pipx", "run", "a")); err == nil || !strings.Contains(err.Error(), "uv, which installs a, is not on this machine: install it") {
		t.Errorf("got %v", err)
	}
}
