package permission

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"symbio/security/permission/glob"
	"symbio/security/permission/shell"
	"symbio/security/visible"
)

// ParseAllow reads a rule by which a person allows calls: as ParseRule, but a rule that can match no
// call is an error, too.
func ParseAllow(text string) (Rule, error) {
	r, err := ParseRule(text)
	if err == nil {
		err = r.CheckMatches(false)
	}
	if err != nil {
		return Rule{}, err
	}
	return r, nil
}

// CheckMatches returns a *RuleError if no call can match the rule, with the nearest form that some
// call matches. denies says whether the rule stands in a list that denies, where more is understood.
func (r Rule) CheckMatches(denies bool) error {
	reason, spec := "", strings.TrimSuffix(strings.TrimPrefix(r.text, r.tool+"("), ")")
	server, isServer := strings.CutPrefix(r.tool, mcpPrefix)
	name, missing := strings.CutSuffix(server, "__")
	switch matter := subjectOf(r.tool).matter; {
	case isServer && !r.star && (missing || !strings.Contains(server, "__")):
		reason = fmt.Sprintf("the tools of an MCP server are %sSERVER__TOOL: write %s%s__* for all of them", mcpPrefix, mcpPrefix, name)
	case r.form == formTool:
	case r.form == formOpaque && !denies && r.argument() == "" && (strings.HasPrefix(r.tool, mcpPrefix) || r.tool == "WebSearch"):
		reason = fmt.Sprintf("an argument has to be named before a rule for %s allows something: write %s(ARGUMENT=%s)", r.tool, r.tool, spec)
	case matter == matterPath || matter == matterName:
		reason = cmp.Or(listed(r.tool, listedNames.FindStringSubmatch(spec)), unfitPath(r, spec), unfitName(r))
	case matter == matterCommand || matter == matterGit:
		reason = cmp.Or(listed(r.tool, listedCommands.FindStringSubmatch(spec)), unfitCommand(r, spec, denies))
	}
	if reason == "" {
		return nil
	}
	return ruleError(r.text, 0, "no call can match it: "+reason)
}

// listedNames and listedCommands match the first of several rules in the parentheses of one.
var (
	listedNames    = regexp.MustCompile(`^([^,]*), *(?:\*|\.{1,2}/|/|~/)`)
	listedCommands = regexp.MustCompile(`^(.*?[ :]\*|[\w-]+),`)
)

// listed returns for a rule about a tool why a list of rules in the parentheses of one matches nothing; "" if found is nil.
func listed(tool string, found []string) string {
	if found == nil {
		return ""
	}
	return fmt.Sprintf("it is one rule, not a list: write %s(%s), and the others as rules of their own", tool, found[1])
}

// unfitName returns why the name of a rule is none that a capability or a perception can have.
func unfitName(r Rule) string {
	if r.tool != "invoke_capability" && r.tool != "send_signal" || strings.Trim(r.spec, argumentName+".*") == "" {
		return ""
	}
	return "names of capabilities and perceptions are letters, digits, _, - and dots, as in " + r.tool + "(text.*)"
}

