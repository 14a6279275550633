package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"symbio/security/sandbox"
)

// gitHome is an environment for git of no user: without the housekeeping after a commit, and without waiting for
// the disk, git takes half as long.
func gitHome(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CONFIG_HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "GIT_EDITOR=true",
		"GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=a@b", "GIT_TERMINAL_PROMPT=0",
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=maintenance.auto", "GIT_CONFIG_VALUE_0=false", "GIT_CONFIG_KEY_1=core.fsync", "GIT_CONFIG_VALUE_1=none"}
}

// outside runs a line of shell as the user.
func outside(dir, home, line string) string {
	c := exec.Command("/bin/sh", "-c", line)
	c.Dir, c.Env = dir, gitHome(home)
	out, _ := c.CombinedOutput() // a broken repository may well be refused
	return string(out)
}

// What git executes when the user runs it, and what is needed for that in the working tree.
const everyday = `git status; echo x >>f; git diff; git log -p -1; git commit -q -a -m y; git checkout -q -b other`

// plants are scripts that leave something for git to execute as PAYLOAD. MAKE makes a repository with a commit in a
// directory: a copy, which takes one process and not five.
var plants = []struct{ name, line, in string }{
	{"fsmonitor of a gitlink", `MAKE sub && git -C sub config core.fsmonitor "PAYLOAD; false" && git update-index --add --cacheinfo 160000,$(git -C sub rev-parse HEAD),sub`, "sub"},
	{"fsmonitor of a nested repository", `MAKE sub && git -C sub config core.fsmonitor "PAYLOAD; false"`, "sub"},
	{"hooksPath", `MAKE sub && mkdir hk && printf '#!/bin/sh\nPAYLOAD' >hk/post-checkout && cp hk/post-checkout hk/pre-commit && chmod +x hk/* && git -C sub config core.hooksPath ../hk`, "sub"},
	{"a hook", `MAKE sub && printf '#!/bin/sh\nPAYLOAD' >sub/.git/hooks/post-checkout && chmod +x sub/.git/hooks/post-checkout`, "sub"},
	{"a hook that is a link", `MAKE sub && printf '#!/bin/sh\nPAYLOAD' >evil && chmod +x evil && ln -s ../../../evil sub/.git/hooks/pre-commit`, "sub"},
	{"hooks that are a link", `MAKE sub && mkdir hk && printf '#!/bin/sh\nPAYLOAD' >hk/pre-commit && chmod +x hk/* && rm -r sub/.git/hooks && ln -s ../../hk sub/.git/hooks`, "sub"},
	{"include.path", `MAKE sub && printf '[core]\nfsmonitor = "PAYLOAD; false"\n' >inc && git -C sub config include.path ../../inc`, "sub"},
	{"includeIf", `MAKE sub && printf '[core]\nfsmonitor = "PAYLOAD; false"\n' >inc && git -C sub config includeIf.gitdir:**.path ../../inc`, "sub"},
	{"config.worktree", `MAKE sub && git -C sub config extensions.worktreeConfig true && printf '[core]\nfsmonitor = "PAYLOAD; false"\n' >sub/.git/config.worktree`, "sub"},
	{"a configuration that is a link", `MAKE sub && (cat sub/.git/config; printf '[core]\nfsmonitor = "PAYLOAD; false"\n') >cfg && ln -sf ../../cfg sub/.git/config`, "sub"},
	{"a filter", `MAKE sub && echo '* filter=x' >sub/.gitattributes && git -C sub config filter.x.clean "PAYLOAD; cat" && git -C sub config filter.x.smudge "PAYLOAD; cat"`, "sub"},
	{"a filter process", `MAKE sub && echo '* filter=x' >sub/.git/info/attributes && git -C sub config filter.x.process "PAYLOAD"`, "sub"},
	{"textconv", `MAKE sub && echo '* diff=x' >sub/.gitattributes && git -C sub config diff.x.textconv "PAYLOAD; cat"`, "sub"},
	{"a diff driver", `MAKE sub && echo '* diff=x' >sub/.gitattributes && git -C sub config diff.x.command "PAYLOAD"`, "sub"},
	{"diff.external", `MAKE sub && git -C sub config diff.external "PAYLOAD"`, "sub"},
	{"a pager", `MAKE sub && git -C sub config core.pager "PAYLOAD; cat" && git -C sub config pager.log "PAYLOAD; cat"`, "sub"},
	{"an editor", `MAKE sub && git -C sub config core.editor "PAYLOAD; true"`, "sub"},
	{"gpg", `MAKE sub && git -C sub config commit.gpgsign true && printf '#!/bin/sh\nPAYLOAD' >g && chmod +x g && git -C sub config gpg.program "$PWD/g"`, "sub"},
	{"a bare layout", `mkdir -p bare/objects bare/refs && echo 'ref: refs/heads/main' >bare/HEAD && printf '[core]\nrepositoryformatversion = 0\nbare = false\nworktree = ..\nfsmonitor = "PAYLOAD; false"\n' >bare/config`, "bare"},
	{"a bare layout in a bare layout", `git init -q --bare a/b && mkdir -p a/objects a/refs && mv a/b/HEAD a/HEAD && printf '[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = "PAYLOAD; false"\n' >a/config`, "a"},
	{"a .git file", `MAKE sub && mv sub/.git elsewhere && echo 'gitdir: ../elsewhere' >sub/.git && printf '[core]\nfsmonitor = "PAYLOAD; false"\n' >>elsewhere/config`, "sub"},
	{"a .git link", `MAKE sub && mv sub/.git elsewhere && ln -s ../elsewhere sub/.git && printf '[core]\nfsmonitor = "PAYLOAD; false"\n' >>elsewhere/config`, "sub"},
	{"commondir", `MAKE sub && git init -q --bare other && printf '[core]\nbare = false\nfsmonitor = "PAYLOAD; false"\n' >other/config && echo "$PWD/other" >sub/.git/commondir`, "sub"},
	{"commondir without a HEAD", `MAKE sub && mkdir -p other/objects other/refs && printf '[core]\nbare = false\nfsmonitor = "PAYLOAD; false"\n' >other/config && echo "$PWD/other" >sub/.git/commondir`, "sub"},
	{"a worktree's configuration", `MAKE sub && git -C sub worktree add -q ../tree && git -C sub config extensions.worktreeConfig true && printf '[core]\nfsmonitor = "PAYLOAD; false"\n' >sub/.git/worktrees/tree/config.worktree`, "tree"},
	{"a submodule", `MAKE origin && MAKE super && git -C super -c protocol.file.allow=always submodule --quiet add "$PWD/origin" sub && git -C super/sub config core.fsmonitor "PAYLOAD; false"`, "super/sub"},
	{"a new module's configuration", `MAKE sub && mkdir -p $TOP/.git/modules && mv sub/.git $TOP/.git/modules/new && echo "gitdir: $TOP/.git/modules/new" >sub/.git && printf '[core]\nworktree = ../../../p26/sub\nfsmonitor = "PAYLOAD; false"\n' >>$TOP/.git/modules/new/config && git update-index --add --cacheinfo 160000,$(git -C sub rev-parse HEAD),sub`, "sub"},
	{"a repository that was there", `printf '[core]\n\tfsmonitor = "PAYLOAD; false"\n' >>$TOP/mine/.git/config && printf 'PAYLOAD\n' >>$TOP/mine/.git/hooks/pre-commit`, "../mine"},
	{"where nobody may list", `MAKE sub && printf '[core]\nfsmonitor = "PAYLOAD; false"\n' >>sub/.git/config && chmod 0311 sub`, "sub"},
	{"two settings on one line", `MAKE sub && printf '[core] fsmonitor = "PAYLOAD; false"\n' >>sub/.git/config`, "sub"},
	{"a continued line", `MAKE sub && printf '[user]\nname = a\\\n[user]\n[core]\n  FSMonitor   =PAYLOAD\\;false\n' >>sub/.git/config`, "sub"},
	{"a section of another spelling", `MAKE sub && printf '[CoRe]\n\tfsMonitor="PAYLOAD; false"\r\n' >>sub/.git/config`, "sub"},
}

