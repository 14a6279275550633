package shell

import (
	"slices"
	"strings"
)

// Use is a file that a command may read or write, as its arguments name it. It serves deny rules
// and floors, so it errs on the side of too many. Programs open files that no argument names,
// too; keeping them from denied files is the task of the sandbox.
type Use struct {
	// Word names the file, possibly behind an option's name as in --file=x. It is relative to the
	// command's Dirs.
	Word Word
	// Read and Write say how certain it is that the command does so. Maybe turns a denial into a
	// question.
	Read  Certainty
	Write Certainty
	// Tree means that everything below the path is used, too. Hidden means that this includes
	// names with a dot.
	Tree, Hidden bool
}

// workingDir is the working directory as an operand, for programs that walk it when no operand is
// given.
var workingDir = Word{Text: "."}

// anything is an operand of which nothing is known. It may name every file.
var anything = Word{Text: "?", Dynamic: true, Split: true, Pattern: string(Any)}

// gitReads and gitWrites are sub-commands of git that read or write the files they name.
var (
	// gitReads are the sub-commands of git that read the files which their operands name. A
	// sub-command in neither set reads them, and may write them.
	gitReads = set("add commit diff show blame grep log mv cat-file hash-object archive annotate bundle apply am")
	// gitWrites are those that write them.
	gitWrites = set("checkout restore reset mv rm clean apply am stash switch merge pull")
)

// Uses returns the files that the command's arguments name, with how certain it is that each is
// read or written. It reads no file system and may be called from many goroutines. It returns nil
// for a command without arguments, unless such a program walks the working directory by itself.
func Uses(c Command) []Use {
	name := c.Name()
	f := c.files()
	if c.hasLong(f.Opens...) {
		f.Read = Yes
	}
	switch {
	case len(c.Words) < 2 && !(f.Always && known(name).Files != nil):
		return nil
	case name == "find" || name == "gfind":
		return findUses(c)
	case f.Read == No && f.Write == No:
		return append(outputs(c), c.inputs(f)...)
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
	return append(u.uses(), c.inputs(f)...)
}

// inputs returns the files that options make a program read (files.From). An option of which only the
// shell knows whether it is one may name any file, and so does a list of files that are read.
func (c Command) inputs(f files) (uses []Use) {
	for i, w := range c.Words[1:] {
		if f.From+strings.Join(f.Froms, "") == "" || w.Is("--") {
			break
		}
		if w.Dynamic {
			if w.MayBeOption() && strings.ContainsRune(w.Pattern, Any) {
				uses = append(uses, Use{Word: anything, Read: Maybe})
			}
			continue
		}
		value, attached, is := f.input(w.Text)
		if is && !attached && i+2 < len(c.Words) {
			uses = append(uses, Use{Word: c.Words[i+2], Read: Yes})
		} else if is {
			uses = append(uses, Use{Word: Word{Text: value}, Read: Yes})
		}
		if is && f.Read == Yes && (strings.HasPrefix(w.Text, "--files") || c.Name() == "tar" && strings.Contains(w.Text, "T")) {
			uses = append(uses, Use{Word: anything, Read: Maybe})
		}
	}
	return uses
}

// whole are options that begin like one of files.Froms, and abbreviate none.
var whole = set("exclude include file")

// input reports whether an argument is, or may abbreviate, an option that names a file to read.
// attached says that the name is in the same word.
func (f files) input(text string) (value string, attached, is bool) {
	if long, ok := strings.CutPrefix(text, "--"); ok {
		long, value, attached = strings.Cut(long, "=")
		return value, attached, long != "" && slices.ContainsFunc(f.Froms, func(name string) bool { return name == long || strings.HasPrefix(name, long) && !whole[long] })
	}
	if at := strings.IndexAny(text, f.From); at > 0 && text[0] == '-' {
		return text[at+1:], at+1 < len(text), true
	}
	return "", false, slices.Contains(f.Froms, text)
}

// files returns what the command does with its operands. A program that is not in the table reads
// them, may write them, and walks directories if it has -r or -R.
func (c Command) files() files {
	switch f := known(c.Name()).Files; {
	case c.Name() == "git":
		return c.gitFiles()
	case f != nil:
		return *f
	}
	return files{Read: Yes, Write: Maybe, Hidden: true, Always: slices.ContainsFunc(c.Words[1:], func(w Word) bool { return w.Is("-r") || w.Is("-R") })}
}

// gitFiles is files for git, by its sub-command. Skip leaves out the sub-command itself, which is
// the first operand.
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

// user goes through the arguments of one command and collects the files. It is used once.
type user struct {
	files
	Command
	// tree and hidden are Use.Tree and Use.Hidden of the operands.
	tree, hidden bool
	operands     int
	// ended is true behind --: all further words are operands.
	ended bool
	// last is the index of the last operand in Words[1:]; -1 if there is none.
	last int
}

// uses returns the files of all arguments. An option may have a file's name inside, so it is a
// Use that is Maybe at least; package permission takes the name out of it.
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
	// grep -r PATTERN without a file walks the working directory.
	if u.operands <= u.Skip && u.tree {
		all = append(all, Use{workingDir, u.Read, u.Write, true, u.hidden})
	}
	return all
}

