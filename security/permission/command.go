package permission

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"symbio/security/permission/command"
	"symbio/security/permission/file"
	"symbio/security/permission/shell"
)

// execution is what a call of Bash or Git would run. It is parsed once for all rules of a chain.
// Slices indexed by command are parallel to program.Commands. Like facts it is for one goroutine.
type execution struct {
	// program is the parsed command of Bash, or that of the arguments of Git.
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
	// uses has, by command, the files that its arguments name. An entry is filled when first
	// needed, and done is true then.
	uses [][]fileUse
	done []bool // whose uses are filled
	// guards has the answers of shell.Guard so far.
	guards []guardResult
	// trees has the directories that were listed so far.
	trees []file.Tree
	// whole is the text as words, for what the tree does not show; nil until first needed.
	whole *command.Text
}

// guardResult is one remembered answer of shell.Guard: how many words of which command a rule
// spelled, and why that is not enough.
type guardResult struct {
	command, spelled int
	reason           string
}

// redirection is a file that a redirection opens, as a call of Read or Write, so that the rules
// of the file tools decide on it. A redirection has one entry for each directory that the command
// may be in. path is how the program names the file, for messages.
type redirection struct {
	*facts
	path string
}

// fileUse is a file that an argument of a command may name.
type fileUse struct {
	shell.Use
	// place is the file; the zero Location if it is not known.
	place file.Location
	// pattern is set when only the shell knows the name: an absolute path with the marks of
	// shell.Word.
	pattern string
	// any is true when nothing is known about the name.
	any bool
}

// ran returns what the call would run, parsed at the first call; nil for a tool that runs no
// commands. Other methods use f.shell after one call of ran.
func (f *facts) ran() *execution {
	if !f.isShell() {
		return nil
	}
	if f.shell != nil {
		return f.shell
	}
	r := &execution{}
	if f.subject.matter == matterGit {
		r.readGit(f.call.Args)
	} else {
		r.unclear = !f.readable || len(f.values) != 1
		// A call with several command arguments is unclear. All of them are parsed, for deny
		// rules.
		r.text = strings.Join(f.values, "\n")
		r.program = shell.Parse(r.text)
	}
	if _, ok := f.wants(); !ok {
		r.unclear = true
	}
	r.runs = r.program.Runs()
	n := len(r.program.Commands)
	r.uses, r.done = make([][]fileUse, n), make([]bool, n)
	for _, opened := range r.program.Files {
		if opened.Write {
			r.files = append(r.files, f.opens("Write", opened)...)
		}
		if opened.Read {
			r.files = append(r.files, f.opens("Read", opened)...)
		}
	}
	f.shell = r
	return r
}

// readGit reads the arguments of the Git tool: command, a string that is split at blanks, and
// args, a list of strings. Arguments that the tool does not know are appended to an uncertain
// copy of the command: no allow rule uses that, but deny rules see it, so that an unknown
// argument cannot hide something.
func (r *execution) readGit(args map[string]any) {
	words := []string{"git"}
	if v, ok := args["command"]; ok {
		s, is := v.(string)
		r.unclear = r.unclear || !is
		words = append(words, strings.Fields(s)...)
	}
	switch v := args["args"].(type) {
	case nil:
	case []any:
		for _, e := range v {
			s, is := e.(string)
			r.unclear = r.unclear || !is
			words = append(words, s)
		}
	default:
		r.unclear = true
		words = gather(words, v)
	}
	r.argv = words
	r.program = shell.Argv(words...)
	var more []string
	for _, name := range sortedKeys(args) {
		if name != "command" && name != "args" && name != AccessArg && name != "timeout" {
			more = gather(more, args[name])
			r.unclear = true
		}
	}
	if len(more) > 0 {
		guess := shell.Argv(append(slices.Clone(words), more...)...).Commands
		guess[0].Certain = false
		r.program.Commands = append(r.program.Commands, guess...)
	}
}

// opens returns a redirection as calls of a file tool, one for each directory in which it may
// happen. A file that cannot be located gets the zero Location, which no rule allows and which a
// deny rule may mean.
func (f *facts) opens(tool string, at shell.File) []redirection {
	var all []redirection
	add := func(dir string, known bool) {
		sub := look(Call{Tool: tool, Args: map[string]any{"file_path": at.Path.Text}, Dir: f.call.Dir})
		// One memory of links for the whole decision, so that it sees one state of the file
		// system.
		sub.links = f.links
		sub.places = []file.Location{{}}
		if known && !at.Path.Dynamic {
			sub.places[0] = f.physical(dir, at.Path.Text, at.Path.Tilde)
		}
		all = append(all, redirection{sub, at.Path.Text})
	}
	for _, d := range at.Dirs.Paths {
		add(d, true)
	}
	if at.Dirs.Unknown {
		add("", strings.HasPrefix(at.Path.Text, "/") || at.Path.Tilde)
	}
	return all
}

