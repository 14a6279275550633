package permission

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/permission/glob"
	"symbio/internal/security/permission/shell"
	"symbio/internal/security/visible"
)

// ParseAllow reads a rule by which a person allows calls: as ParseRule, but a rule that can match no
// call is an error, too.
func ParseAllow(text string) (Rule, error) {
	r, err := ParseRule(text)
	if err = cmp.Or(err, r.CheckMatches(false)); err != nil {
		return Rule{}, err
	}
	return r, nil
}

// CheckMatches returns a *RuleError if no call can match the rule or it looks like a mistake, with the nearest form that
// some call matches. denies says whether the rule stands in a list that denies, where more is understood.
func (r Rule) CheckMatches(denies bool) error {
	if r.form == formBox {
		if denies {
			return ruleError(r.text, 0, "a box says what holds an allowed command, so it stands in an allow list only")
		}
		return nil
	}
	reason, nearest := "", r.text
	for _, m := range mistakes {
		if m.pattern().MatchString(nearest) {
			reason = cmp.Or(reason, m.reason)
			nearest = strings.TrimSuffix(m.pattern().ReplaceAllString(nearest, m.nearest), "()")
		}
	}
	_, spec, _ := strings.Cut(strings.TrimSuffix(r.text, ")"), "(")
	matter := subjectOf(r.tool).matter
	next, lead := nextCommand().FindStringSubmatch(spec), "it probably means something else: "
	switch {
	case reason != "":
		reason += ": write " + nearest
	case r.form == formTool:
	case r.form == formPath && variable().MatchString(spec):
		reason = "variables are not replaced in a path: write out what " + strings.Trim(variable().FindString(spec), "/") + " is"
	case matter != matterCommand && matter != matterGit:
		if argument, _ := r.named(); r.form == formOpaque && !denies && argument == "" && (strings.HasPrefix(r.tool, mcpPrefix) || r.tool == "WebSearch") {
			lead, reason = never, fmt.Sprintf("an argument has to be named before a rule for %s allows something: write %s(ARGUMENT=%s)", r.tool, r.tool, spec)
		}
	case next != nil && !shell.MayRun(next[2]):
		reason = fmt.Sprintf("%s: write %s(%s), or a comma of the command in quotes", notList, r.tool, next[1])
	case !denies:
		lead, reason = never, unfitCommand(r, spec)
	}
	if reason == "" {
		return nil
	}
	return ruleError(r.text, 0, lead+reason)
}

// never begins a reason that holds for every call.
const never = "no call can match it: "

// The beginnings of rules about paths, about the names of agents and the like, and about skills. Each is a group.
const (
	ofPath   = `^(Read|Write|Edit|MultiEdit|Glob|Grep)\(`
	ofName   = `^(Agent|replicate_agent|invoke_capability|send_signal)\(`
	ofSkill  = `^(Skill|activate_skill|skill_load|skill_fetch)\(`
	ofScript = `^(Skill|activate_skill|skill_load|skill_fetch|run_skill_script)\(`
	ofWords  = `^(Read|Write|Edit|MultiEdit|Glob|Grep|Skill|activate_skill|skill_load|skill_fetch|run_skill_script)\(`
	ofShell  = `^(Bash|Git)\(`
)

// mistake is a kind of rule that matches no call.
type mistake struct {
	pattern func() *regexp.Regexp
	// nearest is what pattern is replaced with for a rule that some call matches.
	nearest, reason string
}

// The reasons of several mistakes.
const (
	notList  = "it is one rule, not a list, and the others are rules of their own"
	notNamed = "the argument is not named in it"
	notRegex = "* stands for any characters, and there are no regular expressions"
	noColon  = "no program has a colon in its name"
)

// named matches what stands behind an argument's name; a group is what a colon without a blank is followed by.
const named = `(?: *= *| *: +|:([^* ]))`

