package sandbox

import "slices"

// Protected are the names at the top of a writable directory that other programs of the user execute, or take orders
// from, and that a command therefore cannot write, create, move or replace unless Policy.Unprotected. Shell settings
// are protected where they exist, and in the user's home in any case.
//
// commondir and config.worktree are there because git takes its configuration from where they say.
func Protected() []string { return slices.Concat(masked, existing, shellSettings) }

var (
	// masked are made when they are not there, since what is absent cannot be protected (CVE-2026-25725).
	masked = []string{
		".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir",
		".gitmodules", ".envrc", ".mcp.json", ".agent", ".agents", ".symbio", ".vscode", ".idea",
	}
	// existing matter only where something that is protected, or outside, refers to them: git's core.hooksPath to .husky.
	// Which skills a user trusts, and what they have allowed for good, is there once a node has run.
	existing = []string{".husky", ".claude", ".cursor", ".local/state/symbio/skills", ".local/state/symbio/allowed", ".local/state/symbio/mcp"}

	shellSettings = []string{
		".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc",
		".zshenv", ".zprofile", ".zshrc", ".zlogin", ".zlogout", ".login", ".logout", ".cshrc", ".tcshrc", ".kshrc",
		".config/fish", ".config/git", ".config/symbio", ".gitconfig", ".ssh",
	}
	// gitDir are the names in a git directory that is itself what can be written.
	gitDir = []string{"hooks", "config", "config.worktree", "commondir"}
)

// contents are the files that are masked by a file. Everything else is masked by an empty directory: git does not
// show those, so that they are in no commit, and removing one can take nothing with it.
var contents = map[string]string{
	"config":          "",
	"config.worktree": "",
	"commondir":       ".\n", // as if it were not there
}
