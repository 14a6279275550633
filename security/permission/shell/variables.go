package shell

import (
	"maps"
	"os"
	"slices"
	"strings"
)

// variables has the variables that the program sets and uses, by name. The walk fills it;
// checkUses evaluates it at the end. The walk knows the values of a loop's variables alone.
type variables struct {
	// assigned are those that the program sets in any way but by a for loop.
	assigned map[string]bool
	// exported are those of them that programs may see, because they are exported, inherited, or
	// named like one of a tool.
	exported map[string]bool
	// looped are those that a for loop sets.
	looped map[string]bool
	// arrays are those that may be arrays, unread those that a declaring builtin sets to a value
	// of which not even the beginning is known.
	arrays, unread map[string]bool
	// unclearTest means that only the shell knows what some call of test asks.
	unclearTest bool
	// used are those whose value the program uses, with duplicates.
	used []string
	// trapped means that a trap may run between any two commands, and so may set any variable.
	trapped bool
}

// checkUses runs after the walk, when all assignments are known. It adds a Problem for each
// loop's variable that something else may set, since its value is then not that of the loop, and
// adds exported variables to the Env of each command that may see them. The order in which
// statements run is not followed: a variable that is set anywhere counts everywhere.
func (a *analysis) checkUses() {
	for _, name := range a.used {
		a.program.Computes = a.program.Computes || a.assigned[name]
		if (a.assigned[name] || a.trapped) && a.looped[name] {
			a.runs("it sets the variable " + name + ", which is a loop's, and uses it")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.unread)) {
		if a.unread[name] && a.arrays[name] {
			a.runs("it declares the array " + name + " with a value that may be expanded once more")
		}
	}
	if a.unclearTest && a.program.Computes {
		a.runs("only the shell knows what test asks, which may run commands")
	}
	for _, name := range slices.Sorted(maps.Keys(a.exported)) {
		for i := range a.program.Commands {
			// The slice is clipped, so that commands that share an Env do not see each other's
			// additions.
			if c := &a.program.Commands[i]; !inShell[c.Name()] || c.Words[0].Text != c.Name() {
				c.Env = append(c.Env[:len(c.Env):len(c.Env)], Assign{name, Word{Text: "$" + name, Dynamic: true, Pattern: string(Any)}})
			}
		}
	}
}

// inShell are builtins. Variables steer none of them, but for those in special and unsettled,
// which are Problems by themselves. So exported variables need not be added to them.
var inShell = set("echo printf test [ true false : cd pwd read export declare typeset readonly local unset set shift exit return break continue wait type umask getopts mapfile readarray eval trap")

// assign records a variable that the program sets for the shell itself, not for one command.
func (a *analysis) assign(name string) {
	a.assigned[name] = true
	a.steered(name)
}

// steered decides what setting a variable means: nothing for a harmless one, a Problem for one
// that the shell or the dynamic loader obeys, and an entry in exported for one that programs see.
// An inherited variable is exported already, so setting it changes what later commands get.
func (a *analysis) steered(name string) {
	switch _, inherited := os.LookupEnv(name); {
	case SafeVariable(name):
	case unsettled[name] || special[name] || strings.HasPrefix(name, "BASH") || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_"):
		a.runs("it sets the variable " + name + ", which changes what the shell does")
	case inherited || name == "PAGER" || strings.HasPrefix(name, "GIT_") || strings.HasSuffix(name, "SKILL_DIR"): // programs get it
		a.exported[name] = true
	}
}

// special are variables beside unsettled that bash gives a meaning of its own, or in which it
// calculates. Assigning them changes what later commands do, or evaluates the value as
// arithmetic.
var special = set("PATH HOME PWD SHELL TMPDIR TMOUT PS3 PROMPT_DIRTRIM FIGNORE FCEDIT EDITOR VISUAL HISTCMD HISTCONTROL HISTFILESIZE HISTIGNORE HISTSIZE HISTTIMEFORMAT HOSTFILE IGNOREEOF MAIL MAILCHECK OPTERR OPTIND OPTARG SECONDS RANDOM SRANDOM LINENO EPOCHSECONDS EPOCHREALTIME UID EUID PPID DIRSTACK GROUPS HOSTNAME HOSTTYPE MACHTYPE OSTYPE PIPESTATUS FUNCNAME REPLY MAPFILE COPROC COMP_CWORD COMP_KEY COMP_LINE COMP_POINT COMP_TYPE COMP_WORDBREAKS COMP_WORDS COMPREPLY READLINE_ARGUMENT READLINE_LINE READLINE_MARK READLINE_POINT CHILD_MAX INSIDE_EMACS EMACS auto_resume histchars _")

// steers reports whether programs or the shell may obey a variable. By custom such names are in
// upper case; the proxy variables are the exception.
func steers(name string) bool {
	return name == strings.ToUpper(name) && strings.ContainsAny(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") || strings.HasSuffix(name, "_proxy")
}

// unsettled are variables that change how bash reads a program or what it runs beside it
// (security.md 2.5). All names that begin with BASH belong to them, too (steered).
var unsettled = set("ENV CDPATH GLOBIGNORE SHELLOPTS BASHOPTS IFS PS0 PS1 PS2 PS4 PROMPT_COMMAND POSIXLY_CORRECT EXECIGNORE FUNCNEST GLOBSORT TIMEFORMAT MAILPATH HISTFILE INPUTRC OLDPWD")
