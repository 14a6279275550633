package shell

import (
	"maps"
	"os"
	"slices"
	"strings"
)

// variables are those that the program itself sets and uses.
type variables struct {
	assigned map[string]bool
	exported map[string]bool // those of them that programs may see
	looped   map[string]bool // those that loops over words set
	used     []string        // those whose value it uses
	trapped  bool            // a trap may run at any time
}

// checkUses finds values that are not what a loop says, and the commands that get variables of the program. It is not
// followed which runs first. Of its other variables nothing is known but that they are no names: what uses them is dynamic.
func (a *analysis) checkUses() {
	for _, name := range a.used {
		a.program.Computes = a.program.Computes || a.assigned[name]
		if (a.assigned[name] || a.trapped) && a.looped[name] {
			a.runs("it sets the variable " + name + ", which is a loop's, and uses it")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.exported)) {
		for i := range a.program.Commands {
			if c := &a.program.Commands[i]; !inShell[c.Name()] || c.Words[0].Text != c.Name() {
				c.Env = append(c.Env[:len(c.Env):len(c.Env)], Assign{name, Word{Text: "$" + name, Dynamic: true, Pattern: string(Any)}})
			}
		}
	}
}

// inShell are commands of the shell itself that no variable steers but those of special.
var inShell = set("echo printf test [ true false : cd pwd read export declare typeset readonly local unset set shift exit return break continue wait type umask getopts mapfile readarray eval trap")

// assign notes a variable that the program sets.
func (a *analysis) assign(name string) {
	a.assigned[name] = true
	a.steered(name)
}

func (a *analysis) steered(name string) {
	switch _, inherited := os.LookupEnv(name); {
	case SafeVariable(name):
	case unsettled[name] || special[name] || strings.HasPrefix(name, "BASH") || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_"):
		a.runs("it sets the variable " + name + ", which changes what the shell does")
	case inherited || name == "PAGER" || strings.HasPrefix(name, "GIT_") || strings.HasSuffix(name, "SKILL_DIR"): // programs get it
		a.exported[name] = true
	}
}

// special are variables, beside unsettled, that the shell looks at, or in which it calculates.
var special = set("PATH HOME PWD SHELL TMPDIR TMOUT PS3 PROMPT_DIRTRIM FIGNORE FCEDIT EDITOR VISUAL HISTCMD HISTCONTROL HISTFILESIZE HISTIGNORE HISTSIZE HISTTIMEFORMAT HOSTFILE IGNOREEOF MAIL MAILCHECK OPTERR OPTIND OPTARG SECONDS RANDOM SRANDOM LINENO EPOCHSECONDS EPOCHREALTIME UID EUID PPID DIRSTACK GROUPS HOSTNAME HOSTTYPE MACHTYPE OSTYPE PIPESTATUS FUNCNAME REPLY MAPFILE COPROC COMP_CWORD COMP_KEY COMP_LINE COMP_POINT COMP_TYPE COMP_WORDBREAKS COMP_WORDS COMPREPLY READLINE_ARGUMENT READLINE_LINE READLINE_MARK READLINE_POINT CHILD_MAX INSIDE_EMACS EMACS auto_resume histchars _")

// steers reports whether a variable may be one that programs or the shell look at. By custom those are
// upper case.
func steers(name string) bool {
	return name == strings.ToUpper(name) && strings.ContainsAny(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") || strings.HasSuffix(name, "_proxy")
}

// unsettled are variables that change how bash reads a program or what it runs beside it (security.md 2.5), beside all that
// begin with BASH.
var unsettled = set("ENV CDPATH GLOBIGNORE SHELLOPTS BASHOPTS IFS PS0 PS1 PS2 PS4 PROMPT_COMMAND POSIXLY_CORRECT EXECIGNORE FUNCNEST GLOBSORT TIMEFORMAT MAILPATH HISTFILE INPUTRC OLDPWD")
