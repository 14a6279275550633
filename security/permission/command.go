package permission

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"symbio/internal/security/permission/file"
	"symbio/internal/security/permission/shell"
)

// execution is what a call of Bash or Git would run. It is parsed once for all rules of a chain.
// Like facts it is for one goroutine.
type execution struct {
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
}

// redirection is a file that a redirection opens, as a call of Read or Write, so that the rules
// of the file tools decide on it. A redirection has one entry for each directory that the command
// may be in. path is how the program names the file, for messages.
type redirection struct {
	*facts
	path string
}

// ran returns what the call would run, parsed at the first call; nil for a tool that runs no
// commands. Other methods use f.shell after one call of ran.
func (f *facts) ran() *execution {
	if f.subject.matter != matterCommand && f.subject.matter != matterGit {
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

// candidates returns the parts of a literal word that may name a file: the whole word, and what follows
// the signs that programs put before a name, as in --file=x, -fx, @x and HEAD:x. It errs on the
// side of too many, since they are used for denials. Programs expand a ~ behind such a sign by
// themselves or not, so it is taken for the home.
func candidates(w shell.Word) (all []shell.Word) {
	text := w.Text
	if w.Dynamic {
		return nil
	}
	if !strings.HasPrefix(text, "-") { // the whole of an option is no name
		all = append(all, w)
	}
	add := func(rest string) {
		if rest != "" && rest != text {
			all = append(all, shell.Word{Text: rest, Tilde: rest == "~" || strings.HasPrefix(rest, "~/")})
		}
	}
	for _, sign := range "=@:" {
		if i := strings.LastIndexByte(text, byte(sign)); i >= 0 {
			add(text[i+1:])
		}
	}
	for at := 2; at < min(len(text), 5) && text[0] == '-' && text[1] != '-'; at++ {
		add(text[at:])
	}
	if strings.HasPrefix(text, "@") && len(text) > 1 {
		add(text[1:])
	}
	return all
}
