package shell

import (
	"slices"
	"strings"
)

// Use is a file that a command may read or write, as its arguments name it. It serves deny
// rules. Programs open files that no argument names, too; keeping them from denied files is
// the task of the sandbox.
type Use struct {
	Word  Word
	Read  Certainty
	Write Certainty
	// Tree says that everything below the path is used too; Hidden that this includes names with a dot.
	Tree, Hidden bool
}

// workingDir is the working directory as an operand, for programs that use it when none is
// given.
var workingDir = Word{Text: "."}

// anything is an operand of which nothing is known. It may name every file.
var anything = Word{Text: "?", Dynamic: true, Split: true, Pattern: string(Any)}

// gitReads and gitWrites are sub-commands of git that read or write the files they name.
var (
	gitReads  = set("add commit diff show blame grep log mv cat-file hash-object archive annotate bundle apply am")
	gitWrites = set("checkout restore reset mv rm clean apply am stash switch merge pull")
)

// Uses returns the files that the command's arguments name, with how certain it is that each
// is read or written. It reads no file system. It may be called from many goroutines.
func Uses(c Command) []Use {
	name := c.Name()
	f := c.files()
	switch {
	case len(c.Words) < 2 && !(f.Always && known(name).Files != nil):
		return nil
	case name == "find" || name == "gfind":
		return findUses(c)
	case f.Read == No && f.Write == No:
		return outputs(c)
	}
	u := user{files: f, Command: c, last: -1}
	u.tree = f.Always || c.hasLetter(f.Trees) || c.hasLong("recursive", "archive")
	u.hidden = f.Hidden || c.hasLetter(".u") || c.hasLong("hidden", "unrestricted", "no-ignore")
	if f.Writes != "" && (c.hasLetter(f.Writes) || c.hasLong("in-place", "inplace", "output")) {
		u.Write = Yes
	}
	if u.tree && u.Write == Yes && (name == "gofmt" || name == "rg") {
		u.Write = Maybe
	}
	return u.uses()
}

// files returns what the command does with its operands. A program that is not in the table
// reads them, and may write them.
func (c Command) files() files {
	switch f := known(c.Name()).Files; {
	case c.Name() == "git":
		return c.gitFiles()
	case f != nil:
		return *f
	}
	return files{Read: Yes, Write: Maybe, Hidden: true, Always: slices.ContainsFunc(c.Words[1:], func(w Word) bool { return w.Is("-r") || w.Is("-R") })}
}

// gitFiles is files for git, by its sub-command.
func (c Command) gitFiles() files {
	sub, at := c.gitSub()
	f := files{Skip: 1}
	switch {
	case at == 0:
		return files{}
	case sub.Dynamic:
		return files{Read: Yes, Write: Maybe}
	case !gitReads[sub.Text] && !gitWrites[sub.Text]:
		return files{Read: Yes, Write: Maybe, Skip: 1}
	}
	if gitReads[sub.Text] {
		f.Read = Yes
	}
	if gitWrites[sub.Text] {
		f.Write = Yes
	}
	return f
}

// user goes through the arguments of one command and collects the files.
type user struct {
	files
	Command
	tree, hidden bool
	operands     int
	ended        bool // options are over
	last         int  // which argument is the last operand
}

// uses returns the files of all arguments.
func (u *user) uses() (all []Use) {
	for i, w := range u.Words[1:] {
		if w.Dynamic || u.ended || !strings.HasPrefix(w.Text, "-") {
			u.last = i
		}
	}
	for i, w := range u.Words[1:] {
		switch {
		case w.Is("--") && !u.ended:
			u.ended = true
		case !u.ended && !w.Dynamic && strings.HasPrefix(w.Text, "-"):
			all = append(all, Use{w, max(u.Read, Maybe), max(u.Write, Maybe), false, u.hidden})
		case u.Name() == "git" && u.isMessage(i):
		default:
			all = append(all, u.operand(i)...)
		}
	}
	if u.operands <= u.Skip && u.tree {
		all = append(all, Use{workingDir, u.Read, u.Write, true, u.hidden})
	}
	return all
}

// isMessage reports whether argument i is a message for git, as in commit -m "$(…)": one word
// that only the shell knows, which is a text and names no file.
func (u *user) isMessage(i int) bool {
	w, before := u.Words[1+i], u.Words[i]
	return w.Dynamic && !w.Split && (before.Is("--message") || before.isCluster() && strings.HasSuffix(before.Text, "m"))
}

