package permission

import (
	"slices"
	"strings"

	"symbio/internal/security/permission/glob"
)

// A rule for a tool that nothing is known of, such as one of an MCP server, may name the argument that it is
// about: mcp__db__query(sql=SELECT:*). Only then does it allow anything: of other specs it is not known which
// argument they mean, and a decoy would do.

const argumentName = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// named cuts the spec at its = into the argument's name and the pattern for its value. name is
// "" when the spec is a plain text.
func (r *Rule) named() (name, pattern string) {
	name, pattern, ok := strings.Cut(r.spec, "=")
	if r.form != formOpaque || !ok || name == "" || strings.Trim(name, argumentName) != "" {
		return "", r.spec
	}
	return name, pattern
}

// allowsArgument returns yes if the named argument is a string that matches the pattern. With
// a prefix or a wildcard the value must also be one statement, so that SELECT:* does not allow
// "SELECT 1; DROP TABLE users".
func (r *Rule) allowsArgument(args map[string]any) reach {
	name, pattern := r.named()
	value, ok := args[name].(string)
	if name == "" || !ok {
		return no
	}
	head, prefix := cutRest(pattern)
	switch {
	case prefix && value == head:
		return yes
	case prefix:
		rest, ok := strings.CutPrefix(value, head)
		return is(ok && (rest[0] == ' ' || rest[0] == '\t') && oneStatement(rest))
	case strings.Contains(pattern, "*"):
		return is(glob.Match(pattern, value) && oneStatement(value))
	}
	return is(value == pattern)
}

// oneStatement reports whether a text has none of the signs by which the languages given to
// tools begin another statement, a comment or a command of their own. It knows SQL, shells and
// templates, and errs on the side of no.
func oneStatement(text string) bool {
	if strings.IndexFunc(text, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) >= 0 {
		return false
	}
	marks := []string{";", "`", "$(", "${", "|", "&", "--", "/*", "#"}
	return !slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(text, mark) })
}
