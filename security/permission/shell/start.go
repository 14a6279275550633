package shell

import "strings"

// Start is how to execute a Program's Canonical text: by the shell that it was parsed for, without any
// file that the shell would read first. Without bash nothing may be executed: another shell reads the
// text differently.
func Start(canonical string) []string {
	return []string{"bash", "--norc", "--noprofile", "-c", canonical}
}

// Clean is an environment without the variables that change how bash reads a program or what it runs
// beside it (security.md 2.5). It does not touch what steers other programs.
func Clean(env []string) []string {
	var kept []string
	for _, e := range env {
		name, _, ok := strings.Cut(e, "=")
		if !ok || strings.HasPrefix(name, "BASH_") || unsettled[name] || strings.ContainsAny(name, "%()") {
			continue
		}
		kept = append(kept, e)
	}
	return kept
}

// unsettled are those variables, beside all that begin with BASH_: BASH_ENV is a file to read, BASH_FUNC_…
// a function that may bear a program's name.
var unsettled = map[string]bool{
	"ENV": true, "CDPATH": true, "GLOBIGNORE": true, "SHELLOPTS": true, "BASHOPTS": true, "IFS": true, "PS0": true, "PS1": true, "PS2": true, "PS4": true,
	"PROMPT_COMMAND": true, "POSIXLY_CORRECT": true, "EXECIGNORE": true, "FUNCNEST": true, "GLOBSORT": true, "TIMEFORMAT": true, "MAILPATH": true, "HISTFILE": true, "INPUTRC": true, "OLDPWD": true,
}
