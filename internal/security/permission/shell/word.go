package shell

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// plain returns the value of a word that is a single literal without special characters. Most
// words are, and need no builder.
func plain(w *syntax.Word) (string, bool) {
	if len(w.Parts) != 1 {
		return "", false
	}
	lit, ok := w.Parts[0].(*syntax.Lit)
	if !ok || strings.ContainsAny(lit.Value, "\\*?[~{") {
		return "", false
	}
	return lit.Value, true
}

// word resolves a word, and walks the commands substituted in it. One with braces that the shell expands becomes a Dynamic
// word that may be split.
func (a *analysis) word(w *syntax.Word, s scope) Word {
	if text, ok := plain(w); ok {
		return Word{Text: text}
	}
	if text, ok := heredocText(w); ok {
		return Word{Text: text}
	}
	b := builder{analysis: a, scope: s}
	b.parts(w.Parts, false)
	if braces(w) {
		a.doubt("it has braces that only the shell can expand")
		return Word{Text: b.value.word(w).Text, Dynamic: true, Split: true}
	}
	return b.value.word(w)
}

// braces reports whether bash may expand braces in a word: without a comma or .. it leaves them alone ({}, HEAD@{1}).
func braces(w *syntax.Word) bool {
	var b strings.Builder
	for _, p := range w.Parts {
		if lit, is := p.(*syntax.Lit); is {
			b.WriteString(lit.Value)
		}
	}
	_, rest, is := strings.Cut(b.String(), "{")
	return is && (strings.Contains(rest, ",") || strings.Contains(rest, ".."))
}

// builder collects the value of one word. It passes the commands and problems that it finds in
// the word on to the analysis.
type builder struct {
	*analysis
	scope scope
	value wordValue
}

// wordValue is the value of a word, as far as it is known.
type wordValue struct {
	// text is the value so far without the unknown parts, begin what stood before the first of these.
	text  strings.Builder
	begin string
	// dynamic is true once a part is unknown, split once the shell may cut the word, tilde if the
	// word begins with the home directory.
	dynamic bool
	split   bool
	tilde   bool
}

// word returns the collected word, whose source is w.
func (v *wordValue) word(w *syntax.Word) Word {
	if !v.dynamic {
		return Word{Text: v.text.String(), Tilde: v.tilde}
	}
	source, err := printTree(w)
	if err != nil {
		source = "?"
	}
	return Word{Text: source, Dynamic: true, Begin: v.begin, Split: v.split, Tilde: v.tilde}
}

// unknown notes a part that only the shell knows, and makes the word Dynamic.
func (v *wordValue) unknown() {
	if !v.dynamic {
		v.dynamic, v.begin = true, v.text.String()
	}
}

// parts adds the parts of a word. quoted is true between double quotes, where values are not
// split. A kind of part that is not listed is a hard Problem: new syntax is not allowed by
// accident.
func (b *builder) parts(parts []syntax.WordPart, quoted bool) {
	for i, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			first := i == 0 && !quoted && b.value.text.Len() == 0
			if first && p.Value == "~" && len(parts) > 1 {
				b.value.unknown() // what follows decides whether this is a home
				continue
			}
			b.value.literal(p.Value, quoted, first)
		case *syntax.SglQuoted:
			if p.Dollar && strings.Contains(p.Value, `\`) {
				b.doubt("it holds an escape that only the shell reads")
				b.value.unknown()
				continue
			}
			b.value.text.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar {
				b.doubt("it holds a text to be translated")
				b.value.unknown()
			}
			b.parts(p.Parts, true)
		case *syntax.ParamExp:
			b.param(p, quoted)
		case *syntax.CmdSubst:
			// ${ …;} and ${|…;} are forms of mksh; bash has them only since 5.3.
			if p.TempFile || p.ReplyVar {
				b.hard("it is not written for bash")
			}
			b.stmts(p.Stmts, b.scope)
			b.value.unknown()
			b.value.split = b.value.split || !quoted
		case *syntax.ArithmExp:
			b.arithm(p.X, b.scope)
			b.value.unknown()
			b.value.split = b.value.split || !quoted
		case *syntax.ProcSubst:
			b.procSubst(p)
		case *syntax.ExtGlob:
			b.doubt("it holds a pattern that only the shell can expand")
			b.value.unknown()
		default:
			b.hard("it holds a word that is not known here")
			b.value.unknown()
		}
	}
}

// procSubst walks the commands of <(…) and adds the name that the shell gives to the pipe,
// /dev/fd/N. An interpreter that is given that name runs their output (invocation.code).
func (b *builder) procSubst(p *syntax.ProcSubst) {
	b.stmts(p.Stmts, b.scope)
	if len(p.Stmts) == 0 {
		b.value.unknown() // the shell makes nothing of it
		b.value.split = true
		return
	}
	b.value.text.WriteString("/dev/fd/")
	b.value.unknown()
}

// literal adds text that stands in the program as it is. Outside of quotes it removes
// backslashes, and makes *, ? and sets unknown: the matching files are not known here.
// Between double quotes a backslash escapes only $, `, ", \ and a newline. first says that the
// text begins the word, where a tilde is a home.
func (v *wordValue) literal(text string, quoted, first bool) {
	if first && strings.HasPrefix(text, "~") {
		// Only the user's own home is known here. ~name, ~+ and ~- are not.
		switch user, _, _ := strings.Cut(text[1:], "/"); user {
		case "":
			v.tilde = true
		default:
			v.unknown() // another user's home, or where the shell was before
			text = strings.TrimPrefix(text[1:], user)
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && (!quoted || strings.IndexByte("$`\"\\\n", text[i+1]) >= 0):
			i++
			if text[i] != '\n' {
				v.text.WriteByte(text[i])
			}
		case quoted:
			v.text.WriteByte(c)
		case c == '~' && i > 0 && (text[i-1] == '=' || text[i-1] == ':') && assigns(v.text.String()):
			v.unknown() // a home, as in an assignment: also in arguments that look like one
			for i+1 < len(text) && strings.IndexByte("/:\\", text[i+1]) < 0 {
				i++ // whose, or where the shell was before
			}
		case c == '*', c == '?':
			v.unknown()
		case c == '[' && text != "[":
			v.unknown() // a set, if it is closed in this part of the word or another
			return
		default:
			v.text.WriteByte(c)
		}
	}
}

// assigns reports whether a text begins like an assignment, NAME= or NAME+=. bash expands a tilde
// behind its = and : even in arguments.
func assigns(text string) bool {
	name, _, ok := strings.Cut(text, "=")
	return ok && syntax.ValidName(strings.TrimSuffix(name, "+"))
}

// join returns the directory that cd w leads to from dir, by name alone, as cd without -P goes
// there. The result has the form of Dirs.Paths. w must be literal.
func join(dir string, w Word) string {
	p := w.Text
	switch {
	case w.Tilde:
		return path.Clean(p)
	case strings.HasPrefix(p, "/"):
		return path.Clean(p)
	case strings.HasPrefix(p, "~"):
		p = "./" + p // a directory of that name, not a home
	}
	if dir == "" {
		return strings.TrimPrefix(path.Clean("./"+p), "./")
	}
	return path.Clean(dir + "/" + p)
}
