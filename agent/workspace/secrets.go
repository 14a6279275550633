package workspace

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"symbio/security/secret"
)

// secretNames are patterns of the names, in lower case, of files that hold keys, tokens or passwords, beside those
// that package secret knows below a home directory. To add one, add a line.
var secretNames = []string{
	// Settings of programs, with passwords.
	".env", ".env.*", "*.env", ".envrc", ".htpasswd", ".vault_pass*", ".dockercfg", "*.tfstate", "*.tfstate.*", "*.tfvars", "secrets.y*ml", "secrets.json",
	// Keys, and what they are kept in.
	"id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.ppk", "*.kdbx", "*.ovpn",
	// Clouds and clusters.
	"credentials.json", "client_secret*.json", "service-account*.json", "service_account*.json", "application_default_credentials.json", "kubeconfig", "*.kubeconfig",
}

// examples are files that look like the above, and are there to be read.
var examples = []string{".env.example", ".env.sample", ".env.template", ".env.dist", "example.env", "sample.env"}

// tokenFiles are settings that many repositories have. They are secret with one of tokenWords in them.
var (
	tokenFiles = []string{".npmrc", ".yarnrc.yml", ".pypirc"}
	tokenWords = [][]byte{[]byte("_auth"), []byte("token"), []byte("passw")}
)

// maxHead is how much of the beginning of a file is looked at for secrets, in bytes. Such settings are shorter.
const maxHead = 64 << 10

// secretName returns which secret the name of a file stands for; "" = none.
func secretName(p string) string {
	lower := strings.ToLower(p)
	base := path.Base(lower)
	if slices.Contains(tokenFiles, base) || slices.Contains(examples, base) {
		lower, base = path.Dir(lower), ""
	}
	for _, pattern := range secretNames {
		if ok, _ := path.Match(pattern, base); ok {
			return pattern
		}
	}
	// The directory may be a home, or have a copy of one.
	for rest, more := lower, true; more; _, rest, more = strings.Cut(rest, "/") {
		if name := secret.In(rest); name != "" {
			return name
		}
	}
	return ""
}

// secretContent returns which secret a file holds by its beginning; "" = none that is known.
func secretContent(p string, head []byte) string {
	begin := bytes.TrimLeft(head, "\ufeff \t\r\n")
	line, _, _ := bytes.Cut(begin, []byte("\n"))
	switch {
	case bytes.HasPrefix(begin, []byte("-----BEGIN ")) && bytes.Contains(line, []byte("PRIVATE KEY")), bytes.HasPrefix(begin, []byte("PuTTY-User-Key-File-")):
		return "a private key"
	case slices.Contains(tokenFiles, strings.ToLower(path.Base(p))) && slices.ContainsFunc(tokenWords, func(w []byte) bool { return bytes.Contains(bytes.ToLower(head), w) }):
		return "a token or password"
	}
	return ""
}