// mistakes are what people write who know rules from elsewhere: names of arguments first, then lists. Files whose names look
// like a URL, a variable, a list or what a shell quotes are left out of account: a * stands for what is odd in them.
var mistakes = []mistake{
	{lazyregexp.New(`^mcp__((?:[A-Za-z0-9-]|_[A-Za-z0-9-])+)_*(?:\(.*)?$`), "mcp__${1}__*", "the tools of an MCP server are mcp__SERVER__TOOL"},
	{lazyregexp.New(ofPath + `[A-Za-z][A-Za-z0-9+.-]+://+`), "$1(/", "it is a URL, not a path"},
	{lazyregexp.New(ofPath + `(?:file_?[pP]ath|file_?name|file|path|pattern|glob|directory|dir)` + named), "$1($2", notNamed},
	{lazyregexp.New(ofName + `(?:agent|name|capability|perception)` + named), "$1($2", notNamed},
	{lazyregexp.New(ofScript + `(?:name|skill|skill_?[nN]ame|script)` + named), "$1($2", notNamed},
	{lazyregexp.New(ofShell + `(?:command|cmd|args)` + named), "$1($2", notNamed},
	{lazyregexp.New(`^(?:(mcp__[\w-]+)\(([A-Za-z][\w-]+)|(WebSearch)\((query))(?: += *|= +| *: +|:([^/*\d ]))`), "$1$3($2$4=$5", "an argument is named with = and no blank"},
	{lazyregexp.New(ofWords + `(.*)\(([^()|]*)\|[^()]*\)(.*)\)$`), "$1($2$3$4)", notList},
	{lazyregexp.New(ofShell + `[({]([\w./-]+)[,|][^(){}]*[)}](.*)\)$`), "$1($2$3)", notList},
	{lazyregexp.New(ofPath + `(?:([^;|]*?) *[;|].*|([^,]*?) *,(?:.*,)? *[*./~"'` + "`" + `].*|([^,]*\.[A-Za-z]\w*)(?: *, *[^,]*\.[A-Za-z]\w*)+|(.*?)(?: +(?:or|and))? +(?:~?/|\.[\w./]).*|(\*\.\w+)(?: +(?:or|and))? +\*\..*)\)$`), "$1($2$3$4$5$6)", notList},
	{lazyregexp.New(ofScript + `([^,;|]+?)(?: *[,;|]| (?:or|and) ).*\)$`), "$1($2)", notList},
	{lazyregexp.New(ofShell + `(` + pieces + `*[ :]\*|[\w-]+|["'][^"']*["']) *,.*\)$`), "$1($2)", notList},
	{lazyregexp.New(ofShell + `(` + pieces + `*:\*) *[;|].*:\*\)$`), "$1($2)", notList},
	{lazyregexp.New(ofShell + `([\w-]+)(?:; *|\|)[\w-]+(?:[;|] *[\w-]+)*([ :]\*)?\)$`), "$1($2$3)", notList},
	{lazyregexp.New(`^(mcp__[\w-]+)\(([\w-]+ *[=:][^,;|=]*?) *[,;|] *[\w-]+(?: *=|: ).*\)$`), "$1($2)", notList},
	{lazyregexp.New(ofShell + `(?:\^(.*?)(?: ?\.\*)?\$?|([a-z_-]+)\.\*\$?)\)$`), "$1($2$3:*)", notRegex},
	{lazyregexp.New(ofWords + `\^(.*?)\.?\*?\$?\)$`), "$1($2*)", notRegex},
	{lazyregexp.New(`^(Bash)\([$%#] +`), "$1(", "the prompt is no part of a command"},
	{lazyregexp.New(ofShell + `((?:` + pieces + `|,)*[^: "']) *: +\*(.*)\)$`), "$1($2:*$3)", "no blank stands in :*"},
	{lazyregexp.New(`^(Bash)\(([^ "']*/)(?::\*| \*)?\)$`), "$1($2*)", "a program's path does not end in a slash"},
	{lazyregexp.New(`^([^BG(][^(]*|G[lr][^(]*)\(([\w-]+=)?(?:"([^"]*)"|'([^']*)'|` + "`([^`]*)`" + `)(:\*| \*)?\)$`), "$1($2$3$4$5$6)", "no quotes stand around it"},
	{lazyregexp.New(`^(Bash|Git)\((?:"([^"/ ]*[ *][^"]*)"|'([^'/ ]*[ *][^']*)'|` + "`([^`]*)`" + `)(.*)\)$`), "$1($2$3$4$5)", "no quotes stand around a command"},
	{lazyregexp.New(`^(Bash)\(([^ /]+)\\ `), "$1($2 ", "no program has a blank in its name"},
	{lazyregexp.New(`^Git\((?:[^ ]*/)?git(?:[ :*-]+(.*))?\)$`), "Git($1)", "a rule for Git leaves out the word git"},
	{lazyregexp.New(ofShell + `([^*]*[\w-]):\)$`), "$1($2:*)", "a colon at its end is one of :*, or stands in quotes"},
	{lazyregexp.New(ofShell + `([\w-]+): *([^*: )][^*]*?)(?:[ :]+\*)?\)$`), "$1($2 $3:*)", noColon},
	{lazyregexp.New(ofShell + `([\w-]+): *([^*: )].*)\)$`), "$1($2 $3)", noColon},
	{lazyregexp.New(ofName + `(?:[^\w.*-]+([\w.*-]*).*|([\w.*-]+)[^\w.*-].*)\)$`), "$1($2$3)", "one name stands in it, and nothing else"},
	{lazyregexp.New(ofSkill + `(?:/+(.*)|(.*)[: ]\*)\)$`), "$1($2$3)", "one name stands in it, and nothing else"},
	{lazyregexp.New(ofPath + `(?:\$HOME|%HOME%|%USERPROFILE%)(/|\))`), "$1(~$2", "variables are not replaced in a path"},
	{lazyregexp.New(ofPath + `\$PWD(/|\))`), "$1(.$2", "variables are not replaced in a path"},
	{lazyregexp.New(ofPath + `(.*/):\*\)$`), "$1($2*)", ":* is for commands"},
	{lazyregexp.New(ofPath + `(.*):\*\)$`), "$1($2)", ":* is for commands"},
	{lazyregexp.New(ofPath + `(.*/)?(?:"([^"]*)"?|'([^']*)'?|` + "`([^`]*)`?" + `| +)`), "$1($2$3$4$5", "neither a quote nor a blank begins a name in it"},
}

