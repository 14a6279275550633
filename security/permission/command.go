package permission

import (
	"slices"
	"strings"

	"symbio/internal/security/permission/shell"
)

// execution is what a call of Bash or Git would run. It is parsed once for all rules of a chain.
// Like facts it is for one goroutine.
type execution struct {
	// facts are the facts of the call.
	facts *facts
	// program is the parsed command of Bash, or the one of the arguments of Git.
	program shell.Program
	// text is what Bash was given; "" for Git. argv is what Git would execute; nil for Bash.
	text string
	argv []string
	// runs means that something may run that is not among the program's commands.
	runs bool
	// unclear means that the arguments are not what the tool takes. Then no rule can allow the
	// call.
	unclear bool
	// files are those that redirections open.
	files []redirection
	// kept reports whether a sandbox keeps the call from all files that the whole chain denies (Call.Kept).
	kept func() bool
}

// redirection is a file that a redirection opens, as a call of Read or Write, so that the rules
// of the file tools decide on it. A redirection has one entry for each directory that the command
// may be in. path is how the program names the file, for messages.
type redirection struct {
	*facts
	path string
}

// ran returns what the call would run, parsed at the first call; nil for a tool that runs no
// commands.
func (f *facts) ran() *execution {
	if f.subject.matter != matterCommand && f.subject.matter != matterGit {
		return nil
	}
	if f.shell != nil {
		return f.shell
	}
	x := &execution{facts: f, kept: func() bool { return false }}
	if f.subject.matter == matterGit {
		x.readGit(f.call.Args)
	} else {
		x.unclear = !f.readable || len(f.values) != 1
		// A call with several command arguments is unclear. All of them are parsed, for deny
		// rules.
		x.text = strings.Join(f.values, "\n")
		x.program = shell.Parse(x.text)
	}
	if _, ok := f.call.wants(); !ok {
		x.unclear = true
	}
	x.runs = x.program.Runs()
	for _, opened := range x.program.Files {
		if opened.Write {
			x.files = append(x.files, f.locator.opens("Write", opened)...)
		}
		if opened.Read {
			x.files = append(x.files, f.locator.opens("Read", opened)...)
		}
	}
	f.shell = x
	return x
}

// readGit reads the arguments of the Git tool: command, a string that is split at blanks, and
// args, a list of strings. Arguments that the tool does not know are appended to an uncertain
// copy of the command: no allow rule uses that, but deny rules see it, so that an unknown
// argument cannot hide something.
func (x *execution) readGit(args map[string]any) {
	words := []string{"git"}
	if v, ok := args["command"]; ok {
		s, is := v.(string)
		x.unclear = x.unclear || !is
		words = append(words, strings.Fields(s)...)
	}
	switch v := args["args"].(type) {
	case nil:
	case []any:
		for _, e := range v {
			s, is := e.(string)
			x.unclear = x.unclear || !is
			words = append(words, s)
		}
	default:
		x.unclear = true
		words = gather(words, v)
	}
	x.argv = words
	x.program = shell.Argv(words...)
	var more []string
	for _, name := range sortedKeys(args) {
		if name != "command" && name != "args" && name != AccessArg && name != "timeout" {
			more = gather(more, args[name])
			x.unclear = true
		}
	}
	if len(more) > 0 {
		guess := shell.Argv(append(slices.Clone(words), more...)...).Commands
		guess[0].Certain = false
		x.program.Commands = append(x.program.Commands, guess...)
	}
}
