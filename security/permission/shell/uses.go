package shell

import (
	"slices"
	"strings"
)

// Use is a file that a command may read or write, as its arguments name it. It serves deny rules: what
// it leaves out is what the sandbox is for.
type Use struct {
	Word  Word
	Read  Certainty
	Write Certainty
	// Tree says that everything below the path is used too; Hidden that this includes names with a dot.
	Tree, Hidden bool
}

// workingDir is the working directory as an operand.
var workingDir = Word{Text: "."}

// anything is an operand of which nothing is known.
var anything = Word{Text: "?", Dynamic: true, Split: true, Pattern: string(Any)}

// gitReads and gitWrites are sub-commands of git that read or write the files they name.
var (
	gitReads  = set("add commit diff show blame grep log mv cat-file hash-object archive annotate bundle apply am")
	gitWrites = set("checkout restore reset mv rm clean apply am stash switch merge pull")
)

// Uses are the files that the command's arguments name.
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

// files says what the command does with its operands. Of a program that is not known it may be anything.
func (c Command) files() files {
	switch f := known(c.Name()).Files; {
	case c.Name() == "git":
		return c.gitFiles()
	case f != nil:
		return *f
	}
	return files{Read: Yes, Write: Maybe, Hidden: true, Always: slices.ContainsFunc(c.Words[1:], func(w Word) bool { return w.Is("-r") || w.Is("-R") })}
}

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

// user is a command whose operands are gone through.
type user struct {
	files
	Command
	tree, hidden bool
	operands     int
	ended        bool // options are over
	last         int  // which argument is the last operand
}

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

// isMessage reports whether argument i is a text for git that only the shell knows.
func (u *user) isMessage(i int) bool {
	w, before := u.Words[1+i], u.Words[i]
	return w.Dynamic && !w.Split && (before.Is("--message") || before.isCluster() && strings.HasSuffix(before.Text, "m"))
}

// operand is what argument i names.
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

// lastWrites says whether argument i is written by a program that writes its last operand.
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

// ddUse is what an operand of dd is.
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

// findUses are what find deletes, and the files that it is given to write.
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

// outputs are the files that a program which otherwise uses none is told to write.
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

// isCluster reports whether the word is options of one letter.
func (w Word) isCluster() bool {
	return !w.Dynamic && len(w.Text) > 1 && w.Text[0] == '-' && w.Text[1] != '-'
}

func (c Command) hasLetter(letters string) bool {
	return letters != "" && slices.ContainsFunc(c.Words[1:], func(w Word) bool { return w.isCluster() && strings.ContainsAny(w.Text[1:], letters) })
}

func (c Command) hasLong(names ...string) bool {
	return slices.ContainsFunc(c.Words[1:], func(w Word) bool {
		if w.Dynamic || !strings.HasPrefix(w.Text, "--") || len(w.Text) < 4 {
			return false
		}
		long, _, _ := strings.Cut(w.Text[2:], "=")
		return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, long) })
	})
}
