package permission

import (
	"path"
	"strings"
)

// separators end a word of a command, wherever they stand: a deny looks into quotes too, because a
// quoted text may be another command.
const separators = " \t\r\n;|&()<>{},`!="

// command is what a deny rule looks at in a shell command: its words, and whether there is something
// in it whose value only the shell knows. Quotes and backslashes are taken away, so that r\m and
// 'rm' are rm.
type command struct {
	text  string
	words []string
}

// unquote takes away what a shell takes away; the continuation of a line comes first.
var unquote = strings.NewReplacer("\\\n", "", `\`, "", `'`, "", `"`, "")

func readShell(text string) command {
	plain := unquote.Replace(text)
	return command{
		text:  strings.Join(strings.Fields(plain), " "),
		words: strings.FieldsFunc(fold(plain), func(c rune) bool { return strings.ContainsRune(separators, c) }),
	}
}

// mayRun reports whether the command could hold one that begins with head: its words in this order
// with nothing but options between them, its options in any spelling anywhere after the first.
func (c command) mayRun(head string) bool {
	head = unquote.Replace(fold(head))
	if first, _, _ := strings.Cut(head, " "); !strings.HasPrefix(first, "-") && !strings.Contains(fold(c.text), path.Base(first)) {
		return false // most rules are about something else, and end here
	}
	var names, options []string
	for _, w := range strings.Fields(head) {
		if strings.HasPrefix(w, "-") && len(w) > 1 {
			options = append(options, w)
		} else {
			names = append(names, w)
		}
	}
	for i := range c.words {
		if c.namesAt(i, names) && c.hasOptions(c.words[i:], options) {
			return true
		}
	}
	return false
}

// namesAt reports whether the words from i on are the names, options and what may belong to an
// option left out. The first may be a path to the program, or the program's name and a dash
// (git-push for git).
func (c command) namesAt(i int, names []string) bool {
	if len(names) == 0 {
		return true
	}
	first := path.Base(c.words[i])
	if c.words[i] != names[0] && first != path.Base(names[0]) && !strings.HasPrefix(first, path.Base(names[0])+"-") {
		return false
	}
	if dashed := strings.Join(names, "-"); len(names) > 1 && strings.HasPrefix(first, dashed) {
		return true
	}
	rest := names[1:]
	option := false
	for _, w := range c.words[i+1:] {
		if len(rest) == 0 {
			break
		}
		switch {
		case w == rest[0]:
			rest, option = rest[1:], false
		case strings.HasPrefix(w, "-"):
			option = true
		case option:
			option = false
		default:
			return false
		}
	}
	return len(rest) == 0
}

// hasOptions reports whether each wanted option may be among the words: -rf as -r -f, -fr, or as long
// options that begin with those letters; a long one also abbreviated or as its letter.
func (c command) hasOptions(words, wanted []string) bool {
	letters, long := "", []string{}
	for _, w := range words {
		if l, ok := strings.CutPrefix(w, "--"); ok {
			long = append(long, l)
			letters += l[:min(1, len(l))]
		} else if l, ok := strings.CutPrefix(w, "-"); ok {
			letters += l
		}
	}
	letters = strings.ToLower(letters)
	for _, w := range wanted {
		if l, ok := strings.CutPrefix(w, "--"); ok {
			found := l == "" || strings.Contains(letters, strings.ToLower(l[:1]))
			for _, have := range long {
				found = found || strings.HasPrefix(l, have) || strings.HasPrefix(have, l)
			}
			if !found {
				return false
			}
			continue
		}
		for _, letter := range strings.ToLower(w[1:]) {
			if !strings.ContainsRune(letters, letter) {
				return false
			}
		}
	}
	return true
}

// holds reports whether all the pieces of a spec with * in it occur in the command.
func (c command) holds(spec string) bool {
	text := fold(c.text)
	for piece := range strings.SplitSeq(fold(strings.ReplaceAll(spec, ":*", "*")), "*") {
		if !strings.Contains(text, strings.Join(strings.Fields(piece), " ")) {
			return false
		}
	}
	return true
}
