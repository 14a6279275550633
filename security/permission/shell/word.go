package shell

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// words resolves one argument as bash would expand it, and walks the commands in it. Braces make
// several words, or none. Braces that cannot be expanded for certain give one Dynamic word that
// may be split.
func (a *analysis) words(w *syntax.Word, s *scope) []Word {
	if lit, ok := plain(w); ok {
		return []Word{{Text: lit}}
	}
	all, ok := spread(w)
	if !ok {
		a.doubt("it has braces that only the shell can expand")
		word := a.word(w, s)
		word.Dynamic, word.Split, word.Pattern = true, true, string(Any)
		return []Word{word}
	}
	out := make([]Word, 0, len(all))
	for _, parts := range all {
		if len(all) > 1 && nothing(parts) {
			continue // the shell drops words that are left empty
		}
		out = append(out, a.word(&syntax.Word{Parts: parts}, s))
	}
	return out
}

// nothing reports whether the parts are empty literals. ” is something: an empty word.
func nothing(parts []syntax.WordPart) bool {
	return !slices.ContainsFunc(parts, func(p syntax.WordPart) bool { lit, is := p.(*syntax.Lit); return !is || lit.Value != "" })
}

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

// word resolves a word without expanding its braces, and walks the commands substituted in it.
func (a *analysis) word(w *syntax.Word, s *scope) Word {
	if text, ok := heredocText(w); ok {
		return Word{Text: text}
	}
	b := builder{analysis: a, scope: s}
	b.parts(w.Parts, false)
	return b.word(w)
}

// builder collects the value of one word. It passes the commands and problems that it finds in
// the word on to the analysis.
type builder struct {
	*analysis
	scope *scope
	// text is the value so far, with marks in place of the unknown parts.
	text strings.Builder
	// dynamic is true once there is a mark, split once the shell may cut the word, tilde if the
	// word begins with the home directory.
	dynamic bool
	split   bool
	tilde   bool
}

// word returns the collected word, whose source is w.
func (b *builder) word(w *syntax.Word) Word {
	text := b.text.String()
	if !b.dynamic {
		return Word{Text: text, Tilde: b.tilde}
	}
	source, err := printTree(w)
	if err != nil {
		source = "?"
	}
	return Word{Text: source, Dynamic: true, Pattern: text, Split: b.split, Tilde: b.tilde}
}

// unknown adds a mark for a part that only the shell knows, and makes the word Dynamic.
func (b *builder) unknown(mark rune) {
	b.dynamic = true
	b.text.WriteRune(mark)
}

// parts adds the parts of a word. quoted is true between double quotes, where values are not
// split. A kind of part that is not listed is a hard Problem: new syntax is not allowed by
// accident.
func (b *builder) parts(parts []syntax.WordPart, quoted bool) {
	for i, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			first := i == 0 && !quoted && b.text.Len() == 0
			if first && p.Value == "~" && len(parts) > 1 {
				b.unknown(Any) // what follows decides whether this is a home
				continue
			}
			b.literal(p.Value, quoted, first)
		case *syntax.SglQuoted:
			b.singleQuoted(p)
		case *syntax.DblQuoted:
			if p.Dollar {
				b.doubt("it holds a text to be translated")
				b.unknown(Any)
			}
			b.parts(p.Parts, true)
		case *syntax.ParamExp:
			b.param(p, quoted)
		case *syntax.CmdSubst:
			// ${ …;} and ${|…;} are forms of mksh; bash has them only since 5.3.
			if p.TempFile || p.ReplyVar {
				b.hard("it is not written for bash")
			}
			b.stmts(p.Stmts, b.scope.clone())
			b.unknown(Any)
			b.split = b.split || !quoted
		case *syntax.ArithmExp:
			b.arithm(p.X, b.scope)
			b.unknown(AnyName)
			b.split = b.split || !quoted && !numeric(p.X)
		case *syntax.ProcSubst:
			b.procSubst(p)
		case *syntax.ExtGlob:
			b.doubt("it holds a pattern that only the shell can expand")
			b.unknown(AnyName)
		default:
			b.hard("it holds a word that is not known here")
			b.unknown(Any)
		}
	}
}

// singleQuoted adds '…' as it is, and $'…' with its escapes decoded. If shells disagree on an
// escape, the part is unknown.
func (b *builder) singleQuoted(p *syntax.SglQuoted) {
	text, ok := p.Value, true
	if p.Dollar {
		text, ok = ansi(p.Value)
	}
	if !ok {
		b.doubt("it holds an escape that is not known here")
		b.unknown(Any)
		return
	}
	b.text.WriteString(text)
}

