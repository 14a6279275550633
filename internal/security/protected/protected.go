// Package protected is the table of names in a workspace that other programs of the user execute or take orders from:
// git, shells, editors, other agents. It is one place for the sandbox, which keeps commands from writing them, and for the
// rules, which let a file tool write them only by name. Names are slash-separated.
package protected

import "slices"

// Names are all of them.
func Names() []string { return slices.Concat(masked, existing, versionControl, shells) }

// Masked are those that a command finds occupied where they are not there, since what is absent cannot be protected
// (CVE-2026-25725).
func Masked() []string { return masked }

// Existing are protected where they exist. Which skills a user trusts, and what they have allowed for good, is there once a
// node has run.
func Existing() []string { return slices.Concat(existing, versionControl) }

// VersionControl are settings of other version control programs than git, by which these run programs or find other settings.
// A directory that is not there is not masked: other programs would take the mask for a repository.
func VersionControl() []string { return versionControl }

// Shells are settings of shells and of programs configured like them. They are masked in the user's home.
func Shells() []string { return shells }

// git takes its configuration from where commondir and config.worktree say, too.
var (
	masked = []string{
		".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".gitmodules", ".envrc", ".mcp.json", ".agent", ".agents", ".symbio",
		".vscode", ".idea", ".zed", ".devcontainer", ".husky", ".claude", ".cursor", ".codex", ".exrc", ".bashrc",
		".pre-commit-config.yaml", "AGENTS.md", "CLAUDE.md", "CLAUDE.local.md",
	}
	existing       = []string{".local/state/symbio/skills", ".local/state/symbio/allowed", ".local/state/symbio/mcp"}
	versionControl = []string{
		".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath", ".sl/config", ".sl/sharedpath", ".jj/repo/config.toml", ".jj/workspace-config.toml",
		".bzr/branch/branch.conf", ".pijul/config", "_darcs/prefs/defaults",
	}
	shells = []string{
		".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc",
		".zshenv", ".zprofile", ".zshrc", ".zlogin", ".zlogout", ".login", ".logout", ".cshrc", ".tcshrc", ".kshrc",
		".config/fish", ".config/git", ".config/symbio", ".gitconfig", ".ssh",
	}
)
