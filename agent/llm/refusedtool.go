package llm

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"symbio/internal/security/lazyregexp"
)

// The patterns match what servers say of a tool: its place in the list, and that it is about tools or their schemas at all.
var declaredPlace = lazyregexp.New(`(?i)function_?declarations(?:\[|\.)(\d+)`) // Google's: behind the place of the list
var toolPlace = lazyregexp.New(`(?i)\btools['"]?\s*[\[.,/]\s*(\d+)`)
var aboutTool = lazyregexp.New(`(?i)tool|function|schema|parameters|grammar`)
var aboutSchemas = lazyregexp.New(`(?i)json.?schema|schema.{0,40}(tool|function|parameters)|(tool|function|parameters).{0,40}schema|grammar`)

// aboutOutput matches complaints about what the model wrote.
var aboutOutput = lazyregexp.New(`(?i)tool_use_failed|tool call validation failed|attempted to call|failed to (call|parse) (a |the )?(tool|function)|^messages[.\[]`)

// RefusedTool returns which of the tools of a request its server refused, by the error of the request: its name, or "". about reports
// whether it refused the schemas of tools at all; some servers do not say which.
func RefusedTool(err error, tools []ToolSpec) (name string, about bool) {
	var e *Error
	if !errors.As(err, &e) || len(tools) == 0 || e.Err != ErrInvalid && (e.Err != ErrUnavailable || e.Status < 500) {
		return "", false
	}
	if !aboutTool().MatchString(e.Detail) || aboutOutput().MatchString(e.Detail) {
		return "", false
	}
	for _, t := range tools {
		// A name stands in quotes, or as it is if no word looks like it.
		named := strings.Contains(t.Name, "__") && strings.Contains(e.Detail, t.Name) ||
			slices.ContainsFunc([]string{"'", `"`, "`"}, func(quote string) bool { return strings.Contains(e.Detail, quote+t.Name+quote) })
		if named && len(t.Name) > len(name) {
			name = t.Name
		}
	}
	for _, place := range []*regexp.Regexp{declaredPlace(), toolPlace()} {
		if found := place.FindStringSubmatch(e.Detail); found != nil && name == "" {
			if i, err := strconv.Atoi(found[1]); err == nil && i < len(tools) {
				return tools[i].Name, true
			}
		}
	}
	return name, name != "" || aboutSchemas().MatchString(e.Detail)
}
