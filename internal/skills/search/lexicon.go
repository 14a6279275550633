package search

import (
	_ "embed"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/kljensen/snowball/english"
)

//go:embed synonyms.txt
var synonymText string

// stopText are words that do not say what a text is about, of descriptions and of questions.
const stopText = `a about all also am an and any are as asks at be been but by can could did do does each for from good had has have
	help how i if in into is it its just let like me mentions my need needs of on or our please should skill skills so some something
	than that the their them then there these they this those to us use used user users uses using via want wants was way we
	were what when whenever where whether which who why will with would you your`

// maxWord is the longest word in bytes. A longer one is no word that a person looks for.
const maxWord = 40

// lexicon knows the English language: stems, stop words, and words that mean nearly the same.
type lexicon struct {
	stop map[string]bool
	// concepts are the terms of the groups of synonyms that a stem, or a phrase of stems, is in.
	concepts map[string][]string
	// longest is how many words the longest phrase of concepts has that ends with a stem.
	longest map[string]int
	// english matches a word that can have a stem, british one of another spelling than the stemmer
	// knows. borders match where a word ends within letters and digits: at a change of case, but not
	// before a plural (APIs), and at a digit, but not after two letters (mp4, k8s).
	english, british *regexp.Regexp
	borders          [3]*regexp.Regexp
	// stems and parts cache the results of stem and splitCase while an index is built; nil = not.
	stems map[string]string
	parts map[string][]string
}

func newLexicon() *lexicon {
	l := &lexicon{
		stop: map[string]bool{}, concepts: map[string][]string{}, longest: map[string]int{}, stems: map[string]string{},
		english: regexp.MustCompile(`^[a-z]+$`),
		british: regexp.MustCompile(`(.{2}[iy])s(e[drs]?|ing|ations?)$`),
		borders: [3]*regexp.Regexp{regexp.MustCompile(`(\p{Ll})(\p{Lu})`), regexp.MustCompile(`(\p{Lu})(\p{Lu}\p{Ll}{2})`), regexp.MustCompile(`(\pL{3})(\d)`)},
	}
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
				l.addSynonym(strings.Fields(member), conceptPrefix+strconv.Itoa(group))
			}
		}
	}
	l.parts = map[string][]string{} // now that it depends on all concepts
	return l
}

// conceptPrefix begins the term of a group of synonyms. No word begins so.
const conceptPrefix = "#"

// addSynonym adds a word or phrase to a group.
func (l *lexicon) addSynonym(words []string, group string) {
	stems := make([]string, len(words))
	for i, w := range words {
		stems[i] = l.stem(w)
	}
	key, last := strings.Join(stems, " "), stems[len(stems)-1]
	l.concepts[key] = append(l.concepts[key], group)
	l.longest[last] = max(l.longest[last], len(stems))
}

// conceptsAt calls do for each group of a word or phrase that ends at stems[i], with its length.
func (l *lexicon) conceptsAt(stems []string, i int, do func(n int, concept string)) {
	for n := 1; n <= min(l.longest[stems[i]], i+1); n++ {
		for _, concept := range l.concepts[strings.Join(stems[i+1-n:i+1], " ")] {
			do(n, concept)
		}
	}
}

// stem returns the stem of an English word in lower case. Other words are returned as they are.
func (l *lexicon) stem(word string) string {
	if s, known := l.stems[word]; known {
		return s
	}
	s := word
	if l.english.MatchString(word) {
		s = english.Stem(l.british.ReplaceAllString(word, "${1}z$2"), true)
	}
	if l.stems != nil {
		l.stems[word] = s
	}
	return s
}

// word is a word of a text in lower case. tied is true if only a hyphen, a change of case or the
// like stands between it and the word before it.
type word struct {
	text string
	tied bool
}

// words returns at most limit words of a text. It splits compounds (pre-commit, httpServer), except
// those that have synonyms (GitHub).
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
func (l *lexicon) splitCase(part string) []string {
	if out, known := l.parts[part]; known {
		return out
	}
	out := []string{strings.ToLower(part)}
	if l.concepts[l.stem(out[0])] == nil {
		split := part
		for _, border := range l.borders {
			split = border.ReplaceAllString(split, "$1 $2")
		}
		out = strings.Fields(strings.ToLower(split))
	}
	if l.parts != nil {
		l.parts[part] = out
	}
	return out
}
