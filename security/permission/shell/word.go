package shell

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// maxBraces is how many words a brace expansion may make. {1..9}{1..9}{1..9} would make
// thousands; beyond the limit the word counts as unknown.
const maxBraces = 64

// words resolves one argument. It returns several words if the argument has braces.
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

// nothing reports whether the parts are empty.
func nothing(parts []syntax.WordPart) bool {
	return !slices.ContainsFunc(parts, func(p syntax.WordPart) bool { lit, is := p.(*syntax.Lit); return !is || lit.Value != "" })
}

// plain returns the value of a word that is a single literal without special characters; this
// spares most words the builder.
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

// word resolves a word as it stands, and walks the command substitutions in it.
func (a *analysis) word(w *syntax.Word, s *scope) Word {
	if text, ok := heredocText(w); ok {
		return Word{Text: text}
	}
	b := builder{analysis: a, scope: s}
	b.parts(w.Parts, false)
	return b.word(w)
}

// builder collects the text of one word: literal text, and a mark for each part that only the
// shell knows.
type builder struct {
	*analysis
	scope   *scope
	text    strings.Builder // with marks for what is dynamic
	dynamic bool
	split   bool
	tilde   bool
}

// word returns the collected word. If a part is unknown, Text is the source and Pattern has
// the marks.
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

// unknown adds a mark for a part that only the shell knows.
func (b *builder) unknown(mark rune) {
	b.dynamic = true
	b.text.WriteRune(mark)
}

// parts adds the parts of a word. quoted is true between double quotes, where the shell does
// not split values.
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
// /dev/fd/N.
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

