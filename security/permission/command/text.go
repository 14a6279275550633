package command

import (
	"path"
	"strings"

	"symbio/security/permission/glob"
)

// separators end a word of a command, also inside quotes: a quoted text may be another command,
// as in sh -c "a; b". = and ! are among them for x=$(rm) and for !rm.
const separators = " \t\r\n;|&()<>{},`!="

// Text is the words of a text that may be a shell command but was not parsed as one, such as the
// script of an unknown program. Deny rules look for their words in it; a wrong hit costs a
// question or a denial, so it never serves allow rules. Quotes and backslashes are removed, so
// that r\m and 'rm' are both rm. The zero Text has no words. It does not change and may be used
// from many goroutines.
type Text struct {
	// text has one blank between words and keeps its case; for Contains.
	text string
	// words are cut at the separators and folded; for MayRun.
	words []string
}

// unquote removes quotes, backslashes and continued lines, which have to come first.
var unquote = strings.NewReplacer("\\\n", "", `\`, "", `'`, "", `"`, "")

// ParseText splits a text into words, for both methods.
func ParseText(text string) Text {
	plain := unquote.Replace(text)
	return Text{
		text:  strings.Join(strings.Fields(plain), " "),
		words: strings.FieldsFunc(glob.Fold(plain), func(c rune) bool { return strings.ContainsRune(separators, c) }),
	}
}

// Plain returns a Text for Contains alone, with the quotes and blanks that text has. MayRun finds
// nothing in it.
func Plain(text string) Text { return Text{text: text} }

// MayRun reports whether the text may have a command that begins with head: the words of head in
// this order, with only options between them, and its options in any spelling anywhere after the
// first word. A command may begin at every word, so there may be a false hit, but not a miss by
// quotes or by the place.
func (t Text) MayRun(head string) bool {
	head = unquote.Replace(glob.Fold(head))
	if first, _, _ := strings.Cut(head, " "); !strings.HasPrefix(first, "-") && !strings.Contains(glob.Fold(t.text), path.Base(first)) {
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
	for i := range t.words {
		if t.namesAt(i, names) && hasOptions(t.words[i:], options) {
			return true
		}
	}
	return false
}

// namesAt reports whether the words from index i on are the names, with options and the values of
// options left out. The first may be a path to the program, or begin with the program's name and
// a dash (git-push for git).
func (t Text) namesAt(i int, names []string) bool {
	if len(names) == 0 {
		return true
	}
	first := path.Base(t.words[i])
	if t.words[i] != names[0] && first != path.Base(names[0]) && !strings.HasPrefix(first, path.Base(names[0])+"-") {
		return false
	}
	if dashed := strings.Join(names, "-"); len(names) > 1 && strings.HasPrefix(first, dashed) {
		return true
	}
	rest := names[1:]
	option := false
	for _, w := range t.words[i+1:] {
		if len(rest) == 0 {
			break
		}
		switch {
		case w == rest[0]:
			rest, option = rest[1:], false
		case strings.HasPrefix(w, "-"):
			option = true
		// One word behind an option may be its value.
		case option:
			option = false
		default:
			return false
		}
	}
	return len(rest) == 0
}

// hasOptions reports whether each wanted option may be among the words: -rf as -r -f, as -fr or
// as long options that begin with those letters; a long option also abbreviated or as its letter.
// Nothing is known of the program here, so first letters have to do, without regard to case.
func hasOptions(words, wanted []string) bool {
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

// Contains reports whether the text has every piece of a spec between its *, in any order. :*
// counts as *. It is weaker than a glob: a deny rule may hit too much, but not too little.
func (t Text) Contains(spec string) bool {
	text, spec := glob.Fold(t.text), glob.Fold(strings.ReplaceAll(spec, ":*", "*"))
	if plain := unquote.Replace(spec); plain != spec {
		text, spec = unquote.Replace(text), plain
	}
	for piece := range strings.SplitSeq(spec, "*") {
		if !strings.Contains(text, strings.Join(strings.Fields(piece), " ")) {
			return false
		}
	}
	return true
}
