package builtin

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// matcher searches for a pattern in lines or in a whole text. It may be used from many goroutines.
//
// A search for a fixed text is about a hundred times as fast as a regular expression. So the
// expression is run only on lines that contain one of the texts (needles) without which it cannot
// match, if there are such texts.
type matcher struct {
	// re is the whole pattern with its flags.
	re *regexp.Regexp
	// multiline is true if the pattern is matched against whole texts.
	multiline bool
	// needles are texts; every match contains at least one of them; nil means that none are known.
	// In line mode none of them has a line break.
	needles [][]byte
	// exact is true if every occurrence of a needle is a match, so that the expression need not be
	// run.
	exact bool
	// folded is true if a part of the pattern ignores case. Needles are then in lower case and are
	// searched in text in lower case.
	folded bool
}

// newMatcher compiles a pattern. The error tells the model what is wrong with it: it is malformed,
// or it can match nothing in a single line. With multiline, ^ and $ match at line breaks and a dot
// matches them.
func newMatcher(pattern string, ignoreCase, multiline bool) (*matcher, error) {
	flags := ""
	if ignoreCase {
		flags += "i"
	}
	if multiline {
		flags += "sm"
	}
	text := pattern
	if flags != "" {
		text = "(?" + flags + ")" + pattern
	}
	re, err := regexp.Compile(text)
	if err != nil {
		var bad *syntax.Error
		if errors.As(err, &bad) {
			return nil, fmt.Errorf("the pattern is malformed: %s: %s; it is in Go's RE2 syntax, without look-around and back-references", bad.Code, quoted(bad.Expr))
		}
		return nil, fmt.Errorf("the pattern is malformed: %w", err)
	}
	// The pattern is parsed twice, because package regexp does not export its syntax tree.
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("the pattern is malformed: %w", err)
	}
	if strings.Contains(pattern, "$") {
		tree = endBeforeCR(tree)
		if re, err = regexp.Compile(tree.String()); err != nil {
			return nil, fmt.Errorf("the pattern is malformed: %w", err)
		}
	}
	m := &matcher{re: re, multiline: multiline, folded: folds(tree)}
	if !multiline && needsNewline(tree) {
		return nil, errNeedsNewline
	}
	texts, exact := needed(tree, m.folded)
	for _, t := range texts {
		// [ \s]x names a line break that no line holds.
		if multiline || !strings.Contains(t, "\n") {
			m.needles = append(m.needles, []byte(t))
		}
	}
	// Every match has a line break, though needsNewline did not see it.
	if len(texts) > 0 && m.needles == nil {
		return nil, errNeedsNewline
	}
	// In text in lower case an occurrence proves nothing: only a part of the pattern may ignore
	// case.
	m.exact = exact && !m.folded
	return m, nil
}

// endBeforeCR returns the expression with \r?$ for each $, so that the end of a line is before CR LF, too.
func endBeforeCR(re *syntax.Regexp) *syntax.Regexp {
	for i, sub := range re.Sub {
		re.Sub[i] = endBeforeCR(sub)
	}
	if re.Op != syntax.OpEndLine && (re.Op != syntax.OpEndText || re.Flags&syntax.WasDollar == 0) {
		return re
	}
	cr := &syntax.Regexp{Op: syntax.OpQuest, Sub: []*syntax.Regexp{{Op: syntax.OpLiteral, Rune: []rune{'\r'}}}}
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{cr, re}}
}

// errNeedsNewline is returned for a pattern that can match nothing in a single line.
var errNeedsNewline = errors.New("the pattern asks for a line break, and lines are searched one by one: set multiline to true")

// onlyText returns the fixed text if the pattern is nothing else, or nil. Such a pattern needs no
// expression.
func (m *matcher) onlyText() []byte {
	if m.exact && len(m.needles) == 1 && len(m.needles[0]) > 0 {
		return m.needles[0]
	}
	return nil
}

// matchLine reports whether a line, without its end, has a match. An empty line is no text for
// countLines, but a pattern such as ^$ matches it.
func (m *matcher) matchLine(line []byte) bool {
	return m.countLines(line) > 0 || len(line) == 0 && m.re.Match(line)
}

// countLines counts the lines of text that match. The last line may lack its line break. Without
// usable needles it runs the expression on each line; otherwise only on lines with a needle.
func (m *matcher) countLines(text []byte) (n int64) {
	if m.needles == nil || m.folded && beyondASCII(text) {
		for len(text) > 0 {
			line, rest, _ := bytes.Cut(text, newline)
			if m.re.Match(line) {
				n++
			}
			text = rest
		}
		return n
	}
	// Offsets in where and in text are the same, because lower keeps the length.
	where := text
	if m.folded {
		where = lower(text)
	}
	// Each needle is searched once per occurrence: next has the position of its next one, at or
	// after pos, until pos has passed it. So the time does not grow with the number of lines.
	next := make([]int, len(m.needles))
	for i := range next {
		next[i] = -1
	}
	for pos := 0; pos < len(text); {
		at := len(text)
		for i, needle := range m.needles {
			if next[i] < pos {
				if next[i] = bytes.Index(where[pos:], needle); next[i] < 0 {
					next[i] = len(text)
				} else {
					next[i] += pos
				}
			}
			at = min(at, next[i])
		}
		// No needle occurs any more, so no further line can match.
		if at == len(text) {
			break
		}
		start := pos + bytes.LastIndexByte(text[pos:at], '\n') + 1
		end := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i
		}
		// One match is enough: the rest of the line is skipped.
		if m.exact || m.re.Match(text[start:end]) {
			n++
		}
		pos = end + 1
	}
	return n
}

