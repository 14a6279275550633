package shell

import "strings"

// How sure something is.
const (
	No    = iota
	Maybe // nobody here knows the program well enough
	Yes
)

// Use is a file that a command may read or write, as its arguments name it. It serves deny rules: what
// it leaves out is what the sandbox is for.
type Use struct {
	Word  Word
	Read  int
	Write int
	// Tree says that everything below the path is used too; Hidden that this includes names with a dot.
	Tree, Hidden bool
}

// role says what a program does with its operands.
type role struct {
	read, write int
	// skip is how many operands are no files, such as grep's pattern.
	skip int
	// last: only the last operand is written, the others are read, as of cp.
	last bool
	// trees are the letters of options that make it go below a directory; always says that it does.
	trees  string
	always bool
	// writes are the letters of options that make it write what it otherwise reads, or write a file.
	writes string
	// hidden says that it looks into files with a dot by itself.
	hidden bool
}

var (
	reads  = role{read: Yes}
	writes = role{write: Yes}
	none   = role{}
)

// roles is the one place that knows them; a program that is not here may read and write what it names.
var roles = table(map[string]role{
	"cat tac head tail less more most bat batcat nl od hexdump strings base64 base32 md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum cmp comm join paste fold fmt pr rev expand unexpand column cut wc zcat bzcat xzcat zless zmore view readelf objdump nm . source look tsort ptx": reads,
	"diff sdiff vimdiff colordiff":                  {read: Yes, trees: "r", hidden: true},
	"grep egrep fgrep zgrep bzgrep xzgrep pcregrep": {read: Yes, skip: 1, trees: "rR", hidden: true},
	"rg": {read: Yes, skip: 1, always: true}, "ag ack": {read: Yes, skip: 1, always: true},
	"sed gsed": {read: Yes, skip: 1, writes: "i"}, "perl ruby": {read: Yes, write: Maybe, writes: "i"},
	"awk gawk mawk nawk": {read: Yes, skip: 1}, "jq": {read: Yes, skip: 1}, "yq": {read: Yes, skip: 1, writes: "i"},
	"sort": {read: Yes, writes: "o"}, "uniq xxd": {read: Yes, last: true}, "shuf": {read: Yes, writes: "o"},
	"touch truncate rmdir mkdir mkfifo mknod unlink shred tee sponge fallocate": writes,
	"rm":                               {write: Yes, trees: "rR", hidden: true},
	"chmod chown chgrp setfacl chattr": {write: Yes, skip: 1, trees: "R", hidden: true},
	"cp scp rsync install ditto":       {read: Yes, write: Yes, last: true, trees: "rRa", hidden: true},
	"mv":                               {read: Yes, write: Yes, always: true, hidden: true},
	"ln link":                          {read: Yes, write: Yes},
	"dd":                               {read: Yes, write: Yes},
	"tar bsdtar zip 7z 7za cpio ar":    {read: Yes, write: Yes, always: true, hidden: true},
	"gzip gunzip bzip2 bunzip2 xz unxz zstd lzma compress uncompress": {read: Yes, write: Yes},
	"unzip unrar": {read: Yes, write: Maybe}, "patch ed ex vi vim nvim nano emacs": {read: Yes, write: Yes},
	"gofmt goimports prettier black": {read: Yes, write: Maybe, always: true},
	"split csplit":                   {read: Yes, write: Yes},
	"ls dir stat du df tree find fd fdfind locate which whereis type file basename dirname realpath readlink pwd cd pushd popd test [ echo printf true false : date sleep seq kill ps env printenv id whoami uname hostname wait exit return set export unset declare typeset local readonly read trap shift umask ulimit hash alias jobs tty clear yes expr tput uptime free nproc arch groups users who": none,
})

func table(by map[string]role) map[string]role {
	all := map[string]role{}
	for names, r := range by {
		for name := range strings.FieldsSeq(names) {
			all[name] = r
		}
	}
	return all
}

// gitReads and gitWrites are sub-commands of git that read or write the files they name.
var (
	gitReads  = set("add commit diff show blame grep log cat-file hash-object archive annotate bundle apply am")
	gitWrites = set("checkout restore reset mv rm clean apply am stash switch merge pull")
)

func set(names string) map[string]bool {
	all := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		all[name] = true
	}
	return all
}

// Known reports whether what the program does with the files that it names is known.
func Known(name string) bool {
	_, ok := roles[name]
	return ok || name == "git"
}

// Writes reports whether the program is known to write files that it names.
func Writes(name string) bool {
	r := roles[name]
	return r.write == Yes || r.writes != "" || r.last
}

