package search

import (
	_ "embed"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
)

//go:embed synonyms.txt
var synonymText string

// stopText are words that do not say what a text is about, of descriptions and of questions.
const stopText = `a about all also am an and any are as asks at be been but by can could did do does each for from good had has have
	help how i if in into is it its just let like me mentions my need needs of on or our please should skill skills so some something
	than that the their them then there these they this those to us use used user users uses using via want wants was way we
	were what when whenever where whether which who why will with would you your`

const (
	maxWord   = 40 // bytes of a word; a longer one is no word that a person looks for
	maxPhrase = 3  // words
)

// lexicon knows the English language: stems, stop words, and words that mean nearly the same.
type lexicon struct {
	stop map[string]bool
	// concepts are the terms of the groups of synonyms that a stem, or a phrase of stems, is in.
	concepts map[string][]string
	// stems caches stems while an index is built; nil = it does not.
	stems map[string]string
}

func newLexicon() *lexicon {
	l := &lexicon{stop: map[string]bool{}, concepts: map[string][]string{}, stems: map[string]string{}}
	for _, w := range strings.Fields(stopText) {
		l.stop[w] = true
	}
	group := 0
	for line := range strings.Lines(synonymText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for members := range strings.SplitSeq(line, ";") {
			group++
			for member := range strings.SplitSeq(members, ",") {
				key := l.phrase(strings.Fields(member))
				l.concepts[key] = append(l.concepts[key], conceptPrefix+strconv.Itoa(group))
			}
		}
	}
	return l
}

// conceptPrefix begins the term of a group of synonyms. No word begins so.
const conceptPrefix = "#"

// phrase returns the key of consecutive words in concepts.
func (l *lexicon) phrase(words []string) string {
	stems := make([]string, len(words))
	for i, w := range words {
		stems[i] = l.stem(w)
	}
	return strings.Join(stems, " ")
}

// stem returns the stem of an English word in lower case, in American spelling. Other words are
// returned as they are.
func (l *lexicon) stem(word string) string {
	if s, known := l.stems[word]; known {
		return s
	}
	s := word
	if isASCII(word) {
		s = english.Stem(american(word), true)
	}
	if l.stems != nil {
		l.stems[word] = s
	}
	return s
}

// isASCII reports whether a word has only ASCII letters.
func isASCII(word string) bool {
	return strings.IndexFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) < 0
}

// american writes -ise and -isation with a z, as the stemmer expects it.
func american(word string) string {
	for _, end := range []string{"ise", "ised", "ises", "iser", "ising", "isation", "isations", "yse", "ysed", "ysing"} {
		if root, ok := strings.CutSuffix(word, end); ok && len(root) > 2 {
			return root + strings.Replace(end, "s", "z", 1)
		}
	}
	return word
}

// word is a word of a text in lower case. tied is true if only a hyphen, a change of case or the
// like stands between it and the word before it.
type word struct {
	text string
	tied bool
}

// words returns at most limit words of a text. It splits at hyphens, changes of case (httpServer)
// and between letters and digits, but not within words like GitHub that the lexicon has, k8s or mp4.
func (l *lexicon) words(text string, limit int) (all []word) {
	for _, chunk := range strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == ',' }) {
		first := true
		for _, part := range strings.FieldsFunc(chunk, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			for _, w := range l.splitCase(part) {
				if len(all) == limit {
					return all
				}
				if len(w) <= maxWord && w != "s" && w != "t" { // what an apostrophe leaves
					all = append(all, word{w, !first})
					first = false
				}
			}
		}
	}
	return all
}

// splitCase returns the words within a sequence of letters and digits, in lower case.
func (l *lexicon) splitCase(part string) (out []string) {
	lower := strings.ToLower(part)
	if _, known := l.concepts[l.stem(lower)]; known || len(lower) != len(part) {
		return []string{lower}
	}
	begin := 0
	var before rune
	for i, r := range part {
		next, _ := utf8.DecodeRuneInString(part[i+utf8.RuneLen(r):])
		if i > begin && isBorder(before, r, next, i-begin) {
			out, begin = append(out, lower[begin:i]), i
		}
		before = r
	}
	return append(out, lower[begin:])
}

// isBorder reports whether a word ends before r, after length bytes. Two letters and a digit belong
// together (mp4, k8s), as does a plural of capitals (APIs).
func isBorder(before, r, next rune, length int) bool {
	if unicode.IsDigit(r) {
		return unicode.IsLetter(before) && length > 2
	}
	if !unicode.IsUpper(r) {
		return false
	}
	return unicode.IsLower(before) || unicode.IsUpper(before) && unicode.IsLower(next) && next != 's'
}