// countText counts the matches in a whole text, which do not overlap.
func (m *matcher) countText(text []byte) int64 {
	if needle := m.onlyText(); needle != nil {
		return int64(bytes.Count(text, needle))
	}
	return int64(len(m.re.FindAllIndex(text, -1)))
}

// newline must not be written to.
var newline = []byte("\n")

// lower returns text with A to Z in lower case. Other letters stay, unlike with bytes.ToLower, so
// that offsets stay the same.
func lower(text []byte) []byte {
	out := make([]byte, len(text))
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		out[i] = c
	}
	return out
}

// beyondASCII reports whether text has one of the two letters that equal an ASCII letter when case
// is ignored: ſ (s) and the Kelvin sign (k). lower does not fold them, so the expression has to be
// run.
func beyondASCII(text []byte) bool {
	return bytes.Contains(text, []byte("\u017f")) || bytes.Contains(text, []byte("\u212a"))
}

// maxNeedles is the number of texts up to which searching for each of them is faster than the
// expression. It also limits the work of needed and finite, whose texts multiply.
const maxNeedles = 16

// needed returns texts; every match contains at least one of them. exact reports whether each of
// them is a match itself. nil means that none are known. An optional part contributes nothing,
// because a match may lack it.
func needed(re *syntax.Regexp, folded bool) (texts []string, exact bool) {
	if all, ok := finite(re, folded); ok {
		return all, true
	}
	switch re.Op {
	case syntax.OpCapture, syntax.OpPlus:
		texts, _ = needed(re.Sub[0], folded)
	case syntax.OpRepeat:
		if re.Min > 0 {
			texts, _ = needed(re.Sub[0], folded)
		}
	// A match contains all parts. The part with the longest texts excludes the most lines.
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if t, _ := needed(sub, folded); shortest(t) > shortest(texts) {
				texts = t
			}
		}
	// A match contains one of the alternatives. If one of them has no texts, nothing is known.
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			t, _ := needed(sub, folded)
			if shortest(t) == 0 || len(texts)+len(t) > maxNeedles {
				return nil, false
			}
			texts = append(texts, t...)
		}
	}
	if shortest(texts) == 0 {
		return nil, false
	}
	return texts, false
}

// shortest returns the length of the shortest text; 0 if there are none. Longer needles exclude
// more lines.
func shortest(texts []string) int {
	if len(texts) == 0 {
		return 0
	}
	least := len(texts[0])
	for _, t := range texts {
		least = min(least, len(t))
	}
	return least
}

// finite returns all texts that re matches, if they are at most maxNeedles and do not depend on
// what stands around them. An anchor such as ^ or \b depends on that. false means that re may match
// others.
func finite(re *syntax.Regexp, folded bool) ([]string, bool) {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return []string{""}, true
	case syntax.OpLiteral:
		t, ok := fixed(re.Rune, folded)
		return []string{t}, ok
	case syntax.OpCharClass:
		return finiteClass(re.Rune, folded)
	case syntax.OpCapture:
		return finite(re.Sub[0], folded)
	case syntax.OpQuest:
		texts, ok := finite(re.Sub[0], folded)
		return append(texts, ""), ok && len(texts) < maxNeedles
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			texts, ok := finite(sub, folded)
			if !ok || len(all)+len(texts) > maxNeedles {
				return nil, false
			}
			all = append(all, texts...)
		}
		return all, true
	// Every text of a part is joined to every text of the parts before it.
	case syntax.OpConcat:
		all := []string{""}
		for _, sub := range re.Sub {
			texts, ok := finite(sub, folded)
			if !ok || len(all)*len(texts) > maxNeedles {
				return nil, false
			}
			var longer []string
			for _, a := range all {
				for _, t := range texts {
					longer = append(longer, a+t)
				}
			}
			all = longer
		}
		return all, true
	}
	return nil, false
}

// finiteClass returns the characters of a class as texts, if they are few.
func finiteClass(ranges []rune, folded bool) ([]string, bool) {
	var all []string
	for i := 0; i < len(ranges); i += 2 {
		for c := ranges[i]; c <= ranges[i+1]; c++ {
			if len(all) == maxNeedles {
				return nil, false
			}
			t, ok := fixed([]rune{c}, folded)
			if !ok {
				return nil, false
			}
			all = append(all, t)
		}
	}
	return all, len(all) > 0
}

// fixed returns the text of literal characters as it occurs in a file. It returns false for U+FFFD,
// which also matches invalid UTF-8, and for letters that fold to more than the two cases of ASCII.
func fixed(literal []rune, folded bool) (string, bool) {
	for _, c := range literal {
		if c == utf8.RuneError || folded && c >= utf8.RuneSelf && c != 0x17f && c != 0x212a {
			return "", false
		}
	}
	if !folded {
		return string(literal), true
	}
	text := strings.NewReplacer("\u017f", "s", "\u212a", "k").Replace(string(literal))
	return strings.ToLower(text), true
}

// folds reports whether a part of the expression ignores case.
func folds(re *syntax.Regexp) bool {
	return re.Flags&syntax.FoldCase != 0 || slices.ContainsFunc(re.Sub, folds)
}

// needsNewline reports whether every match of the expression contains a line break. It may return
// false for one that does: such a pattern then finds nothing, which is not wrong.
func needsNewline(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		return strings.ContainsRune(string(re.Rune), '\n')
	case syntax.OpCharClass:
		return len(re.Rune) == 2 && re.Rune[0] == '\n' && re.Rune[1] == '\n'
	// One part that needs a line break is enough.
	case syntax.OpConcat:
		return slices.ContainsFunc(re.Sub, needsNewline)
	case syntax.OpCapture, syntax.OpPlus:
		return needsNewline(re.Sub[0])
	}
	return false
}
