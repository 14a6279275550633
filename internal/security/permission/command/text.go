package command

import (
	"path"
	"strings"

	"symbio/internal/security/permission/glob"
)

// separators end a word of a command, also inside quotes: a quoted text may be another command,
// as in sh -c "a; b". = and ! are among them for x=$(rm) and for !rm.
const separators = " \t\r\n;|&()<>{},`!=[]"

// unquote removes quotes, backslashes and continued lines, which have to come first.
var unquote = strings.NewReplacer("\\\n", "", `\`, "", `'`, "", `"`, "")

// Names reports whether a text that was not parsed as a command names a program, by its name or a path to it. Quotes and
// backslashes are removed, so that r\m and 'rm' are both rm. name is folded. It serves deny rules only: a wrong hit costs a
// question.
func Names(text, name string) bool {
	text = glob.Fold(unquote.Replace(text))
	if name == "" || !strings.Contains(text, name) {
		return false
	}
	for _, w := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(separators, c) }) {
		if base := path.Base(w); base == name || strings.HasPrefix(base, name+"-") {
			return true
		}
	}
	return false
}

// Contains reports whether the text has every piece of a spec between its *, in any order. :*
// counts as *. It is weaker than a glob: a deny rule may hit too much, but not too little.
func Contains(text, spec string) bool {
	plain := func(s string) string { return strings.Join(strings.Fields(unquote.Replace(glob.Fold(s))), " ") }
	for piece := range strings.SplitSeq(strings.ReplaceAll(spec, ":*", "*"), "*") {
		if !strings.Contains(glob.Fold(text), glob.Fold(piece)) && !strings.Contains(plain(text), plain(piece)) {
			return false
		}
	}
	return true
}
