package permission

import (
	"slices"
	"strings"

	"symbio/internal/security/permission/shell"
)

// gitPlain are the sub-commands of git that a rule for git, or for the beginning of a git command, covers where no sandbox
// holds commands. One that is none of git's own may be an alias that a repository names.
var gitPlain = strings.Fields(`add am annotate apply blame branch cat-file checkout cherry cherry-pick clean clone commit count-objects describe diff diff-files
diff-index diff-tree fetch for-each-ref fsck gc grep init log ls-files ls-remote ls-tree merge merge-base mv name-rev notes pull push range-diff rebase reflog
remote repack reset restore rev-list rev-parse revert rm shortlog show show-branch show-ref stash status switch tag version whatchanged worktree`)

// gitOptions are the long options, without their dashes, by which git runs a program, writes a file or leaves the repository.
var gitOptions = strings.Fields("upload-pack receive-pack exec ext-diff textconv no-index output open-files-in-pager config template contents directory unsafe-paths separate-git-dir")

// gitUnheld returns why a git command may do more than use its repository, as a clause; "" if it does not. spelled is how many
// of its words a rule spells.
func gitUnheld(c *shell.Command, spelled int) string {
	sub, rest := strings.TrimPrefix(c.Name(), "git-"), c.Words[1:]
	if sub == "git" && len(rest) > 0 {
		sub, rest = rest[0].Text, rest[1:]
	}
	if spelled < 2 && sub != "git" && !slices.Contains(gitPlain, sub) {
		return "nothing holds it on this machine, and it begins with no plain command of git"
	}
	for _, w := range rest[min(max(spelled-2, 0), len(rest)):] {
		name, _, _ := strings.Cut(strings.TrimPrefix(w.Text, "--"), "=")
		long := strings.HasPrefix(w.Text, "--") && slices.ContainsFunc(gitOptions,
			func(o string) bool { return name != "" && (strings.HasPrefix(o, name) || strings.HasPrefix(name, o)) })
		short := strings.HasPrefix(w.Text, "-") && !strings.HasPrefix(w.Text, "--") && strings.ContainsAny(w.Text[:min(3, len(w.Text))], "Oxo")
		outside := strings.HasPrefix(w.Text, "/") && w.Text != "/dev/null" || w.Tilde ||
			slices.Contains(strings.Split(w.Text, "/"), "..") || strings.Contains(w.Text, "::")
		if long || short || outside || w.MayBeOption() && w.Dynamic {
			return "nothing holds it on this machine, and " + w.Text + " may run a program or lead out of the repository"
		}
	}
	return ""
}
