package permission_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"symbio/security/permission"
)

// What hardens git is in the environment of commands; no command takes it away unasked.
func TestGitCannotBeSoftenedUnasked(t *testing.T) {
	p := policy(t, "allow: Bash(git:*); Bash(env:*); Bash(cd:*) | default: ask")
	for command, want := range map[string]permission.Action{
		"git status":                                  permission.Allow,
		"cd bare && git status":                       permission.Allow, // safe.bareRepository refuses it
		"env -u LANG git status":                      permission.Ask,
		"env -u GIT_CONFIG_COUNT git status":          permission.Ask,
		"env -uGIT_CONFIG_COUNT git status":           permission.Ask,
		"env --unset=GIT_CONFIG_COUNT git status":     permission.Ask,
		"env -i git status":                           permission.Ask,
		"env - git status":                            permission.Ask,
		"env -iv git status":                          permission.Ask,
		"exec -c git status":                          permission.Ask,
		"unset GIT_CONFIG_COUNT; git status":          permission.Ask,
		"export GIT_CONFIG_COUNT=0 && git status":     permission.Ask,
		"GIT_CONFIG_COUNT=0 git status":               permission.Ask,
		"GIT_DIR=bare git status":                     permission.Ask,
		"git --git-dir=bare status":                   permission.Ask,
		"git --bare status":                           permission.Ask,
		"git -c core.fsmonitor=x status":              permission.Ask,
		"git --config-env=core.fsmonitor=HOME status": permission.Ask,
	} {
		if v := judged(p, bash(command)); !fits(v, want) {
			t.Errorf("%s: %v, want %v (%s)", command, v.Action, want, v.Why)
		}
	}
}

// What other programs obey, and what makes a git directory, is written by a rule that names it.
func TestObeyedFilesAreWrittenByName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"bare/HEAD", "mine/config"} {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for rule, names := range map[string]map[string]permission.Action{
		"allow: Write(./*) | default: ask": {
			"AGENTS.md": permission.Ask, "docs/CLAUDE.md": permission.Ask, ".zed/tasks.json": permission.Ask, "x/.codex/config.toml": permission.Ask,
			".devcontainer/devcontainer.json": permission.Ask, ".hg/hgrc": permission.Ask, "sub/.jj/repo/config.toml": permission.Ask, ".hg/store/x": permission.Allow, ".exrc": permission.Ask, ".pre-commit-config.yaml": permission.Ask, ".husky/pre-commit": permission.Ask,
			"new/HEAD": permission.Ask, "sub/.git": permission.Ask, "bare/config": permission.Ask, "bare/hooks/pre-commit": permission.Ask,
			"mine/config": permission.Allow, "new/objects/x": permission.Allow, "src/hooks/use.ts": permission.Allow, "README.md": permission.Allow,
		},
		"allow: Write(./AGENTS.md); Write(./bare/config) | default: ask": {"AGENTS.md": permission.Allow, "bare/config": permission.Allow},
	} {
		for name, want := range names {
			c := call("Write", "file_path", filepath.Join(dir, name), "content", "x")
			c.Dir = dir
			if v := judged(policy(t, rule), c); !fits(v, want) {
				t.Errorf("%s under %s: %v, want %v (%s)", name, rule, v.Action, want, v.Why)
			}
		}
	}
}