// literal adds text that stands in the program as it is: with backslashes, patterns and the tilde.
func (b *builder) literal(text string, quoted, first bool) {
	if first && strings.HasPrefix(text, "~") {
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

// bracket adds a mark for a set of characters such as [a-z], and returns how many bytes of the
// text belong to it.
func (b *builder) bracket(text string) int {
	end := strings.IndexByte(text, ']')
	if end >= 0 && strings.Contains(text[:end], "/") {
		b.unknown(Any) // then it is no pattern, or one of another shell
	} else {
		b.unknown(AnyName) // if it is not closed here, it may be in another part of the word
	}
	return max(end, 0)
}

// assigns reports whether a text begins like an assignment.
func assigns(text string) bool {
	name, _, ok := strings.Cut(text, "=")
	return ok && syntax.ValidName(strings.TrimSuffix(name, "+"))
}

// operates reports whether an expansion is more than a variable's value.
func operates(p *syntax.ParamExp) bool {
	return p.Excl || p.Length || p.Width || p.IsSet || p.Flags != nil || p.NestedParam != nil || p.Index != nil ||
		len(p.Modifiers) > 0 || p.Slice != nil || p.Repl != nil || p.Names != 0 || p.Exp != nil || p.Split != 0 || p.GlobSubst != 0 || p.RcExpand != 0
}

// param adds the value of a variable if it is known, and else a mark. An unquoted value may be
// split into several words.
func (b *builder) param(p *syntax.ParamExp, quoted bool) {
	name := ""
	if p.Param != nil {
		name = p.Param.Value
	}
	operator := operates(p)
	switch {
	case operator:
		b.operators(p)
	case name == "@" || name == "*" || name == "_" || name == "IFS" || name == "BASH_COMMAND" || name == "":
		b.doubt("it uses $" + name)
	default:
		b.used = append(b.used, name)
	}
	if item, is := b.scope.vars[name]; is && !operator {
		b.item(item, quoted)
		return
	}
	switch name {
	case "?", "#":
		if !operator {
			b.unknown(AnyName)
			return
		}
	}
	b.unknown(Any)
	b.split = b.split || !quoted || name == "@"
}

// item adds the value of a loop's variable.
func (b *builder) item(item Word, quoted bool) {
	switch {
	case item.Tilde, item.Dynamic && item.Split:
		b.unknown(Any)
		b.split = b.split || !quoted
	case item.Dynamic:
		b.dynamic = true
		b.text.WriteString(item.Pattern)
		b.split = b.split || !quoted // a file's name may have blanks
	case !quoted && (item.Text == "" || strings.ContainsAny(item.Text, " \t\n*?[\\")):
		b.unknown(Any)
		b.split = true
	default:
		b.text.WriteString(item.Text)
	}
}

// operators walks what a parameter expansion may evaluate: subscripts and slices are arithmetic, which
// can run commands, @P expands the value again, and := sets the variable.
func (b *builder) operators(p *syntax.ParamExp) {
	if !cuts(p) {
		b.doubt("it changes a variable's value while using it (${…})")
	}
	if p.Excl || p.Names != 0 || p.NestedParam != nil {
		b.runs("it uses a variable whose name is in another variable")
	}
	if p.Index != nil {
		if w, ok := p.Index.(*syntax.Word); !ok || len(w.Parts) != 1 || w.Lit() != "@" && w.Lit() != "*" {
			b.arithm(p.Index, b.scope)
		}
	}
	if p.Slice != nil {
		for _, x := range []syntax.ArithmExpr{p.Slice.Offset, p.Slice.Length} {
			if x != nil {
				b.arithm(x, b.scope)
			}
		}
	}
	if p.Repl != nil {
		for _, w := range []*syntax.Word{p.Repl.Orig, p.Repl.With} {
			b.alternative(w)
		}
	}
	if p.Exp == nil {
		return
	}
	b.alternative(p.Exp.Word)
	switch p.Exp.Op {
	case syntax.OtherParamOps:
		b.runs("it expands a variable's value again")
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if p.Param != nil {
			b.assign(p.Param.Value)
		}
	}
}

// plainPattern is what reads the same everywhere inside of ${…}.
var plainPattern = regexp.MustCompile(`^[A-Za-z0-9_./*?:,=+@%^ -]*$`)

// cuts reports whether the value of an expansion is nothing but a part of the variable's, its length, or a plain text
// instead of it: nothing is evaluated or set.
func cuts(p *syntax.ParamExp) bool {
	plain := *p
	plain.Length, plain.Exp, plain.Slice, plain.Repl = false, nil, nil, nil
	if p.Param == nil || !syntax.ValidName(p.Param.Value) || p.Repl != nil || operates(&plain) || p.Slice != nil && (!numeric(p.Slice.Offset) || p.Slice.Length != nil && !numeric(p.Slice.Length)) {
		return false
	}
	if p.Exp == nil {
		return true
	}
	switch p.Exp.Op {
	case syntax.RemSmallPrefix, syntax.RemLargePrefix, syntax.RemSmallSuffix, syntax.RemLargeSuffix, syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		return p.Exp.Word == nil || plainPattern.MatchString(p.Exp.Word.Lit()) && p.Exp.Word.Lit() != ""
	}
	return false
}

// alternative is a text inside ${…}. What is quoted or substituted there is read in ways of its own.
func (b *builder) alternative(w *syntax.Word) {
	if w == nil {
		return
	}
	b.analysis.word(w, b.scope)
	for _, p := range w.Parts {
		if lit, is := p.(*syntax.Lit); !is || strings.Contains(lit.Value, `\\`) {
			b.runs("it holds quotes or substitutions inside ${…}")
			return
		}
	}
}

// heredocText is the text of "$(cat <<'EOF' … EOF)", the usual way to write a long message.
func heredocText(w *syntax.Word) (string, bool) {
	if len(w.Parts) != 1 {
		return "", false
	}
	q, ok := w.Parts[0].(*syntax.DblQuoted)
	if !ok || q.Dollar || len(q.Parts) != 1 {
		return "", false
	}
	sub, ok := q.Parts[0].(*syntax.CmdSubst)
	if !ok || len(sub.Stmts) != 1 || sub.TempFile || sub.ReplyVar || sub.Backquotes {
		return "", false
	}
	hdoc, tabs := quotedDocument(sub.Stmts[0])
	if hdoc == nil {
		return "", false
	}
	text, ok := literals(hdoc)
	if !ok {
		return "", false
	}
	if tabs {
		text = leadingTabs.ReplaceAllString(text, "")
	}
	return strings.TrimRight(text, "\n"), true
}

// leadingTabs matches what <<- removes from the lines of a here-document.
var leadingTabs = regexp.MustCompile(`(?m)^\t+`)

// literals returns the text of a word of which every part is literal.
func literals(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, p := range w.Parts {
		lit, ok := p.(*syntax.Lit)
		if !ok {
			return "", false
		}
		b.WriteString(lit.Value)
	}
	return b.String(), true
}

// quotedDocument is the here-document of a statement that is cat <<'EOF' and nothing else. tabs says that its lines lose the
// tabs that they begin with.
func quotedDocument(st *syntax.Stmt) (hdoc *syntax.Word, tabs bool) {
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || st.Negated || st.Background || len(call.Assigns) > 0 || len(call.Args) != 1 || call.Args[0].Lit() != "cat" || len(st.Redirs) != 1 {
		return nil, false
	}
	r := st.Redirs[0]
	if r.Op != syntax.Hdoc && r.Op != syntax.DashHdoc || r.N != nil || !quotedDelimiter(r.Word) {
		return nil, false
	}
	return r.Hdoc, r.Op == syntax.DashHdoc
}

// quotedDelimiter reports whether the delimiter of a here-document is quoted: then the shell
// expands nothing in it.
func quotedDelimiter(w *syntax.Word) bool {
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.SglQuoted, *syntax.DblQuoted:
			return true
		case *syntax.Lit:
			if strings.Contains(p.Value, `\`) {
				return true
			}
		}
	}
	return false
}

// staticText returns the value of parts that hold nothing dynamic. It does not walk them, so
// it may be called twice for a word.
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

// ansi decodes the escapes of $'…'; ok is false for those that shells read differently.
func ansi(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if c := strings.IndexByte(`abefnrtv\'"?E`, s[i]); c >= 0 {
			b.WriteByte("\a\b\x1b\f\n\r\t\v\\'\"?\x1b"[c])
			continue
		}
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

// spread expands braces into the parts of each word. ok is false when that cannot be told or
// makes more than maxBraces words.
func spread(w *syntax.Word) (all [][]syntax.WordPart, ok bool) {
	braces := false
	for i, p := range w.Parts {
		lit, is := p.(*syntax.Lit)
		braces = braces || is && strings.Contains(lit.Value, "{")
		if is && i > 0 && strings.HasPrefix(lit.Value, "{") {
			if _, after := w.Parts[i-1].(*syntax.ParamExp); after {
				return nil, false // behind a $ of any kind a brace is none to the shell
			}
		}
	}
	if !braces {
		return [][]syntax.WordPart{w.Parts}, true
	}
	if !choices(w.Parts) {
		return [][]syntax.WordPart{w.Parts}, true // {}, HEAD@{1}
	}
	split := &syntax.Word{Parts: w.Parts}
	if !syntax.SplitBraces(split) || leftOver(split.Parts) {
		return nil, false // the shell may find others than the parser
	}
	for word, err := range expand.BracesSeq(nil, split) {
		if err != nil || len(all) == maxBraces {
			return nil, false
		}
		all = append(all, word.Parts)
	}
	return all, true
}

// choices reports whether a word has something that braces may choose between: a comma or a
// sequence.
func choices(parts []syntax.WordPart) bool {
	return slices.ContainsFunc(parts, func(p syntax.WordPart) bool {
		lit, is := p.(*syntax.Lit)
		return is && (strings.Contains(lit.Value, ",") || strings.Contains(lit.Value, ".."))
	})
}

// leftOver reports whether braces remain that form no pair, or stand around a sequence.
func leftOver(parts []syntax.WordPart) bool {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, "{}$") { // a $ takes in what comes to stand behind it
				return true
			}
		case *syntax.BraceExp:
			if p.Sequence || slices.ContainsFunc(p.Elems, func(e *syntax.Word) bool { return leftOver(e.Parts) }) {
				return true
			}
		}
	}
	return false
}

// join returns where a path leads from a directory by name alone, as the shell's cd goes
// there.
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
