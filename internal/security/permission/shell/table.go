package shell

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

//go:embed programs.yaml
var programsYAML []byte

// table is programs.yaml, by the names of programs. It is read-only after readTable.
type table struct {
	wraps   map[string]wrapper
	shells  map[string]string            // bash, posix or other
	obey    map[string]words             // the words with which the program obeys; none is any use of it
	letters map[string]map[string]string // the long names of options of one letter
	// interpreters run what an option gives them in a language that is not read here, runners all that they are given, behind
	// one of the words if there are any; plain run nothing of it.
	interpreters, plain map[string]bool
	runners             map[string]words
}

// wrapper says how a program is given another to run. The zero wrapper is for a program without
// known options: its first word begins the command, and each option makes the command uncertain.
type wrapper struct {
	// Flags are the letters of options without a value, Valued of those with one: the rest of the
	// word or the next word.
	Flags  string
	Valued string
	// Long are long options without a value, without their dashes. A value stands behind a =, or makes the command uncertain.
	Long []string
	// Skip is how many operands stand before the command, such as the time of timeout.
	Skip int
	// Free means that the program adds nothing that matters when all its options are known: a
	// rule for the inner command is enough.
	Free bool
	// opaque means that the command is put together in a way that is not read here, so every word
	// may begin it; behind one of sub, if there are any.
	opaque bool
	sub    []string
}

// programs is programs.yaml. It is read once, when it is first needed.
var programs = sync.OnceValue(readTable)

// readTable panics when programs.yaml is wrong: it is part of this package.
func readTable() table {
	var file struct {
		Wraps                 map[string]wrapper
		Opaque, Obey, Runners map[string]words
		Shells                map[string]string
		Interpreters, Plain   string
		Letters               map[string]map[string]string
	}
	d := yaml.NewDecoder(bytes.NewReader(programsYAML))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		panic(fmt.Sprintf("programs.yaml: %v", err))
	}
	t := table{byName(file.Wraps), byName(file.Shells), byName(file.Obey), byName(file.Letters), set(file.Interpreters), set(file.Plain), byName(file.Runners)}
	for name, words := range byName(file.Opaque) {
		t.wraps[name] = wrapper{opaque: true, sub: words}
	}
	return t
}

// words is a list with blanks between.
type words []string

// UnmarshalYAML reads a text.
func (w *words) UnmarshalYAML(n *yaml.Node) error {
	*w = strings.Fields(n.Value)
	return nil
}

// byName gives each name of a key an entry of its own.
func byName[V any](families map[string]V) map[string]V {
	all := map[string]V{}
	for names, v := range families {
		for name := range strings.FieldsSeq(names) {
			all[name] = v
		}
	}
	return all
}

func set(names string) map[string]bool {
	all := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		all[name] = true
	}
	return all
}

// interprets reports whether the program runs a text in a language that is not read here. A name with a version,
// such as python3.12, is looked up without it, too.
func interprets(name string) bool {
	known := programs().interpreters
	return known[name] || known[strings.TrimRight(name, "0123456789.-")] || programs().runners[name] != nil
}

// LongNames returns the long names of a program's options of one letter; nil if none is known.
func LongNames(program string) map[string]string { return programs().letters[program] }

// MayRun reports whether the program may run what its arguments name. It is false for programs that are known to run none,
// and for those whose command is among the Commands.
func MayRun(name string) bool {
	w, wraps := programs().wraps[name]
	return !programs().plain[name] && !(wraps && !w.opaque) || interprets(name)
}

// Interpreter reports whether a prefix rule that spells these words allows everything that the
// sandbox permits, because the program runs a text in a language that is not read here,
// or what the workspace says (make, npm run). Rule.Warning tells the person that writes such a
// rule. words are literal; the first is the program.
func Interpreter(words []string) bool {
	if len(words) == 0 {
		return false
	}
	name := base(words[0])
	obeyed, obeys := programs().obey[name]
	return programs().shells[name] != "" || interprets(name) || obeys && (len(obeyed) == 0 || len(words) == 1 || slices.Contains(obeyed, words[1]))
}

// gitGlobals are the options of git before its sub-command that take the next word as their value.
var gitGlobals = set("-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source")

// GlobalValue reports whether an option before a sub-command takes the next word as its value. known is false for programs
// that nothing is known of.
func GlobalValue(program, option string) (valued, known bool) {
	return program == "git" && gitGlobals[option], program == "git"
}
