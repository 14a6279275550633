package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Limits of names, in bytes. maxName is what the strictest model services accept. maxServerName
// leaves room for the tool's part. A short hash is enough, because a collision within one server
// only hides a tool of that server (see toolName).
const (
	maxName       = 64 // of a tool, for the models that take the least
	maxServerName = 32 // of the server's part, so that something is left for the tool's
	hashLength    = 8  // hexadecimal digits: a server that looks for two names of one hash gains nothing, see toolName
)

// ToolPrefix returns the prefix that the names of all tools of a server have.
func ToolPrefix(server string) string { return "mcp__" + ServerPart(server) + "__" }

// ServerPart returns the server's name as it stands in the names of its tools, and so in permission
// rules: mcp__PART__*. A name of letters, digits, - and single _ stays as it is. Any other name is
// cleaned and gets a hash of the original, so that two servers never share a part and a part does
// not depend on which other servers exist.
func ServerPart(server string) string {
	clean := strings.Trim(plain(server), "_")
	for strings.Contains(clean, "__") {
		clean = strings.ReplaceAll(clean, "__", "_")
	}
	if clean == server && clean != "" && len(clean) <= maxServerName {
		return clean
	}
	return withHash(clean, server, maxServerName)
}

// toolName returns the name by which a model calls a tool: mcp__SERVER__TOOL, at most 64 letters,
// digits, _ and -. If the tool's own name had to be changed, it ends with a hash of the original.
// If two tools of one server get the same name, the first counts.
func toolName(server, tool string) string {
	prefix := "mcp__" + ServerPart(server) + "__"
	if clean := plain(tool); clean == tool && clean != "" && len(prefix)+len(clean) <= maxName {
		return prefix + clean
	}
	return prefix + withHash(plain(tool), tool, maxName-len(prefix))
}

// withHash returns clean, cut so that it fits into most bytes with a hash of the name of at its
// end.
func withHash(clean, of string, most int) string {
	sum := sha256.Sum256([]byte(of))
	hash := hex.EncodeToString(sum[:])[:hashLength]
	clean = strings.TrimRight(clean[:min(len(clean), most-hashLength-1)], "_")
	if clean == "" {
		return "x" + hash
	}
	return clean + "_" + hash
}

// plain replaces each character that is not allowed in a tool's name by an underscore.
func plain(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			return c
		}
		return '_'
	}, name)
}
