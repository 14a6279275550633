package shell

import (
	"os"
	"strings"

	"symbio/internal/security/lazyregexp"
)

// assign records a variable that the program sets for the shell itself, not for one command. It is a Problem if the shell,
// the dynamic loader or a program may obey it: an inherited variable is exported already, so setting it changes what later
// commands get.
func (a *analysis) assign(name string) {
	_, inherited := os.LookupEnv(name)
	switch {
	case SafeVariable(name):
	case obeyed[name] || inherited || name == "PAGER" || families().MatchString(name) || strings.HasSuffix(name, "SKILL_DIR"):
		a.runs("it sets the variable " + name + ", which changes what later commands do")
	}
}

// export records a variable that the program shows to the programs that it runs.
func (a *analysis) export(name string) {
	if !SafeVariable(name) {
		a.runs("it sets the variable " + name + " for the programs that it runs")
	}
}

// families matches the names of variables of the shell, the dynamic loader and git.
var families = lazyregexp.New(`^(BASH|LD_|DYLD_|GIT_|COMP_|HIST|READLINE_)`)

// obeyed are variables that bash gives a meaning of its own, in which it calculates, or that change how it reads a program.
var obeyed = set(`PATH HOME PWD SHELL TMPDIR TMOUT PS3 PROMPT_DIRTRIM FIGNORE FCEDIT EDITOR VISUAL HOSTFILE IGNOREEOF MAIL MAILCHECK OPTERR OPTIND OPTARG SECONDS
RANDOM SRANDOM LINENO EPOCHSECONDS EPOCHREALTIME UID EUID PPID DIRSTACK GROUPS HOSTNAME HOSTTYPE MACHTYPE OSTYPE PIPESTATUS FUNCNAME REPLY MAPFILE COPROC COMPREPLY
CHILD_MAX INSIDE_EMACS EMACS auto_resume histchars _ ENV CDPATH GLOBIGNORE SHELLOPTS IFS PS0 PS1 PS2 PS4 PROMPT_COMMAND POSIXLY_CORRECT EXECIGNORE FUNCNEST
GLOBSORT TIMEFORMAT MAILPATH INPUTRC OLDPWD`)