// isMessage reports whether argument i is a message for git, as in commit -m "$(…)": one word
// that only the shell knows, which is a text and names no file. Without this each such commit
// would be a question wherever a rule denies a file.
func (u *user) isMessage(i int) bool {
	w, before := u.Words[1+i], u.Words[i]
	return w.Dynamic && !w.Split && (before.Is("--message") || before.isCluster() && strings.HasSuffix(before.Text, "m"))
}

// operand returns the files that argument i may name, and counts it.
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
	// A program for sed that is not plain may write to any file by its w command.
	if u.Name() == "sed" && u.operands == 1 && (w.Dynamic || !sedIsPlain(w.Text)) {
		all = append(all, Use{Word: anything, Write: Maybe})
	}
	// The pattern of grep is no file, unless -e or -f has given it: then the first operand is a
	// file (inputs has the value of -f). A word that may be split may also hold a file.
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

// lastWrites returns how certain it is that argument i is the operand that cp, mv and their like
// write. That is the last one, or the value of -t, which turns the order around.
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

// findUses returns the files that find's options read (-files0-from) and actions write, such as
// -fprint FILE, and, with -delete, the directories that it starts from. The names that find reads are
// no uses: it reads directories, and -exec is a command of its own.
func findUses(c Command) (uses []Use) {
	deletes, expression := false, false
	var starts []Use
	for i, w := range c.Words[1:] {
		switch before := c.Words[i]; {
		case w.Is("-delete"):
			deletes = true
		case before.Is("-fprint"), before.Is("-fprint0"), before.Is("-fprintf"), before.Is("-fls"):
			uses = append(uses, Use{Word: w, Write: Yes})
		case before.Is("-files0-from"):
			uses = append(uses, Use{Word: w, Read: Yes})
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
// files. The letter must end its word, as in -so FILE.
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

// isCluster reports whether the word is literally letters behind one dash, each of which may be
// an option.
func (w Word) isCluster() bool {
	return !w.Dynamic && len(w.Text) > 1 && w.Text[0] == '-' && w.Text[1] != '-'
}

// hasLetter reports whether an argument has one of the letters as an option behind one dash. The
// value of another option in the same word may also match, which errs on the safe side.
func (c Command) hasLetter(letters string) bool {
	return letters != "" && slices.ContainsFunc(c.Words[1:], func(w Word) bool { return w.isCluster() && strings.ContainsAny(w.Text[1:], letters) })
}

// hasLong reports whether an argument is one of the long options or an abbreviation of at least
// two letters, with or without a value.
func (c Command) hasLong(names ...string) bool {
	return slices.ContainsFunc(c.Words[1:], func(w Word) bool {
		if w.Dynamic || !strings.HasPrefix(w.Text, "--") || len(w.Text) < 4 {
			return false
		}
		long, _, _ := strings.Cut(w.Text[2:], "=")
		return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, long) })
	})
}
