package permission

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"symbio/internal/security/permission/command"
	"symbio/internal/security/permission/endpoint"
	"symbio/internal/security/permission/glob"
	"symbio/internal/security/visible"
)

// maxRule is the length of a rule in bytes. It is far beyond what a person writes; a longer
// text is a mistake or an attack on the parser.
const maxRule = 4096

// Rule names calls: a tool, or a tool with a spec that its argument has to match. The grammar is
// Tool or Tool(spec), * in the tool's name stands for any characters. The zero Rule is a rule that
// could not be read: it allows nothing and denies everything.
type Rule struct {
	tool string // may hold *
	// form says how spec is read; it is formNone only for the zero Rule.
	form form
	// text is the rule as written.
	text string
	// spec is what stands in the parentheses, in the form that comparisons need.
	spec string
	// path is for formPath, address for formAddr.
	path    pathSpec
	address address
	// box is what has to hold the commands that a formBox allows.
	box Box
	// granted: a skill asks for it, so git:* is git and not git-anything (skills.md, C31).
	granted bool
	// words is for rules about commands; the zero Pattern is none.
	words command.Pattern
}

// form is how the spec of a rule is read.
type form int8

const (
	formNone     form = iota // the zero Rule
	formTool                 // no spec: every call of the tool
	formPath                 // * crosses /
	formName                 // a glob over a literal name
	formExact                // exactly this command
	formPrefix               // this command with any arguments
	formOperands             // this command with operands that match, and no options
	formGlob                 // a command with * somewhere; for deny only
	formDomain               // a host, or *. and a host
	formAddr                 // an address, with or without a port
	formOpaque               // whatever the tool makes of it; allows only by an argument's name
	formBox                  // every command, in Rule.box; for allow only
)

// RuleError says why a rule cannot be used. ParseRule, ParseGrant, ParseList and Config.Policy
// return it; Column lets an editor or a message point at the character.
type RuleError struct {
	// List is the list that the rule stands in, such as "deny"; "" when it stands alone.
	List string
	Rule string
	// At is where the rule is written (RuleText.At); "" = not known.
	At string
	// Column is where in the rule, counted in characters from 1.
	Column int
	Reason string
}

func (e *RuleError) Error() string {
	text := strings.TrimSpace(fmt.Sprintf("%s rule %q", e.List, e.Rule))
	if e.At != "" {
		text += " (" + e.At + ")"
	}
	return fmt.Sprintf("%s, column %d: %s", text, e.Column, e.Reason)
}

// String is the rule as it was written.
func (r Rule) String() string { return r.text }

// Equal reports whether both mean the same calls: they were written equally, and for the directory of the same skill.
func (r Rule) Equal(o Rule) bool {
	return r.text == o.text && r.spec == o.spec && r.path.dir == o.path.dir && r.granted == o.granted
}

// MarshalText writes the rule as it was written.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r.text), nil }

// ParseRule reads a rule of a configuration. Anything but a whole, clear rule is a *RuleError,
// never a wider rule. The Rule beside an error is the zero Rule, which denies
// everything. It reads no file.
func ParseRule(text string) (Rule, error) {
	tool, spec, err := splitRule(text)
	if err != nil {
		return Rule{}, err
	}
	r := Rule{text: text, tool: tool, spec: spec}
	bad := func(at int, reason string) (Rule, error) {
		return Rule{}, ruleError(text, len(tool)+1+at, reason)
	}
	if len(tool) == len(text) {
		r.form = formTool
		return r, nil
	}
	if strings.Contains(tool, "*") {
		// The meaning of a spec differs from tool to tool, and a walk has to know its omissions.
		for _, known := range knownTools() {
			if glob.Match(tool, known) {
				return Rule{}, ruleError(text, 0, fmt.Sprintf("a spec has to stand beside one tool's name, and %s also means %s", tool, known))
			}
		}
		r.form = formOpaque
		return r, nil
	}
	var at int
	var reason string
	switch subjectOf(tool).matter {
	case matterPath:
		r.form = formPath
		r.path, at, reason = parsePath(spec)
	case matterCommand, matterGit:
		at, reason = r.readCommand()
	case matterURL:
		at, reason = r.readDomain()
	case matterName:
		r.form = formName
	default:
		r.form = formOpaque
	}
	if reason != "" {
		return bad(at, reason)
	}
	return r, nil
}

// ruleError returns a RuleError for the byte offset at, turned into characters. An offset beyond
// the text is its end.
func ruleError(text string, at int, reason string) error {
	return &RuleError{Rule: text, Column: utf8.RuneCountInString(text[:min(at, len(text))]) + 1, Reason: reason}
}

