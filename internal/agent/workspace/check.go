package workspace

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"symbio/internal/security/filename"
	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/secret"
	"symbio/internal/security/visible"
)

const (
	// maxPath and maxName are in bytes: what common systems have, with room for the directory above. maxDepth is how many
	// names a path may have.
	maxPath, maxName, maxDepth = 1024, 255, 64
	// maxQuoted is how much of another node's text an error has, in bytes.
	maxQuoted = 120

	outOfOrder = "it is twice there or out of order"
)

// commitID is a full commit, in SHA-1 or SHA-256.
var commitID = lazyregexp.New(`^([0-9a-f]{40}|[0-9a-f]{64}|)$`)

// Check returns ErrRefused or ErrTooLarge unless a directory can have these files on every system, and be made without
// leaving it: see checkPath for the paths, and checkLink for links.
func (m Manifest) Check(l Limits) error {
	if !commitID().MatchString(m.Commit) {
		return refuse(m.Commit, "it is no commit")
	}
	return checkFiles(m.Files, l.withDefaults())
}

// Check returns ErrRefused or ErrTooLarge unless the patch is one of base, deletes only files of it, adds none that looks
// like a secret, and makes of it a manifest that passes Manifest.Check. So a change below a link, or a name that
// collides with one of the base, is refused.
func (p Patch) Check(base Manifest, l Limits) error {
	if p.Base != base.Hash() {
		return refuse(p.Base.String(), "these are not the files that were sent")
	}
	all, last := byPath(base.Files), ""
	for _, c := range p.Changes {
		_, had := all[c.Path]
		switch {
		case c.Path <= last:
			return refuse(c.Path, outOfOrder)
		case c.Kind == Deleted && (!had || c != File{Path: c.Path, Kind: Deleted}):
			return refuse(c.Path, "it deletes what was not sent")
		case !had && secretName(c.Path) != "":
			return refuse(c.Path, secretName(c.Path))
		}
		if last, all[c.Path] = c.Path, c; c.Kind == Deleted {
			delete(all, c.Path)
		}
	}
	return checkFiles(slices.SortedFunc(maps.Values(all), comparePaths), l.withDefaults())
}

func refuse(name, why string) error { return fmt.Errorf("%w: %s: %s", ErrRefused, quote(name), why) }

func quote(name string) string { return `"` + visible.Escape(visible.Truncate(name, maxQuoted)) + `"` }

// checkFiles checks the files of a manifest. Links are looked up among files that may be out of order yet: then it ends with
// that error.
func checkFiles(files []File, l Limits) error {
	if len(files) > l.Files {
		return fmt.Errorf("%w: %d files, at most %d are taken", ErrTooLarge, len(files), l.Files)
	}
	var names filename.Set
	total, last := int64(0), ""
	for _, f := range files {
		bare, why := File{Path: f.Path, Kind: Link, Link: f.Link}, checkPath(f.Path)
		if f.Kind.hasContent() {
			bare = File{Path: f.Path, Kind: f.Kind, Size: max(f.Size, 0), Hash: f.Hash}
		}
		switch {
		case why != "":
		case f != bare:
			why = "it has a kind that cannot travel, or what a file of its kind cannot have"
		case f.Path <= last:
			why = outOfOrder
		default:
			why = cmp.Or(collision(names.Add(f.Path)), checkLink(files, f))
		}
		if why != "" {
			return refuse(f.Path, why)
		}
		// In this order the sum cannot overflow: neither number is over its limit.
		if f.Size > l.FileSize || f.Size > l.Size-total {
			return fmt.Errorf("%w: %s makes it more than %d bytes, or has more than %d", ErrTooLarge, quote(f.Path), l.Size, l.FileSize)
		}
		total, last = total+f.Size, f.Path
	}
	return nil
}

// collision says what is wrong with a path when another one is in a filename.Set; "" = there is none.
func collision(other string) string {
	if other == "" {
		return ""
	}
	return "on some system it is the same as " + quote(other) + ", or one is a file and the other a directory"
}

