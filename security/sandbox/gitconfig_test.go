package sandbox

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Whatever a configuration holds, git reads nothing in its clean text that was not found harmless.
func FuzzReviewGit(f *testing.F) {
	for _, seed := range []string{
		"[core]\n\tbare = false\n\tfsmonitor = x\n[remote \"o\"]\n\turl = ../a\n\tfetch = +refs/heads/*:refs/remotes/o/*\n", "[core] fsmonitor = x", "[user]\nname = a\\\n[core]\nfsmonitor=x", "\ufeff[core]\nfsmonitor=x",
		"[remote \"a\\\"b\"]\nurl = ext::x\n", "[submodule \"s\"]\nupdate = !x\n", "[core.x]\nbare\n", "[include]\npath = x", "[core]\nbare ; [core]\n", "[user]\nname = \"a ; b\" # c\n", "[branch \"x]\"]\nmerge = refs/heads/x",
		"[remote \"a.uploadpack\x00\"]\nurl = x\n", "[remote \"a.uploadpack\\\x00\"]\nurl = x\n",
	} {
		f.Add(seed)
	}
	git, err := exec.LookPath("git")
	if err != nil {
		f.Skip(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		clean, _ := reviewGit(text, "", func(string) bool { return false })
		if again, dropped := reviewGit(clean, "", func(string) bool { return false }); again != clean || len(dropped) > 0 {
			t.Fatalf("%q becomes %q, and that %q without %q", text, clean, again, dropped)
		}
		c := exec.Command(git, "config", "-f", "-", "--name-only", "-z", "--list")
		c.Env, c.Stdin = []string{"HOME=/nonexistent"}, strings.NewReader(clean)
		out, err := c.Output()
		if err != nil {
			return // it reads none of it
		}
		for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
			first, last := strings.IndexByte(name, '.'), strings.LastIndexByte(name, '.')
			if first < 0 {
				continue
			}
			kind := name[:first] + name[last:]
			if first != last {
				kind = name[:first] + ".*" + name[last:]
			}
			if !slices.Contains(gitKinds, kind) && !slices.Contains(gitFamilies, name[:first]) {
				t.Errorf("%q becomes %q, in which git finds %s", text, clean, name)
			}
		}
	})
}