// variable matches a variable in a path, but not the names of files that web frameworks begin with a $.
var variable = lazyregexp.New(`^(?:\$(?:home|pwd|env:\w+)|%\w+%)(?:/|$)|(?:^|/)\$[A-Z][A-Z0-9_]*(?:/|$)`)

// pieces matches what a shell does not take for the end of a word, a quoted piece as a whole; nextCommand what may be the
// second of several commands.
const pieces = `(?:[^"',\\]|"[^"]*"|'[^']*'|\\.)`

var nextCommand = lazyregexp.New(`^(` + pieces + `+?) *, *(\w[\w.-]*)(?:[ :,]|$)`)

// unfitCommand returns why no command can match the rule where it allows something.
func unfitCommand(r Rule, spec string) string {
	before, _, _ := strings.Cut(spec, "*")
	begin := before[:1+strings.LastIndexAny(before, " :")] // without the beginning of a word, or of a piece in quotes
	if at := strings.LastIndexAny(begin, `"'`); at >= 0 && strings.Count(begin, begin[at:at+1])%2 == 1 {
		begin = begin[:at]
	}
	switch {
	case r.form == formGlob && strings.Trim(begin, " :") == "":
		return "a * inside a command is understood in deny rules only; name the command"
	case r.form == formGlob:
		return fmt.Sprintf("a * inside a command is understood in deny rules only: write whole commands, or %s(%s:*) for all that begin so", r.tool, strings.TrimRight(begin, " :"))
	case r.words.First == "" && r.form != formExact:
		return fmt.Sprintf("only a single command of literal words stands before a *: write a rule for each command, such as %s(git log:*)", r.tool)
	case r.form == formExact && r.tool != "Git":
		if hard := shell.Parse(spec).Hard(); hard != "" {
			return "no rule allows such a command: " + hard
		}
	}
	return ""
}

// mcpPrefix begins the names of the tools of MCP servers, samplingPrefix the names of their questions to
// models.
const (
	mcpPrefix      = "mcp__"
	samplingPrefix = "mcp_sampling__"
)

// Tools are the tools that there are, with which the rules that people write are compared.
type Tools struct {
	// Names are the names of all tools but the ones of MCP servers; nil = not known.
	Names []string
	// Servers are the MCP servers, as they stand in the names of their tools; nil = not known.
	Servers []string
}

// foreign has the tools of other programs under other names, in lower case, each with ours; "" where there is none and the
// name resembles one.
var foreign = map[string]string{
	"agent": "replicate_agent", "task": "replicate_agent", "skill": "activate_skill", "todowrite": "Plan", "todo": "Plan",
	"read_file": "Read", "write_file": "Write", "replace": "Edit", "notebookedit": "",
	"ls": "Glob", "list": "Glob", "list_directory": "Glob", "file_search": "Glob",
	"search": "Grep", "grep_search": "Grep", "search_file_content": "Grep", "toolsearch": "",
	"shell": "Bash", "terminal": "Bash", "run_shell_command": "Bash",
	"fetch": "WebFetch", "web_fetch": "WebFetch", "web_search": "WebSearch", "google_web_search": "WebSearch",
}

// Foreign returns our name of a tool that other programs call name; "" if there is no such tool here. ok is false for other
// names.
func Foreign(name string) (tool string, ok bool) {
	tool, ok = foreign[strings.ToLower(name)]
	return tool, ok
}

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
	if tool, ok := Foreign(name); tool != "" {
		return fmt.Errorf("there is no tool %q; here it is %q", name, cmp.Or(aliases[tool], tool))
	} else if ok {
		return fmt.Errorf("there is no tool %q here", name)
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
		wrong = append(wrong, &RuleError{List: r.List, Rule: r.Rule.text, At: r.At, Column: 1,
			Reason: fmt.Sprintf("there is no tool %q%s", tool, visible.Suggest(tool, names))})
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