// checkPath returns what is wrong with a path; "" = it names the same file below the directory on every system, and none
// of a repository's own.
func checkPath(p string) string {
	names := strings.Split(p, "/")
	switch {
	case p == "" || len(p) > maxPath || len(names) > maxDepth:
		return fmt.Sprintf("a path has 1 to %d bytes and at most %d names", maxPath, maxDepth)
	case p[0] == '/':
		return "it is absolute"
	case !utf8.ValidString(p):
		return "it is not UTF-8"
	}
	for _, name := range names {
		// Windows has short names such as git~1. Other names that macOS takes for .git have characters that cannot be seen.
		switch folded := filename.Fold(name); {
		case filename.Check(name) != "":
			return filename.Check(name)
		case len(name) > maxName:
			return fmt.Sprintf("a name in it has more than %d bytes", maxName)
		case folded == ".git" || strings.HasPrefix(folded, "git~"):
			return "it is git's own"
		case strings.HasPrefix(folded, stagingPrefix):
			return "it is left of a patch that was not applied to its end"
		}
	}
	return ""
}

// checkLink returns what is wrong with a link; "" = it is none, or names a file or directory of the sorted files that is
// reached through no other link. The target must be written in its shortest form: of a/../b the system goes where a
// leads.
func checkLink(files []File, f File) string {
	if f.Kind != Link {
		return ""
	}
	target := path.Join(path.Dir(f.Path), f.Link)
	at, found := slices.BinarySearchFunc(files, File{Path: target}, comparePaths)
	below, _ := slices.BinarySearchFunc(files, File{Path: target + "/"}, comparePaths)
	switch isDir := below < len(files) && strings.HasPrefix(files[below].Path, target+"/"); {
	case f.Link != path.Clean(f.Link) || path.IsAbs(f.Link):
		return "its target is not a plain relative path"
	case found && files[at].Kind == Link:
		return "its target is a link"
	case strings.HasPrefix(f.Path, target+"/"):
		return "its target is a directory that it is in"
	case !found && !isDir:
		return "its target does not travel, or is outside of the directory"
	}
	return ""
}

// secretNames are patterns of the names, in lower case, of files that hold keys, tokens or passwords, beside those that
// package secret knows below a home directory: settings of programs, keys and what they are kept in, clouds and
// clusters. To add one, add it here.
var secretNames = []string{
	".env", ".env.*", "*.env", ".envrc", ".htpasswd", ".vault_pass*", ".dockercfg", "*.tfstate", "*.tfstate.*", "*.tfvars", "secrets.y*ml", "secrets.json",
	"id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.ppk", "*.kdbx", "*.ovpn",
	"credentials.json", "client_secret*.json", "service-account*.json", "service_account*.json", "application_default_credentials.json", "kubeconfig", "*.kubeconfig",
}

// notSecret are names that look like secrets and are there to be read, or are secret only with a token in them.
var (
	notSecret  = append([]string{".env.example", ".env.sample", ".env.template", ".env.dist", "example.env", "sample.env"}, tokenFiles...)
	tokenFiles = []string{".npmrc", ".yarnrc.yml", ".pypirc"}
	token      = lazyregexp.New(`(?i)_auth|token|passw`)
	privateKey = lazyregexp.New(`^[\x{feff}\s]*(-----BEGIN [A-Z0-9 ]*PRIVATE KEY|PuTTY-User-Key-File-)`)
)

// maxHead is how much of the beginning of a file is looked at for secrets, in bytes. Such settings are shorter.
const maxHead = 64 << 10

// secretName returns why the name of a file looks like a secret's; "" = it does not.
func secretName(p string) string {
	rest := strings.ToLower(p)
	if base := path.Base(rest); slices.Contains(notSecret, base) {
		rest = path.Dir(rest)
	} else if i := slices.IndexFunc(secretNames, func(pattern string) bool { ok, _ := path.Match(pattern, base); return ok }); i >= 0 {
		return "it looks like a secret: " + secretNames[i]
	}
	// The directory may be a home, or have a copy of one.
	for more := true; more; _, rest, more = strings.Cut(rest, "/") {
		if name := secret.In(rest); name != "" {
			return "it looks like a secret: " + name
		}
	}
	return ""
}

// secretContent returns why the beginning of a file looks like a secret; "" = it does not.
func secretContent(p string, head []byte) string {
	if privateKey().Match(head) || slices.Contains(tokenFiles, strings.ToLower(path.Base(p))) && token().Match(head) {
		return "it looks like a secret: it holds a private key, a token or a password"
	}
	return ""
}