// Uses are the files that the command's arguments name.
func Uses(c Command) []Use {
	if len(c.Words) < 2 && !roles[c.Name()].always {
		return nil
	}
	name := c.Name()
	r, ok := roles[name]
	if !ok {
		r = role{read: Yes, write: Maybe, hidden: true}
		for _, w := range c.Words[1:] {
			r.always = r.always || w.Is("-r") || w.Is("-R")
		}
	}
	if name == "git" {
		r = gitRole(c)
	}
	if name == "find" || name == "gfind" {
		return findUses(c)
	}
	if r.read == No && r.write == No {
		return outputs(c, guards[name])
	}
	tree := r.always || hasLetter(c, r.trees) || hasLong(c, "recursive", "archive")
	hidden := r.hidden || hasLetter(c, ".u") || hasLong(c, "hidden", "unrestricted", "no-ignore")
	if r.writes != "" && (hasLetter(c, r.writes) || hasLong(c, "in-place", "inplace", "output")) {
		r.write = Yes
	}
	if tree && r.write == Yes && (name == "gofmt" || name == "rg") {
		r.write = Maybe
	}
	var uses []Use
	operands, ended := 0, false
	lastOperand := -1
	for i, w := range c.Words[1:] {
		if w.Dynamic || ended || !strings.HasPrefix(w.Text, "-") {
			lastOperand = i
		}
	}
	for i, w := range c.Words[1:] {
		if w.Is("--") && !ended {
			ended = true
			continue
		}
		u := Use{Word: w, Read: r.read, Write: r.write, Tree: tree, Hidden: hidden}
		if !ended && !w.Dynamic && strings.HasPrefix(w.Text, "-") {
			u.Tree, u.Read, u.Write = false, max(r.read, Maybe), max(r.write, Maybe)
			uses = append(uses, u)
			continue
		}
		if before := c.Words[i]; name == "git" && w.Dynamic && !w.Split && !before.Dynamic && (before.Is("--message") || strings.HasPrefix(before.Text, "-") && !strings.HasPrefix(before.Text, "--") && strings.HasSuffix(before.Text, "m")) {
			continue // a message
		}
		if name == "git" && (c.Words[i].Is("-o") || c.Words[i].Is("--output")) {
			u.Write = Yes
			uses = append(uses, u)
			continue
		}
		if name == "git" && gitGlobals[c.Words[i].Text] && !c.Words[i].Dynamic && !c.Words[i].Is("-c") {
			u.Read, u.Write, u.Tree, u.Hidden = Maybe, Maybe, true, true // where it works
			uses = append(uses, u)
			continue
		}
		operands++
		if name == "sed" && operands == 1 && (w.Dynamic || !sedIsPlain(w.Text)) {
			uses = append(uses, Use{Word: Word{Text: "?", Dynamic: true, Split: true, Pattern: string(Any)}, Write: Maybe})
		}
		if operands <= r.skip && !w.Split && !hasLetter(c, "ef") {
			continue
		}
		if r.last {
			if i == lastOperand || targets(c.Words[i]) {
				u.Write = Yes
			} else {
				u.Write = Maybe // -t DIRECTORY turns the order around
				if !hasLetter(c, "t") && !hasLong(c, "target-directory") {
					u.Write = No
				}
			}
		}
		if name == "dd" {
			u.Read, u.Write = b2i(strings.HasPrefix(w.Prefix(), "if="))*Yes, b2i(strings.HasPrefix(w.Prefix(), "of="))*Yes
			if w.Dynamic && w.Prefix() == "" {
				u.Read, u.Write = Maybe, Maybe
			}
		}
		uses = append(uses, u)
	}
	if operands <= r.skip && tree {
		uses = append(uses, Use{Word: Word{Text: "."}, Read: r.read, Write: r.write, Tree: true, Hidden: hidden})
	}
	return uses
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
		starts = []Use{{Word: Word{Text: "."}, Write: Maybe, Tree: true, Hidden: true}}
	}
	return append(uses, starts...)
}

// outputs are the files that a program which otherwise uses none is told to write.
func outputs(c Command, g guard) (uses []Use) {
	for i, w := range c.Words[1:] {
		before := c.Words[i]
		if g.output == "" || i == 0 || before.Dynamic || len(before.Text) < 2 || before.Text[0] != '-' {
			continue
		}
		if strings.ContainsAny(before.Text[len(before.Text)-1:], g.output) {
			uses = append(uses, Use{Word: w, Write: Yes})
		}
	}
	return uses
}

// targets reports whether the word behind an option is the directory that is written, as behind -t.
func targets(before Word) bool {
	return !before.Dynamic && (before.Is("--target-directory") || len(before.Text) > 1 && before.Text[0] == '-' && before.Text[1] != '-' && strings.HasSuffix(before.Text, "t"))
}

func gitRole(c Command) role {
	for i := 1; i < len(c.Words); i++ {
		w := c.Words[i]
		switch {
		case w.Dynamic:
			return role{read: Yes, write: Maybe}
		case gitGlobals[w.Text]:
			i++
		case strings.HasPrefix(w.Text, "-"):
		case gitReads[w.Text] || gitWrites[w.Text]:
			return role{read: Yes * b2i(gitReads[w.Text]), write: Yes * b2i(gitWrites[w.Text]), skip: 1}
		default:
			return role{read: Yes, write: Maybe, skip: 1}
		}
	}
	return none
}

func hasLetter(c Command, letters string) bool {
	if letters == "" {
		return false
	}
	for _, w := range c.Words[1:] {
		if !w.Dynamic && len(w.Text) > 1 && w.Text[0] == '-' && w.Text[1] != '-' && strings.ContainsAny(w.Text[1:], letters) {
			return true
		}
	}
	return false
}

func hasLong(c Command, names ...string) bool {
	for _, w := range c.Words[1:] {
		if w.Dynamic || !strings.HasPrefix(w.Text, "--") || len(w.Text) < 4 {
			continue
		}
		long, _, _ := strings.Cut(w.Text[2:], "=")
		for _, n := range names {
			if strings.HasPrefix(n, long) {
				return true
			}
		}
	}
	return false
}

// GlobalValue reports whether an option before a sub-command takes the next word as its value. known is
// false for programs that nothing is known of.
func GlobalValue(program, option string) (valued, known bool) {
	if program == "git" {
		return gitGlobals[option], true
	}
	return false, false
}
