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

// maxBraces is how many words a brace expansion may make, else {1..9}{1..9}{1..9} made thousands.
const maxBraces = 64

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

// operates reports whether an expansion is more than $X or ${X}. It lists all of syntax.ParamExp.
func operates(p *syntax.ParamExp) bool {
	return p.Excl || p.Length || p.Width || p.IsSet || p.Flags != nil || p.NestedParam != nil || p.Index != nil ||
		len(p.Modifiers) > 0 || p.Slice != nil || p.Repl != nil || p.Names != 0 || p.Exp != nil || p.Split != 0 || p.GlobSubst != 0 || p.RcExpand != 0
}

// param adds the value of a variable. Only those of loops are known; all others get a mark, and
// are recorded as used, for checkUses.
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
		// Their values depend on the arguments of the shell, or on the command before. $IFS is a
		// common way to hide a blank.
		b.doubt("it uses $" + name)
	default:
		b.used = append(b.used, name)
	}
	if item, is := b.scope.vars[name]; is && !operator {
		b.item(item, quoted)
		return
	}
	switch name {
	// Both are numbers.
	case "?", "#":
		if !operator {
			b.unknown(AnyName)
			return
		}
	}
	b.unknown(Any)
	b.split = b.split || !quoted || name == "@"
}

// item adds the value of a loop's variable in this round. Unquoted, a value with blanks or
// pattern characters would be expanded once more, so it becomes unknown.
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

// operators walks what ${…} may evaluate, and adds no text. Subscripts and slices are arithmetic,
// which can run commands; @P expands the value again; := sets the variable.
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

// plainPattern matches a pattern or default value inside ${…} that all shells read alike.
var plainPattern = regexp.MustCompile(`^[A-Za-z0-9_./*?:,=+@%^ -]*$`)

// cuts reports whether an expansion only returns the variable's length, a part of its value, or a
// plain text instead of it, as ${#X}, ${X:1:2}, ${X#p}, ${X%p} and ${X:-text} do.
func cuts(p *syntax.ParamExp) bool {
	// Whatever remains after the allowed operators are removed must be a plain variable.
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

// alternative walks a text inside ${…}; w may be nil. Quotes and substitutions there follow rules
// of their own, so they count as running something unknown.
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

// heredocText returns the text of "$(cat <<'EOF' … EOF)", the common way to write a commit
// message, so that it counts as literal (security.md 2.2). It removes the newlines at the end.
func heredocText(w *syntax.Word) (string, bool) {
	if len(w.Parts) != 1 {
		return "", false
	}
	q, ok := w.Parts[0].(*syntax.DblQuoted)
	if !ok || q.Dollar || len(q.Parts) != 1 {
		return "", false
	}
	sub, ok := q.Parts[0].(*syntax.CmdSubst)
	// Inside backquotes backslashes are removed once more before the document is read.
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

// literals returns the text of a word whose parts are all literals. Backslashes stay: it is for
// here-documents with a quoted delimiter.
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

// quotedDocument returns the here-document of a statement that is cat <<'EOF' and nothing else,
// or nil. tabs is true for <<-, which removes leading tabs from each line.
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

// quotedDelimiter reports whether a delimiter is quoted: then nothing in the document is
// expanded.
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

// spread expands braces into the parts of each resulting word. ok is false where the shell may
// find other braces than the parser does, for sequences such as {1..9}, and beyond maxBraces
// words.
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
	// SplitBraces changes the word that it is given. The tree that is printed must not change.
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

// choices reports whether there is a comma or .., without which bash leaves braces alone ({},
// @{1}).
func choices(parts []syntax.WordPart) bool {
	return slices.ContainsFunc(parts, func(p syntax.WordPart) bool {
		lit, is := p.(*syntax.Lit)
		return is && (strings.Contains(lit.Value, ",") || strings.Contains(lit.Value, ".."))
	})
}

// leftOver reports whether bash may read other braces in a split word: a brace without its pair,
// a sequence, or a $ that takes in what the expansion puts behind it.
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
