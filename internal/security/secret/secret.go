// Package secret knows where the programs of a user keep what opens something else: keys, tokens, passwords, cookies.
//
// The one idea: it is a table of names below the home directory, in one place for all code that protects these
// files: the sandbox, which hides them from commands, and the rules, which let a file tool read them only by name.
//
// It knows names, and looks at no file. Keys under names of a user's own choice are not in it.
package secret

import (
	"path/filepath"
	"strings"
	"sync"
)

// names are slash-separated and below the home directory; of a directory all that is in it is meant. A program's own
// is here if whoever has it can act as the user somewhere. To add one, add a line.
var names = []string{
	// Keys and what unlocks them.
	".ssh", ".gnupg", ".pki", ".password-store", ".age", ".config/age", ".config/sops", ".local/share/keyrings", ".gnome2/keyrings",
	".local/share/kwalletd", ".kde/share/apps/kwallet", ".config/op", ".config/Bitwarden", ".config/Bitwarden CLI", ".config/keepassxc",
	"Library/Keychains",
	// Clouds and clusters.
	".aws", ".azure", ".config/gcloud", ".kube", ".oci", ".aliyun", ".config/doctl", ".config/hcloud", ".fly", ".config/scw", ".terraform.d/credentials.tfrc.json",
	".vault-token", ".config/rclone", ".pulumi/credentials.json", ".databrickscfg", ".kaggle", ".config/.wrangler", ".config/configstore", ".config/helm/registry",
	// Registries and forges.
	".docker/config.json", ".config/containers/auth.json", ".npmrc", ".yarnrc.yml", ".pypirc", ".config/pypoetry/auth.toml", ".cargo/credentials",
	".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".gradle/gradle.properties", ".nuget/NuGet/NuGet.Config", ".composer/auth.json",
	".config/composer/auth.json", ".config/gh", ".config/hub", ".config/glab-cli", ".cache/huggingface/token", ".huggingface",
	".local/share/uv/credentials", ".dotnet/corefx/cryptography", ".subversion/auth", ".sentryclirc", ".local/share/jupyter/runtime",
	// Passwords in plain text.
	".netrc", "_netrc", ".git-credentials", ".config/git/credentials", ".pgpass", ".my.cnf", ".mylogin.cnf", ".s3cfg", ".authinfo", ".authinfo.gpg",
	// Histories of typed commands, with the passwords that were typed along.
	".bash_history", ".zsh_history", ".local/share/fish/fish_history", ".python_history", ".psql_history", ".mysql_history",
	".node_repl_history", ".sqlite_history", ".rediscli_history", ".local/share/atuin",
	// Agents of other makers.
	".claude/.credentials.json", ".claude.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".config/github-copilot",
	// Browsers and mail: cookies are as good as passwords.
	".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge",
	".config/vivaldi", ".config/opera", "snap/firefox", "snap/chromium", ".var/app/org.mozilla.firefox", ".var/app/com.google.Chrome",
	".var/app/org.chromium.Chromium", "Library/Application Support/Google/Chrome", "Library/Application Support/Firefox", "Library/Cookies",
	// This program's own: the keys of nodes and authorities, and what was decided.
	".local/state/symbio/authority", ".local/state/symbio/checkpoints", ".local/state/symbio/cluster", ".local/state/symbio/nodes",
	".local/state/symbio/mcp", ".local/state/symbio/packages",
}

// System are the places that the system keeps from all but root.
func System() []string {
	return []string{
		"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/security/opasswd", "/etc/sudoers", "/etc/sudoers.d", "/etc/doas.conf",
		"/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key", "/etc/ssl/private", "/etc/letsencrypt",
		"/etc/krb5.keytab", "/etc/wireguard", "/etc/NetworkManager/system-connections", "/var/backups/shadow.bak", "/var/backups/gshadow.bak",
	}
}

// Paths are the places below a home directory, absolute, whether they are there or not; nil if home is not absolute.
func Paths(home string) []string {
	if !filepath.IsAbs(home) {
		return nil
	}
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = filepath.Join(home, filepath.FromSlash(name))
	}
	return all
}

// In finds the place that a path below the home directory is, or lies in; "" if none. The path is clean and
// slash-separated, without the home directory in front. Case counts for nothing: a file system may take a name in any.
func In(below string) string {
	below = strings.ToLower(below)
	first, _, _ := strings.Cut(below, "/")
	for _, name := range byFirst()[first] {
		if rest, found := strings.CutPrefix(below, strings.ToLower(name)); found && (rest == "" || rest[0] == '/') {
			return name
		}
	}
	return ""
}

// byFirst are the names by their first part in lower case: a decision about a file asks for one in less than a
// microsecond.
var byFirst = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for _, name := range names {
		first, _, _ := strings.Cut(strings.ToLower(name), "/")
		all[first] = append(all[first], name)
	}
	return all
})
