package skills

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/skills/walk"
)

// MaxArguments is the limit of ActivateRequest.Arguments, in bytes.
const MaxArguments = 16 << 10

// placeholder matches what expand replaces in the text of a skill: its directory, in the spellings
// of several agent programs, and arguments. A backslash before an argument keeps it as it is.
var placeholder = lazyregexp.New(`\$\{(?:CLAUDE_)?SKILL_DIR\}|\{baseDir\}|\$\{CLAUDE_PLUGIN_ROOT\}|\\?\$(?:ARGUMENTS(?:\[\d{1,2}\]|\b)|\d\b)`)

// expand returns the text of a skill with its directory and the arguments in the places that name
// them. It replaces all in one pass, so that no argument is expanded: arguments are data.
//
// $ARGUMENTS is the whole text, $1 to $9 are its words, and $ARGUMENTS[0] is the first word. A text
// with $0 counts $0, $1 and so on from the first word. A word that there is not leaves its
// placeholder as it is: it may be code. A skill inside the program has no directory to name.
func (s Skill) expand(text, arguments string) string {
	x := expansion{skill: s, arguments: arguments, words: splitWords(arguments), first: 1}
	if slices.Contains(placeholder().FindAllString(text, -1), "$0") {
		x.first = 0
	}
	return placeholder().ReplaceAllStringFunc(text, x.replace)
}

// expansion is one call of expand.
type expansion struct {
	skill     Skill
	arguments string
	words     []string
	// first is the number of the first word in the form $N.
	first int
}

// replace returns what a placeholder stands for. Without arguments the text is likely to have code
// in these places, and only $ARGUMENTS is replaced, by nothing.
func (x expansion) replace(p string) string {
	name, isArgument := strings.CutPrefix(strings.TrimPrefix(p, `\`), "$")
	switch {
	case !isArgument || name[0] == '{':
		return x.skill.expandDir(p)
	case p[0] == '\\':
		return p[min(len(x.arguments), 1):]
	case name == "ARGUMENTS":
		return x.arguments
	}
	number, fromZero := strings.CutPrefix(strings.TrimSuffix(name, "]"), "ARGUMENTS[")
	at, _ := strconv.Atoi(number) // one or two digits, by the pattern
	if !fromZero {
		at -= x.first
	}
	if at < 0 || at >= len(x.words) {
		return p
	}
	return x.words[at]
}

// expandDir returns the directory that a placeholder names.
func (s Skill) expandDir(p string) string {
	switch {
	case s.files != nil:
		return p
	case p == "${CLAUDE_PLUGIN_ROOT}":
		return pluginRoot(s.Dir)
	}
	return s.Dir
}

// pluginRoot returns the directory of the plugin that a skill is part of: PLUGIN/skills/NAME or one
// level deeper. A skill that is part of none is its own plugin.
func pluginRoot(dir string) string {
	up := dir
	for range 3 {
		up = filepath.Dir(up)
		if _, err := walk.MarkOf(filepath.Join(up, ".claude-plugin", "plugin.json")); err == nil {
			return up
		}
	}
	return dir
}

// word matches one word of arguments, and quoted matches the parts of it that quotes keep together.
var (
	word   = lazyregexp.New(`(?:"[^"]*"?|'[^']*'?|[^\s"'])+`)
	quoted = lazyregexp.New(`"([^"]*)"?|'([^']*)'?`)
)

// splitWords splits arguments at white space. Single and double quotes keep a word together, and are
// left out; one that is not closed reaches to the end. Nothing else has a meaning: there is no shell.
func splitWords(text string) (words []string) {
	for _, w := range word().FindAllString(text, -1) {
		words = append(words, quoted().ReplaceAllString(w, "$1$2"))
	}
	return words
}