// physical returns where a path leads from dir, as the kernel goes there: a .. after a symbolic
// link leaves the link's target, so the path is not cleaned first. dir has the form of
// shell.Dirs. It returns the zero Location for a path that cannot be located.
func (f *facts) physical(dir, name string, tilde bool) file.Location {
	if name == "" || strings.ContainsRune(name, 0) {
		return file.Location{}
	}
	whole, ok := f.absolute(dir, name, tilde)
	if !ok {
		return file.Location{}
	}
	return f.links.LocateRaw(whole)
}

// absolute joins dir and name without cleaning. ok is false when the home or the working
// directory is not known. A tilde is only expanded where the shell would do so: '~/x' in quotes
// is a file in a directory named ~.
func (f *facts) absolute(dir, name string, tilde bool) (string, bool) {
	home := func(p string) (string, bool) {
		h, err := os.UserHomeDir()
		rest := strings.TrimPrefix(p, "~")
		// ~x, another user's home, is not known here.
		return h + rest, err == nil && filepath.IsAbs(h) && (rest == "" || rest[0] == '/')
	}
	switch {
	case tilde:
		return home(name)
	case strings.HasPrefix(name, "/"):
		return name, true
	case dir == "~" || strings.HasPrefix(dir, "~/"):
		at, ok := home(dir)
		return at + "/" + name, ok
	case strings.HasPrefix(dir, "/"):
		return dir + "/" + name, true
	}
	return f.call.Dir + "/" + dir + "/" + name, filepath.IsAbs(f.call.Dir)
}

// guard returns why the words after the first spelled ones of command i are dangerous, such as an
// option that runs a program; "" if they are not. Answers are remembered, as many rules ask for
// the same length.
func (f *facts) guard(i, spelled int) string {
	for _, g := range f.shell.guards {
		if g.command == i && g.spelled == spelled {
			return g.reason
		}
	}
	reason := shell.Guard(f.shell.program.Commands[i], spelled)
	f.shell.guards = append(f.shell.guards, guardResult{i, spelled, reason})
	return reason
}

// usesOf returns the files that the arguments of command i may name, in each directory that the
// command may be in. They are found when first needed, since most verdicts need no files.
func (f *facts) usesOf(i int) []fileUse {
	r := f.shell
	if r.done[i] {
		return r.uses[i]
	}
	r.done[i] = true
	c := r.program.Commands[i]
	for _, u := range shell.Uses(c) {
		dirs := c.Dirs.Paths
		if len(dirs) == 0 {
			// An unknown directory alone: the working directory stands for it, so that absolute
			// names count.
			dirs = []string{""}
		}
		for _, name := range candidates(u.Word) {
			for _, d := range dirs {
				r.uses[i] = append(r.uses[i], f.use(u, d, name))
			}
		}
	}
	return r.uses[i]
}

// use resolves one candidate in one directory. A name that only the shell knows becomes a pattern
// with the marks of shell.Word, or any when nothing about it is known, as for $X and $X/y.
func (f *facts) use(u shell.Use, dir string, name shell.Word) fileUse {
	if !name.Dynamic {
		return fileUse{Use: u, place: f.physical(dir, name.Text, name.Tilde)}
	}
	if name.Split || name.Pattern == string(shell.Any) {
		return fileUse{Use: u, any: true}
	}
	whole, ok := f.absolute(dir, name.Pattern, name.Tilde)
	if !ok || strings.HasPrefix(name.Pattern, string(shell.Any)) {
		return fileUse{Use: u, any: true}
	}
	return fileUse{Use: u, pattern: path.Clean(whole)}
}

// candidates returns the parts of a word that may name a file: the whole word, and what follows
// the signs that programs put before a name, as in --file=x, -fx, @x and HEAD:x. It errs on the
// side of too many, since they are used for denials. Programs expand a ~ behind such a sign by
// themselves or not, so it is taken for the home.
func candidates(w shell.Word) []shell.Word {
	all := []shell.Word{w}
	text := w.Text
	if w.Dynamic {
		text = w.Pattern
	} else if strings.HasPrefix(text, "-") {
		// The whole of an option is no name.
		all = nil
	}
	add := func(rest string) {
		if rest == "" || rest == text {
			return
		}
		c := shell.Word{Text: rest, Split: w.Split, Tilde: rest == "~" || strings.HasPrefix(rest, "~/")}
		if w.Dynamic && strings.ContainsAny(rest, shell.Marks) {
			c.Dynamic, c.Pattern = true, rest
		}
		all = append(all, c)
	}
	for _, sign := range "=@:" {
		if i := strings.LastIndexByte(text, byte(sign)); i >= 0 {
			add(text[i+1:])
		}
	}
	if len(text) > 2 && text[0] == '-' && text[1] != '-' {
		add(text[2:])
	}
	if strings.HasPrefix(text, "@") && len(text) > 1 {
		add(text[1:])
	}
	return all
}
