package tui

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// code returns the rows of a code block, behind an indent. Long lines go on in the next row.
func (r markdownRenderer) code(lines []string, language string, indent int) (rows []string) {
	lead := strings.Repeat(" ", indent+2)
	if language == "diff" {
		return DiffRows(r.st, strings.Join(lines, "\n"), r.columns, len(lines))
	}
	h := newHighlighter(r.st, language)
	for _, line := range lines {
		line = strings.TrimPrefix(line, strings.Repeat(" ", indent))
		for row := range strings.SplitSeq(ansi.Hardwrap(line, max(1, r.columns-len(lead)), true), "\n") {
			rows = append(rows, lead+h.line(row))
		}
	}
	return rows
}

// highlighter colors a line of code by what most languages have in common: comments, texts, numbers and
// words with a meaning. It knows no grammar, and colors some lines inside of a longer text or comment
// as if they were code.
type highlighter struct {
	st       Styles
	comments []string
	words    map[string]bool
}

// keywords are the words with a meaning in the common languages.
const keywords = `and as async await bool break case catch chan class const continue def default defer del do done elif else enum
esac except export extends fi final finally fn for foreach from func function go goto if impl implements import in int interface
is lambda let local loop map match mod module mut namespace new nil none not null or package pass private protected pub public
raise range return select self static string struct super switch then this throw trait true false try type typedef union unless
until use using var void where while with yield SELECT FROM WHERE INSERT INTO UPDATE DELETE CREATE TABLE JOIN ON AND OR NOT NULL
None True False`

func newHighlighter(s Styles, language string) *highlighter {
	h := &highlighter{st: s, words: map[string]bool{}}
	for word := range strings.FieldsSeq(keywords) {
		h.words[word] = true
	}
	switch strings.ToLower(language) {
	case "", "text", "txt", "markdown", "md":
		h.words = nil
	case "python", "py", "sh", "bash", "shell", "zsh", "ruby", "rb", "yaml", "yml", "toml", "make", "makefile", "dockerfile", "perl", "r", "console":
		h.comments = []string{"#"}
	case "sql", "lua", "haskell":
		h.comments = []string{"--"}
	default:
		h.comments = []string{"//", "/*"}
	}
	return h
}

// line returns a line with colors.
func (h *highlighter) line(text string) string {
	if h.words == nil {
		return text
	}
	var b strings.Builder
	for text != "" {
		n, style := h.token(text)
		b.WriteString(style(text[:n]))
		text = text[n:]
	}
	return b.String()
}

// token returns the length of the first token of text, and how it looks.
func (h *highlighter) token(text string) (int, func(...string) string) {
	plain := func(all ...string) string { return strings.Join(all, "") }
	for _, c := range h.comments {
		if strings.HasPrefix(text, c) {
			return len(text), h.st.Dim.Render
		}
	}
	switch c := text[0]; {
	case c == '"' || c == '\'' || c == '`':
		if n := quotedLength(text); n > 0 {
			return n, h.st.Good.Render
		}
		return 1, plain
	case c >= '0' && c <= '9':
		return wordLength(text), h.st.Warn.Render
	}
	n := wordLength(text)
	if n == 0 {
		// Up to the next token that may have a color, at least one character.
		if n = strings.IndexFunc(text[1:], func(r rune) bool { return isWord(r) || strings.ContainsRune("\"'`#/-", r) }); n < 0 {
			return len(text), plain
		}
		return n + 1, plain
	}
	if h.words[text[:n]] {
		return n, h.st.Accent.Render
	}
	return n, plain
}

// quotedLength returns the length of the quoted text that text begins with; 0 if the quote is not closed.
func quotedLength(text string) int {
	for i := 1; i < len(text); i++ {
		if text[i] == '\\' {
			i++
		} else if text[i] == text[0] {
			return i + 1
		}
	}
	return 0
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// wordLength returns the length of the word at the beginning of text, in bytes.
func wordLength(text string) int {
	if n := strings.IndexFunc(text, func(r rune) bool { return !isWord(r) }); n >= 0 {
		return n
	}
	return len(text)
}