// procSubst walks the commands of <(…) and adds the name that the shell gives to the pipe,
// /dev/fd/N. An interpreter that is given that name runs their output (invocation.code).
func (b *builder) procSubst(p *syntax.ProcSubst) {
	b.stmts(p.Stmts, b.scope.clone())
	if len(p.Stmts) == 0 {
		b.unknown(Any) // the shell makes nothing of it
		b.split = true
		return
	}
	b.text.WriteString("/dev/fd/")
	b.unknown(AnyName)
}

// literal adds text that stands in the program as it is. Outside of quotes it removes
// backslashes, and replaces *, ? and sets by marks: the matching files are not known here.
// Between double quotes a backslash escapes only $, `, ", \ and a newline. first says that the
// text begins the word, where a tilde is a home.
func (b *builder) literal(text string, quoted, first bool) {
	if first && strings.HasPrefix(text, "~") {
		// Only the user's own home is known here. ~name, ~+ and ~- are not.
		switch user, _, _ := strings.Cut(text[1:], "/"); user {
		case "":
			b.tilde = true
		default:
			b.unknown(Any) // another user's home, or where the shell was before
			text = strings.TrimPrefix(text[1:], user)
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && (!quoted || strings.IndexByte("$`\"\\\n", text[i+1]) >= 0):
			i++
			if text[i] != '\n' {
				b.text.WriteByte(text[i])
			}
		case quoted:
			b.text.WriteByte(c)
		case c == '~' && i > 0 && (text[i-1] == '=' || text[i-1] == ':') && assigns(b.text.String()):
			b.unknown(Any) // a home, as in an assignment: also in arguments that look like one
			for i+1 < len(text) && strings.IndexByte("/:\\", text[i+1]) < 0 {
				i++ // whose, or where the shell was before
			}
		case c == '*':
			b.unknown(AnyName)
		case c == '?':
			b.unknown(AnyRune)
		case c == '[' && text != "[":
			i += b.bracket(text[i:])
		default:
			b.text.WriteByte(c)
		}
	}
}

// bracket adds a mark for a set such as [a-z], and returns how many bytes behind [ belong to it.
func (b *builder) bracket(text string) int {
	end := strings.IndexByte(text, ']')
	if end >= 0 && strings.Contains(text[:end], "/") {
		b.unknown(Any) // then it is no pattern, or one of another shell
	} else {
		b.unknown(AnyName) // if it is not closed here, it may be in another part of the word
	}
	return max(end, 0)
}

// assigns reports whether a text begins like an assignment, NAME= or NAME+=. bash expands a tilde
// behind its = and : even in arguments.
func assigns(text string) bool {
	name, _, ok := strings.Cut(text, "=")
	return ok && syntax.ValidName(strings.TrimSuffix(name, "+"))
}

// staticText returns the value of parts that hold nothing dynamic. It walks no commands and adds
// no problems, so it may be called for a word that is walked elsewhere, too.
func staticText(parts []syntax.WordPart, quoted bool) (string, bool) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				if _, is := inner.(*syntax.Lit); !is {
					return "", false
				}
			}
		default:
			return "", false
		}
	}
	b := builder{analysis: newAnalysis(), scope: &scope{}}
	b.parts(parts, quoted)
	return b.text.String(), !b.dynamic
}

// ansi decodes the escapes of $'…' as bash does. ok is false for escapes that shells read
// differently: \c, a zero byte, numbers out of range, and for texts with one of the Marks.
func ansi(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		// A letter of the first text stands for the byte at its position in the second.
		if c := strings.IndexByte(`abefnrtv\'"?E`, s[i]); c >= 0 {
			b.WriteByte("\a\b\x1b\f\n\r\t\v\\'\"?\x1b"[c])
			continue
		}
		// Numeric escapes: the base, the most digits, and where they begin. Octal ones have no
		// letter.
		base, most, from := 16, 0, i+1
		switch s[i] {
		case 'x':
			most = 2
		case 'u':
			most = 4
		case 'U':
			most = 8
		case '0', '1', '2', '3', '4', '5', '6', '7':
			base, most, from = 8, 3, i
		case 'c':
			return "", false
		default:
			// bash keeps the backslash of an escape that it does not know.
			b.WriteString(s[i-1 : i+1])
			continue
		}
		to := from
		for to < len(s) && to < from+most && strings.IndexByte("0123456789abcdefABCDEF"[:base+6*(base/16)], s[to]) >= 0 {
			to++
		}
		n, err := strconv.ParseUint(s[from:to], base, 32)
		if err != nil || n == 0 || n > 0x10ffff || most <= 3 && n > 0xff {
			return "", false
		}
		// \x and octal escapes are bytes, \u and \U are characters.
		if most <= 3 {
			b.WriteByte(byte(n))
		} else {
			b.WriteRune(rune(n))
		}
		i = to - 1
	}
	text := b.String()
	return text, !strings.ContainsAny(text, Marks)
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