// fewPlants have one of each mechanism: how repositories are found and disarmed does not depend on the level, but what
// is masked or mounted does.
func fewPlants(name string) bool {
	return slices.Contains([]string{"fsmonitor of a gitlink", "a hook", "a bare layout", "a .git file", "commondir",
		"a new module's configuration", "a repository that was there", "where nobody may list"}, name)
}

func allPlants(string) bool { return true }

// planting is a script that does those that are wanted, each in a directory of its own. Each has its own flag.
func planting(home string, wanted func(name string) bool) string {
	var all strings.Builder
	all.WriteString(`MAKE() { cp -R "$TOP/plain" "$1"; }; TOP=$PWD; `)
	for i, p := range plants {
		if !wanted(p.name) {
			continue
		}
		fmt.Fprintf(&all, "(mkdir p%d; cd p%d; %s) || echo %q failed\n", i, i, strings.ReplaceAll(p.line, "PAYLOAD", "touch "+flagOf(home, i)), p.name)
	}
	return all.String()
}

func flagOf(home string, i int) string { return filepath.Join(home, fmt.Sprintf("FLAG-%d", i)) }

// executed runs everyday commands as the user, and returns which plants git executed.
func executed(dir, home, more string, wanted func(name string) bool) (all []int) {
	_ = outside(dir, home, everyday+more)
	for i, p := range plants {
		if !wanted(p.name) {
			continue
		}
		said := outside(filepath.Join(dir, fmt.Sprintf("p%d", i), p.in), home, everyday+more)
		if _, err := os.Stat(flagOf(home, i)); err == nil {
			all = append(all, i)
		} else if os.Getenv("SHOW") != "" {
			fmt.Println(p.name, said)
		}
	}
	return all
}

