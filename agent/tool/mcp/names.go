package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxName       = 64 // of a tool, for the models that take the least
	maxServerName = 32 // of the server's part, so that something is left for the tool's
	hashLength    = 8  // hexadecimal digits: a server that looks for two names of one hash gains nothing, see toolName
)

// ToolPrefix is how the names of a server's tools begin.
func ToolPrefix(server string) string { return "mcp__" + ServerPart(server) + "__" }

// ServerPart is a server's name as it stands in the names of its tools, and so in rules: mcp__PART__*. A name of letters,
// digits, - and single _ stays as it is; another gets a hash of itself, so that no two are the same and none depends on
// which others there are.
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

// toolName is what a model calls a tool: mcp__SERVER__TOOL, at most 64 letters, digits, _ and -. Where the tool's own name
// is another, a hash of it stands at the end. The tools of one server are told apart by what this returns: of two with
// one name the first counts.
func toolName(server, tool string) string {
	prefix := "mcp__" + ServerPart(server) + "__"
	if clean := plain(tool); clean == tool && clean != "" && len(prefix)+len(clean) <= maxName {
		return prefix + clean
	}
	return prefix + withHash(plain(tool), tool, maxName-len(prefix))
}

func withHash(clean, of string, most int) string {
	sum := sha256.Sum256([]byte(of))
	hash := hex.EncodeToString(sum[:])[:hashLength]
	clean = strings.TrimRight(clean[:min(len(clean), most-hashLength-1)], "_")
	if clean == "" {
		return "x" + hash
	}
	return clean + "_" + hash
}

// plain has an underscore for each character that a tool's name must not have.
func plain(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			return c
		}
		return '_'
	}, name)
}