// variable matches a path that begins with a variable, address one that is a URL.
var (
	variable = regexp.MustCompile(`^\$(\w+)(?:/|$)`)
	address  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:/`)
)

// unfitPath returns why no file can have the path of a rule. Files whose names look like the
// beginning of a variable or a URL are left out of account.
func unfitPath(r Rule, spec string) string {
	if r.form != formPath || r.base != baseAny {
		return ""
	}
	if v := variable.FindStringSubmatch(spec); v != nil {
		to := map[string]string{"HOME": "~", "PWD": "."}[v[1]]
		if to == "" {
			return "variables are not replaced in a path: write out what $" + v[1] + " is"
		}
		return fmt.Sprintf("variables are not replaced in a path: write %s(%s%s)", r.tool, to, strings.TrimPrefix(spec, "$"+v[1]))
	}
	if at := address.FindString(spec); at != "" {
		return fmt.Sprintf("it is a URL, not a path: write %s(/%s)", r.tool, strings.TrimLeft(strings.TrimPrefix(spec, at), "/"))
	}
	return ""
}

// unfitCommand returns why no command can match the rule.
func unfitCommand(r Rule, spec string, denies bool) string {
	first, rest, _ := strings.Cut(spec, " ")
	program, more, colon := strings.Cut(first, ":")
	before, _, _ := strings.Cut(spec, "*")
	switch {
	case r.tool == "Git" && first == "git":
		return fmt.Sprintf("a rule for Git leaves out the word git: write Git(%s)", rest)
	case colon && r.tool != "Git" && r.form != formGlob && !strings.HasPrefix(more, "*") && strings.Trim(program, argumentName) == "":
		return fmt.Sprintf("no program has a colon in its name: write %s(%s:*)", r.tool, strings.TrimRight(strings.Join(strings.Fields(program+" "+more+" "+rest), " "), " :*"))
	case strings.Contains(r.words.First, " ") && r.form != formExact:
		return fmt.Sprintf("no program has a blank in its name: write %s(%s:*)", r.tool, r.words.First)
	case denies:
		return ""
	case r.form == formGlob && strings.Trim(before, " :") == "":
		return "a * inside a command is understood in deny rules only; name the command"
	case r.form == formGlob:
		return fmt.Sprintf("a * inside a command is understood in deny rules only: write whole commands, or %s(%s:*) for all that begin so", r.tool, strings.TrimRight(before, " :"))
	case r.words.First == "" && r.form != formExact:
		return fmt.Sprintf("only a single command of literal words stands before a *: write a rule for each command, such as %s(git log:*)", r.tool)
	case r.form == formExact && r.tool != "Git":
		if hard := shell.Parse(spec).Hard(); hard != "" {
			return "no rule allows such a command: " + hard
		}
	}
	return ""
}

// mcpPrefix begins the names of the tools of MCP servers, samplingPrefix those of their questions to
// models.
const (
	mcpPrefix      = "mcp__"
	samplingPrefix = "mcp_sampling__"
)

// Tools are the tools that there are, with which the rules that people write are compared.
type Tools struct {
	// Names are those of all tools but the ones of MCP servers; nil = not known.
	Names []string
	// Servers are the MCP servers, as they stand in the names of their tools; nil = not known.
	Servers []string
}

// foreign are the names that tools have in other agents, where they do not resemble ours.
var foreign = map[string]string{"Task": "Agent", "LS": "Glob", "TodoWrite": "Plan", "Shell": "Bash", "Terminal": "Bash", "Fetch": "WebFetch", "NotebookEdit": "Edit"}

// Check returns what is wrong with the name of the tool in a rule or a call, with the nearest name
// that there is; nil if there is such a tool. A server is looked for only if Servers are known.
func (t Tools) Check(rule string) error {
	name, _, _ := strings.Cut(rule, "(")
	known := append(append(make([]string, 0, len(t.Names)+2), t.Names...), "Agent", "Skill")
	for _, one := range known {
		if t.Names == nil || one == name || glob.Match(name, one) {
			return nil
		}
	}
	for _, prefix := range []string{mcpPrefix, samplingPrefix} {
		literal, _, star := strings.Cut(name, "*")
		if star && strings.HasPrefix(prefix, literal) {
			return nil
		}
		if of, ok := strings.CutPrefix(name, prefix); ok {
			return t.checkServer(of)
		}
	}
	if one, ok := foreign[name]; ok {
		return fmt.Errorf("there is no tool %q; here it is %q", name, one)
	}
	return fmt.Errorf("there is no tool %q%s", name, visible.Suggest(name, known))
}

// checkServer returns an error if no known server's tools begin so. name has no prefix.
func (t Tools) checkServer(name string) error {
	server, _, _ := strings.Cut(name, "__")
	for _, one := range t.Servers {
		if one == server || glob.Match(server, one) || strings.HasSuffix(name, "*") && glob.Match(name, one+"__") {
			return nil
		}
	}
	if t.Servers == nil {
		return nil
	}
	return fmt.Errorf("there is no MCP server %q%s", server, visible.Suggest(server, t.Servers))
}

// Unmatched returns an error for each rule about the tools with this prefix that is about none of
// names, which are all that there are.
func (p Policy) Unmatched(prefix string, names []string) (wrong []error) {
	for _, r := range p.Rules() {
		tool := r.Rule.tool
		if !strings.HasPrefix(tool, prefix) || slices.ContainsFunc(names, func(name string) bool { return glob.Match(tool, name) }) {
			continue
		}
		wrong = append(wrong, &RuleError{List: r.List, Rule: r.Rule.text, At: r.At, Column: 1, Reason: fmt.Sprintf("there is no tool %q%s", tool, visible.Suggest(tool, names))})
	}
	return wrong
}

// UnknownTools returns a *RuleError for each rule whose tool does not exist.
func (c Config) UnknownTools(t Tools) (wrong []error) {
	for _, list := range c.lists() {
		for _, text := range *list.texts {
			if err := t.Check(text.Rule); err != nil {
				wrong = append(wrong, &RuleError{List: list.name, Rule: text.Rule, At: text.At, Column: 1, Reason: err.Error()})
			}
		}
	}
	return wrong
}