// newRepository is a workspace with a repository, and two of the user's own in it: one that has settings and a hook, and
// a plain one to copy.
func newRepository(t *testing.T, home string) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { outside(dir, home, "chmod -R u+rwx .") }) // what a plant closed, an ordinary user cannot remove
	out := outside(dir, home, `set -e; git init -q . && echo f >f && git add f && git commit -q -m x && rm .git/hooks/*
		mkdir plain && cp -R .git f plain && cp -R plain mine && cd mine && git config diff.own.textconv "cat --" && git config alias.st "!git status" && printf '#!/bin/sh\nexit 0\n' >.git/hooks/pre-commit && chmod +x .git/hooks/pre-commit`)
	if out != "" {
		t.Fatal(out)
	}
	return dir
}

func TestPlantsForGitAreNotExecuted(t *testing.T) {
	t.Parallel()
	atEachLevel(t, levels, func(t *testing.T, b *sandbox.Box) {
		t.Parallel()
		wanted := fewPlants
		if b.Status().Level == sandbox.Native {
			wanted = allPlants
		}
		home := t.TempDir()
		dir := newRepository(t, home)
		r, err := sh(t, t.Context(), b, dir, planting(home, wanted))
		if err != nil || r.Code != 0 || r.Stdout.String() != "" {
			t.Fatalf("status %d, %v: %s%s", r.Code, err, r.Stdout, r.Stderr)
		}
		for _, i := range executed(dir, home, "", wanted) {
			t.Errorf("%s was executed", plants[i].name)
		}
		for i, p := range plants {
			if wanted(p.name) && !strings.Contains(p.line, "$TOP") &&
				!strings.Contains(strings.Join(r.Disarmed, "\n"), fmt.Sprintf("/p%d/", i)) {
				t.Errorf("%s: nothing was said", p.name)
			}
		}
	})
}

func TestFilesOfGitAreKept(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	atEachLevel(t, levels, func(t *testing.T, b *sandbox.Box) {
		t.Parallel()
		dir := newRepository(t, home)
		own := func() (all []byte) {
			for _, name := range []string{"mine/.git/config", "mine/.git/hooks/pre-commit"} {
				text, err := os.ReadFile(filepath.Join(dir, name))
				all, _ = append(all, text...), errors.Join(err)
			}
			return all
		}
		before := own()
		r, err := sh(t, t.Context(), b, dir, (`MAKE() { git init -q "$1" && echo f >"$1/f" && git -C "$1" add f && git -C "$1" -c user.email=a@b -c user.name=n commit -q -m x; }; set -e; MAKE a; git -C a config user.name n; git clone -q a b; git -C b checkout -q -b topic; git -C b branch -q -u origin/master || git -C b branch -q -u origin/main
			git clone -q --bare a c.git; git -C a worktree add -q ../w; git -C b -c protocol.file.allow=always submodule --quiet add "$PWD/a" sub; git -C b remote add up https://host.invalid/x
			git -C mine -c user.email=a@b -c user.name=n commit -q --allow-empty -m x; git -C mine branch side`))
		if err != nil || r.Code != 0 || len(r.Disarmed) > 0 {
			t.Fatalf("status %d, %v, disarmed %q: %s", r.Code, err, r.Disarmed, r.Stderr)
		}
		if after := own(); string(after) != string(before) {
			t.Errorf("the user's own is now %s", after)
		}
		// What is set aside is not lost, and the rest of the configuration stays.
		r, err = sh(t, t.Context(), b, dir, `git -C b config core.pager evil; git -C mine config core.editor evil; git -C mine config user.name other`)
		if err != nil || len(r.Disarmed) != 2 {
			t.Fatalf("%v, disarmed %q: %s", err, r.Disarmed, r.Stderr)
		}
		if got := outside(dir, home, `git -C b config core.pager; git -C b remote get-url up; git -C b rev-parse --abbrev-ref topic@{u} | cut -c1-7; git -C b submodule status | cut -c43-45; git -C mine config core.editor; git -C mine config user.name; git -C mine config alias.st; grep -c evil b/.git/config.set-aside-1`); got != "https://host.invalid/x\norigin/\nsub\nother\n!git status\n1\n" {
			t.Errorf("the repositories say %q", got)
		}
	})
}

