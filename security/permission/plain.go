package permission

import (
	"slices"
	"strings"

	"symbio/internal/security/permission/file"
	"symbio/internal/security/permission/shell"
)

// plainPrograms are the programs that only look, with the letters and long options that may be given to them: what runs
// without a question where no box holds it.
var plainPrograms = map[string]string{
	"ls": "1aAdFhlrRSt", "cat": "bens", "head": "cnq", "tail": "cnq", "wc": "clmw", "stat": "L", "file": "b", "du": "ahs", "nl": "ba", "tac": "", "cut": "dfc", "rev": "",
	"pwd": "LP", "echo": "en", "true": "", "false": "", "uname": "amnrs", "whoami": "", "id": "Ggnu", "nproc": "", "arch": "", "which": "a",
	"basename": "", "dirname": "", "readlink": "ef", "realpath": "", "cksum": "", "sha256sum": "", "git": "",
}

// plainGit are the whole commands of git that only look. git status is none: it runs the filters that a repository names.
var plainGit = []string{"git branch", "git rev-parse HEAD", "git rev-parse --show-toplevel"}

// lookUnheld returns the verdict on a call that a rule lets look, on a machine without BoxLook: it runs only if it is one
// line of literal commands of plainPrograms, which read files of the working directory that the link lets Read read.
func (l Link) lookUnheld(x *execution, r *Rule) (v Verdict, found bool) {
	if x.unclear || len(x.program.Problems) > 0 || len(x.files) > 0 || len(x.program.Commands) == 0 {
		return v, false
	}
	for i := range x.program.Commands {
		if !l.isPlain(x.facts.locator, &x.program.Commands[i]) {
			return v, false
		}
	}
	v = decided(Allow, StageAllow, r, "allows this")
	v.Box, v.Why = BoxWork, "Nothing holds it on this machine; its programs only read, and with these words only files below the working directory that Read may read."
	return v, true
}

// isPlain reports whether a command only reads, and only files of the working directory that the link lets Read read.
func (l Link) isPlain(at *locator, c *shell.Command) bool {
	program := c.Words[0].Text
	options, known := plainPrograms[program]
	if !known || !c.Certain || !c.Literal() || len(c.Env) > 0 || !atHome(c.Dirs) {
		return false
	}
	if program == "git" {
		return slices.Contains(plainGit, strings.TrimSpace(c.Source()))
	}
	return !slices.ContainsFunc(c.Words[1:], func(w shell.Word) bool {
		if strings.HasPrefix(w.Text, "-") && len(w.Text) > 1 {
			return strings.Trim(w.Text[1:], options+"0123456789") != ""
		}
		return w.Tilde || program != "echo" && !l.mayRead(at, w.Text)
	})
}

// mayRead reports whether a file is below the working directory, where links and .. lead as the kernel goes, and the link
// lets Read read it without a question.
func (l Link) mayRead(at *locator, name string) bool {
	place := at.physical("", name, false)
	_, below := file.Below(at.physical("", ".", false).Real, place.Real)
	return below && place.Known && l.judgeRules(at.use("Read", name, place)).Action == Allow
}