// splitRule cuts a rule into its tool and its spec; spec is "" when the rule has no parentheses.
// Parentheses inside the spec have to be balanced. It refuses characters that cannot be seen,
// since a reader of the configuration could not tell what such a rule means.
func splitRule(text string) (tool, spec string, err error) {
	bad := func(at int, reason string) (string, string, error) { return "", "", ruleError(text, at, reason) }
	if text == "" {
		return bad(0, "it is empty")
	}
	if len(text) > maxRule {
		return bad(maxRule, fmt.Sprintf("it is longer than %d bytes", maxRule))
	}
	if !utf8.ValidString(text) {
		return bad(len(text)-len(strings.TrimLeftFunc(text, func(c rune) bool { return c != utf8.RuneError })), "it is not valid UTF-8")
	}
	for i, c := range text {
		if visible.Hidden(c) || unicode.IsSpace(c) && c != ' ' {
			return bad(i, fmt.Sprintf("the character %U is not allowed: it cannot be seen", c))
		}
	}
	tool, rest, specced := strings.Cut(text, "(")
	if at, reason := checkTool(tool); reason != "" {
		return bad(at, reason)
	}
	if !specced {
		return tool, "", nil
	}
	depth := 1
	for i := range len(rest) {
		switch rest[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 && i < len(rest)-1 {
			return bad(len(tool)+1+i+1, "something follows the closing parenthesis")
		}
	}
	if depth != 0 {
		return bad(len(text), "the closing parenthesis is missing")
	}
	spec = rest[:len(rest)-1]
	switch {
	case spec == "":
		return bad(len(tool)+1, "the parentheses are empty: write the tool's name alone to mean every call of it")
	case strings.TrimSpace(spec) != spec:
		return bad(len(tool)+1, "blanks beside the parentheses are not allowed")
	}
	return tool, spec, nil
}

// checkTool returns what is wrong with a tool's name and at which byte; "" if nothing. A known
// name in the wrong case is an error, as a deny rule for "bash" would silently deny nothing.
func checkTool(tool string) (at int, reason string) {
	if tool == "" {
		return 0, "the tool's name is missing"
	}
	for i, c := range []byte(tool) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '*'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '_' || c == '-')) {
			return i, "a tool's name is letters, digits, _ and -, after a letter; * stands for any of them"
		}
	}
	for _, known := range knownTools() {
		if tool != known && strings.EqualFold(tool, known) {
			return 0, fmt.Sprintf("tools' names are case-sensitive: did you mean %s?", known)
		}
	}
	return 0, ""
}

// readCommand reads the spec of a Bash or Git rule and sets the form: exact, prefix (git log:* or
// git log *), operands (rm:*.tmp) or glob. A * in any other place is a glob, which only deny
// rules use. A spec of nothing but * is the whole tool.
func (r *Rule) readCommand() (at int, reason string) {
	if strings.HasPrefix(r.spec, boxMark) {
		return readBox(r)
	}
	head, prefix := cutRest(r.spec)
	switch {
	case strings.Trim(r.spec, "*") == "":
		r.form, r.spec = formTool, ""
	case prefix && strings.TrimSpace(head) == "":
		return 0, "the command is missing before the *"
	// A * before the last one makes it a glob.
	case prefix && !strings.Contains(head, "*"):
		r.form, r.spec = formPrefix, strings.TrimSpace(head)
	case operandSpec(r.spec):
		r.form = formOperands
	case strings.Contains(r.spec, "*"):
		r.form = formGlob
	default:
		r.form = formExact
	}
	if r.form == formExact || r.form == formPrefix || r.form == formOperands {
		r.words = commandWords(r.tool, r.spec, r.form)
	}
	return 0, ""
}

// operandSpec reports whether a spec is a command and a pattern for its operands, such as
// rm:*.tmp or rm *.tmp. The pattern is one word at the end.
func operandSpec(spec string) bool {
	star := strings.Index(spec, "*")
	if star < 2 || spec[star-1] != ':' && spec[star-1] != ' ' {
		return false
	}
	return !strings.Contains(spec[star:], " ") && strings.Trim(spec[:star-1], " ") != ""
}

// cutRest cuts the :* or " *" that stands for any rest off the end of a pattern.
func cutRest(pattern string) (head string, ok bool) {
	if head, ok = strings.CutSuffix(pattern, ":*"); !ok {
		head, ok = strings.CutSuffix(pattern, " *")
	}
	return head, ok
}

// readDomain reads the spec of a WebFetch rule: domain:HOST, domain:*.HOST or ip:ADDRESS. An
// address written as a domain is refused, in every spelling, because the two are compared in
// different ways. The host is kept as the DNS has it, in ASCII.
func (r *Rule) readDomain() (at int, reason string) {
	if text, ok := strings.CutPrefix(r.spec, "ip:"); ok {
		r.form = formAddr
		r.address, reason = parseAddress(text)
		return len("ip:"), reason
	}
	host, ok := strings.CutPrefix(r.spec, "domain:")
	if !ok {
		return 0, "write domain:HOST, domain:*.HOST or ip:ADDRESS"
	}
	at = len("domain:")
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	sub := strings.HasPrefix(host, "*.")
	host = strings.TrimPrefix(host, "*.")
	// The same function reads the host of a URL, so both are compared in one form.
	host, valid := endpoint.ParseHost(host)
	if !valid {
		return at, "a host is names of letters, digits and - joined by dots; * may only stand alone in front, as in *.example.com"
	}
	if endpoint.IsNumber(host) {
		return at, "an address is written ip:" + host
	}
	if sub {
		host = "*." + host
	}
	r.form, r.spec = formDomain, host
	return 0, ""
}

// ParseList cuts an allowed-tools text into rules: separated by blanks or commas outside
// parentheses, each once, in their order. It does not parse the rules.
// Unbalanced parentheses are an error, and then it returns no rules.
func ParseList(text string) ([]string, error) {
	var rules []string
	seen := map[string]bool{}
	depth, start := 0, 0
	add := func(rule string) {
		if rule != "" && !seen[rule] {
			seen[rule] = true
			rules = append(rules, rule)
		}
	}
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth < 0 {
				return nil, ruleError(text, i, "a parenthesis is closed that was not opened")
			}
		case depth == 0 && (c == ',' || unicode.IsSpace(c)):
			add(text[start:i])
			start = i + utf8.RuneLen(c)
		}
	}
	if depth > 0 {
		return nil, ruleError(text, len(text), "the closing parenthesis is missing")
	}
	add(text[start:])
	return rules, nil
}