// Two commands at the same time cannot vouch for each other.
func TestPlantOfConcurrentCommandIsDisarmed(t *testing.T) {
	home := t.TempDir()
	b := box(t, sandbox.Native)
	dir := newRepository(t, home)
	p, err := sandbox.Standard(dir)
	if err != nil {
		t.Fatal(err)
	}
	first, err := b.Start(t.Context(), p, sandbox.Spec{Argv: []string{"/bin/sh", "-c", `git init -q sub; git -C sub config core.fsmonitor evil; echo; read -r _`}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r, err := sh(t, t.Context(), b, dir, "true")
	if err != nil || len(r.Disarmed) != 1 {
		t.Errorf("the second ended with %v and disarmed %q", err, r.Disarmed)
	}
	first.Stdin.Close()
	if _, err := first.Wait(); err != nil {
		t.Error(err)
	}
	if got := outside(dir, home, "git -C sub config core.fsmonitor"); got != "" {
		t.Errorf("fsmonitor is %q", got)
	}
}

func TestTooManyDirectoriesAreNotTrusted(t *testing.T) {
	b, dir := box(t, sandbox.Native), t.TempDir()
	deep := dir + strings.Repeat("/d", 300)
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := sh(t, t.Context(), b, dir, "true"); !errors.Is(err, sandbox.ErrNotStarted) ||
		!strings.Contains(err.Error(), "nested deeper") {
		t.Errorf("it ended with %v", err)
	}
}

// BenchmarkWalk is the cost of 50,000 directories for a command that does nothing.
func BenchmarkWalk(b *testing.B) {
	x, dir := sandbox.Probe(b.Context(), sandbox.Config{}), b.TempDir()
	for i := range 500 {
		for j := range 100 {
			if err := os.MkdirAll(fmt.Sprintf("%s/%d/%d", dir, i, j), 0o755); err != nil {
				b.Fatal(err)
			}
		}
	}
	p, err := sandbox.Standard(dir)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := x.Run(b.Context(), p, sandbox.Spec{Argv: []string{"/bin/true"}, Dir: dir}); err != nil {
			b.Fatal(err)
		}
	}
}

// A git that runs in a sandbox executes nothing that a repository names, even before it is disarmed.
func TestGitIsHardenedByItsEnvironment(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	atEachLevel(t, every, func(t *testing.T, b *sandbox.Box) {
		dir := newRepository(t, home)
		r, err := sh(t, t.Context(), b, dir, `evil() { git config core.fsmonitor "touch $PWD/FLAG; false"; git config core.pager "touch $PWD/FLAG"; git config core.editor "touch $PWD/FLAG; true"
			git config core.sshCommand "touch $PWD/FLAG; false"; git config protocol.ext.allow always; mkdir -p hk; printf '#!/bin/sh\ntouch FLAG' >hk/pre-commit; chmod +x hk/*; git config core.hooksPath "$PWD/hk"; }
			cd mine; evil; git status; git -p log -1; git -c user.name=n -c user.email=a@b commit -q --allow-empty --amend -C HEAD; git -c user.name=n -c user.email=a@b commit -q --allow-empty --amend; git ls-remote ssh://h/x; git ls-remote "ext::touch FLAG"
			cd ..; mkdir -p bare/objects bare/refs; echo 'ref: refs/heads/main' >bare/HEAD; printf '[core]\nbare = false\nworktree = .\n' >bare/config; cd bare && git status; echo $?`)
		if err != nil || !strings.HasSuffix(r.Stdout.String(), "128\n") || !strings.Contains(r.Stderr.String(), "bare repository") {
			t.Errorf("%v: %s%s", err, r.Stdout, r.Stderr)
		}
		if got, _ := filepath.Glob(dir + "/*/FLAG"); len(got) > 0 {
			t.Errorf("git executed something: %v %s", got, r.Stderr)
		}
	})
}