// What is denied to read is not printed from git's store either: the commands are run with pathspecs, or asked about.
func TestGitPrintsNothingThatIsDenied(t *testing.T) {
	dir := t.TempDir()
	git := func(line string) string {
		c := exec.Command("/bin/bash", "--norc", "--noprofile", "-c", line)
		c.Dir = dir
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_PAGER=cat", "GIT_AUTHOR_NAME=n",
			"GIT_AUTHOR_EMAIL=e", "GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=e"}
		out, _ := c.CombinedOutput()
		return string(out)
	}
	if out := git(`set -e; git init -q .; mkdir sub; for i in 1 2; do echo KEY$i >.env; echo KEY$i >sub/.env; echo PLAIN$i >f; git add .; git commit -q -m x$i; done; echo KEY3 >.env; echo PLAIN3 >f`); out != "" {
		t.Fatal(out)
	}
	blob := strings.TrimSpace(git("git rev-parse HEAD:.env"))
	commit := strings.TrimSpace(git("git rev-parse HEAD"))
	p := policy(t, "deny: Read(.env); Read(~/.ssh/*) | allow: Bash(git:*); Bash(cd:*); Bash(cat:*); Git(diff:*); Git(cat-file:*) | default: ask")
	for command, want := range map[string]string{ // "" = asked about or denied; what it has to print
		"git diff": "PLAIN3", "git diff HEAD~1": "PLAIN1", "git diff HEAD~1 -- f": "PLAIN1", "git diff --cached HEAD~1": "PLAIN2", "cd sub && git diff HEAD~1": "PLAIN1",
		"git log -p": "PLAIN1", "git log -p -1 | cat": "PLAIN2", "git log --oneline": "x1", "git log -3 --format=%s": "x2", "git log -G KEY": " ",
		"git show": "PLAIN2", "git show HEAD~1": "PLAIN1", "git show " + commit: "PLAIN2", "git show " + blob: "fatal", "git show HEAD:f": "PLAIN2", "git show HEAD -- sub": " ",
		"git grep -h 'PLAIN\\|KEY'": "PLAIN3", "git grep -h PLAIN HEAD": "PLAIN2", "git archive HEAD | cat": "PLAIN2", "git diff-tree -p HEAD~1 HEAD": "PLAIN2", "git status": "modified", "git stash list": " ",
		"git diff " + blob + " HEAD:f": "usage", "for i in 1; do git diff HEAD~$i; done": "", "git grep -h KEY " + blob: "",
		"git show HEAD:.env": "", "git show HEAD:./.env": "", "git show HEAD:sub/.env": "", "git cat-file -p HEAD:.env": "", "git cat-file -p " + blob: "", "git cat-file -t " + blob: "blob", "git blame .env": "",
		"git diff --no-index /dev/null .env": "", "git diff --no-index x .": "", "git mv .env q": "", "git stash show -p": "", "git fast-export HEAD": "", "git cat-file --batch": "", "sh -c 'git diff'": "", `git show "$X"`: "",
	} {
		c := bash(command)
		c.Dir = dir
		v := judged(p, c)
		if want == "" {
			if v.Action == permission.Allow {
				t.Errorf("%s is allowed, and prints %q", command, git(v.Plan.Script))
			}
			continue
		}
		if v.Action != permission.Allow {
			t.Errorf("%s: %v (%s)", command, v.Action, v.Why)
			continue
		}
		if out := git(v.Plan.Script); !strings.Contains(out, strings.TrimSpace(want)) || strings.Contains(out, "KEY") {
			t.Errorf("%s is run as %sand prints %q", command, v.Plan.Script, out)
		}
	}
	c := permission.Call{Tool: "Git", Dir: dir, Args: map[string]any{"command": "diff", "args": []any{"HEAD~1"}}}
	if v := judged(p, c); v.Action != permission.Allow || !strings.Contains(strings.Join(v.Plan.Argv, " "), ":(exclude,top,icase).env") {
		t.Errorf("the tool Git runs %q: %v (%s)", v.Plan.Argv, v.Action, v.Why)
	}
}

func TestToolGitStaysInTheWorkspace(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Symlink("/etc", filepath.Join(dir, "link")), os.WriteFile(filepath.Join(dir, "f"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]permission.Action{
		"diff --no-index /dev/null /etc/passwd": permission.Ask, "diff --no-index f ../../../../../../etc/passwd": permission.Ask, "grep --no-index root /etc/passwd": permission.Ask,
		"diff --no-index /dev/null link/passwd": permission.Ask, "blame --contents=/etc/passwd f": permission.Ask, "apply --stat /etc/passwd": permission.Ask, "diff /dev/null /etc/passwd": permission.Ask,
		"diff --no-index /dev/null f": permission.Ask, "diff HEAD~1..HEAD f": permission.Allow, "log -- f ./absent": permission.Allow, "status": permission.Allow,
	} {
		words := strings.Fields(line)
		args := []any{}
		for _, w := range words[1:] {
			args = append(args, w)
		}
		c := permission.Call{Tool: "Git", Dir: dir, Args: map[string]any{"command": words[0], "args": args}}
		for _, p := range []permission.Policy{permission.Development(), policy(t, "allow: Git("+words[0]+":*) | default: ask")} {
			if v := (permission.Chain{{Policy: p}}).Judge(c); v.Action != want { // as where no sandbox holds it
				t.Errorf("%s: %v, want %v (%s)", line, v.Action, want, v.Why)
			}
		}
	}
}

// An option whose value is optional, or that has none in this sub-command, hides no option behind it.
func TestGitOptionIsNoValue(t *testing.T) {
	p := policy(t, "allow: Bash(git:*) | default: ask")
	for command, want := range map[string]permission.Action{
		"git diff-tree -m --ext-diff -p HEAD":    permission.Ask,
		"git diff-tree -c --ext-diff -p HEAD":    permission.Ask,
		"git whatchanged -m --ext-diff":          permission.Ask,
		"git whatchanged -c --ext-diff":          permission.Ask,
		"git show -m --ext-diff":                 permission.Ask,
		"git log --pretty --ext-diff":            permission.Ask,
		"git stash show -m --ext-diff":           permission.Ask,
		"git diff-tree --pretty --ext-diff HEAD": permission.Ask,
		"git log --pretty=oneline --grep x":      permission.Allow,
		"git cherry-pick -m 1 HEAD":              permission.Allow,
		"git commit -m 'a b' -C HEAD":            permission.Allow,
		"git tag -m \"$X\" v1":                   permission.Allow,
	} {
		if v := judged(p, bash(command)); !fits(v, want) {
			t.Errorf("%s: %v, want %v (%s)", command, v.Action, want, v.Why)
		}
	}
}
