package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Limits of names, in bytes.
const (
	// maxName limits a tool's full name. The strictest model services accept no more.
	maxName = 64
	// maxServerName limits ServerPart, so that room is left for the tool's part.
	maxServerName = 32
	// hashLength is the number of hexadecimal digits of a hash in a name. It may be short, because
	// a collision within one server only hides a tool of that server (see toolName).
	hashLength = 8
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