// operand returns the files that argument i may name.
func (u *user) operand(i int) (all []Use) {
	w, before := u.Words[1+i], u.Words[i]
	use := Use{w, u.Read, u.Write, u.tree, u.hidden}
	if u.Name() == "git" {
		if before.Is("-o") || before.Is("--output") {
			use.Write = Yes
			return []Use{use}
		}
		if !before.Dynamic && !before.Is("-c") && gitGlobal(before.Text) { // where it works
			return []Use{{w, Maybe, Maybe, true, true}}
		}
	}
	u.operands++
	if u.Name() == "sed" && u.operands == 1 && (w.Dynamic || !sedIsPlain(w.Text)) {
		all = append(all, Use{Word: anything, Write: Maybe})
	}
	if u.operands <= u.Skip && !w.Split && !u.hasLetter("ef") {
		return all
	}
	switch {
	case u.Name() == "dd":
		use.Read, use.Write = ddUse(w)
	case u.Last:
		use.Write = u.lastWrites(i)
	}
	return append(all, use)
}

// lastWrites returns how certain it is that argument i is the operand that a program like cp
// or mv writes: the last one.
func (u *user) lastWrites(i int) Certainty {
	before := u.Words[i]
	switch {
	case i == u.last || before.Is("--target-directory") || before.isCluster() && strings.HasSuffix(before.Text, "t"):
		return Yes
	case u.hasLetter("t") || u.hasLong("target-directory"): // -t DIRECTORY turns the order around
		return Maybe
	}
	return No
}

// ddUse returns what an operand of dd does: if= is read, of= is written.
func ddUse(w Word) (read, write Certainty) {
	switch p := w.Prefix(); {
	case w.Dynamic && p == "":
		return Maybe, Maybe
	case strings.HasPrefix(p, "if="):
		return Yes, No
	case strings.HasPrefix(p, "of="):
		return No, Yes
	}
	return No, No
}

// findUses returns the files that find's actions write, such as -fprint FILE, and, with
// -delete, the directories that it starts from.
func findUses(c Command) (uses []Use) {
	deletes, expression := false, false
	var starts []Use
	for i, w := range c.Words[1:] {
		switch before := c.Words[i]; {
		case w.Is("-delete"):
			deletes = true
		case before.Is("-fprint"), before.Is("-fprint0"), before.Is("-fprintf"), before.Is("-fls"):
			uses = append(uses, Use{Word: w, Write: Yes})
		}
		expression = expression || !w.Dynamic && (strings.HasPrefix(w.Text, "-") || w.Is("(") || w.Is("!"))
		if !expression {
			starts = append(starts, Use{Word: w, Write: Maybe, Tree: true, Hidden: true})
		}
	}
	if !deletes {
		return uses
	}
	if len(starts) == 0 {
		starts = []Use{{Word: workingDir, Write: Maybe, Tree: true, Hidden: true}}
	}
	return append(uses, starts...)
}

// outputs returns the files named by output options (-o FILE) of programs that use no other
// files.
func outputs(c Command) (uses []Use) {
	g := known(c.Name()).Guard
	if g == nil || g.Output == "" {
		return nil
	}
	for i, w := range c.Words[1:] {
		before := c.Words[i]
		if i > 0 && !before.Dynamic && len(before.Text) > 1 && before.Text[0] == '-' && strings.ContainsAny(before.Text[len(before.Text)-1:], g.Output) {
			uses = append(uses, Use{Word: w, Write: Yes})
		}
	}
	return uses
}

// isCluster reports whether the word is letters behind one dash, each an option.
func (w Word) isCluster() bool {
	return !w.Dynamic && len(w.Text) > 1 && w.Text[0] == '-' && w.Text[1] != '-'
}

// hasLetter reports whether an argument has one of the letters as an option behind one dash.
func (c Command) hasLetter(letters string) bool {
	return letters != "" && slices.ContainsFunc(c.Words[1:], func(w Word) bool { return w.isCluster() && strings.ContainsAny(w.Text[1:], letters) })
}

// hasLong reports whether an argument is one of the long options or an abbreviation of at
// least two letters, with or without a value.
func (c Command) hasLong(names ...string) bool {
	return slices.ContainsFunc(c.Words[1:], func(w Word) bool {
		if w.Dynamic || !strings.HasPrefix(w.Text, "--") || len(w.Text) < 4 {
			return false
		}
		long, _, _ := strings.Cut(w.Text[2:], "=")
		return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, long) })
	})
}
