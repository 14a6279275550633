package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// heredocText returns the text of "$(cat <<'EOF' … EOF)", the common way to write a commit
// message, so that it counts as literal. It removes the newlines at the end.
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
	hdoc := quotedDocument(sub.Stmts[0])
	if hdoc == nil {
		return "", false
	}
	text, ok := literals(hdoc)
	return strings.TrimRight(text, "\n"), ok
}

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
// or nil.
func quotedDocument(st *syntax.Stmt) *syntax.Word {
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || st.Negated || st.Background || len(call.Assigns) > 0 || len(call.Args) != 1 || call.Args[0].Lit() != "cat" || len(st.Redirs) != 1 {
		return nil
	}
	r := st.Redirs[0]
	if r.Op != syntax.Hdoc || r.N != nil || !quotedDelimiter(r.Word) {
		return nil
	}
	return r.Hdoc
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
