// Package trigger finds the skills whose triggers match the text of a task.
//
// An Index has each keyword, verb and pattern under one word or two letters that every match must
// contain. The time for a task therefore grows with the task and with what may match it, and not
// with the number of skills. All of the input may be hostile: only the beginning of a task is
// looked at, and the work for patterns is bounded.
//
// An Index is safe for concurrent use. It reports matches; who may activate what is for others to
// decide.
package trigger

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"symbio/internal/security/visible"
	"symbio/skills/format"
)

const (
	// maxTask is how much of a task is looked at, in bytes. A longer one is mostly data.
	maxTask = 16 << 10
	// maxWork bounds the work for the patterns of one task, in instructions times bytes: about 0.1 s.
	maxWork = 10 << 20
)

// maxWhy limits the text in Match.Why, in bytes.
const maxWhy = 64

// The strength of each kind of trigger: how seldom it matches a task that the skill is not for.
const (
	scoreVerb    = 1
	scoreKeyword = 2
	scorePattern = 3
)

// Match is an entry whose triggers match.
type Match struct {
	// Entry is its index in the list that the Index was made of.
	Entry int
	// Score is the sum of the strengths of all triggers that match.
	Score int
	// Why names the strongest trigger and the words of the task that it matches, such as: keyword
	// "pull request".
	Why string
}

// Index has the triggers of many skills.
type Index struct {
	words    map[string][]phrase  // keywords, by their longest word
	verbs    map[string][]int     // by their word
	literals map[string][]literal // of patterns, by the first bytes
}

// phrase is a keyword in the form that spaced returns.
type phrase struct {
	entry int
	text  string
}

// literal is a text that some matches of a pattern contain.
type literal struct {
	text string
	of   *pattern
}

// pattern is a pattern that is compiled when one of its literals is found first.
type pattern struct {
	entry    int
	source   format.Pattern
	compiled func() (*regexp.Regexp, error)
}

// maxPrefix is how much of a literal an Index is sorted by, in bytes.
const maxPrefix = 6

// New returns the index of entries. Patterns that cannot be read are left out.
func New(entries []format.Triggers) *Index {
	x := &Index{words: map[string][]phrase{}, verbs: map[string][]int{}, literals: map[string][]literal{}}
	for i, t := range entries {
		for _, k := range t.Keywords {
			words := split(format.Fold(k))
			if len(words) == 0 {
				continue
			}
			key := slices.MaxFunc(words, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
			x.words[key] = append(x.words[key], phrase{i, spaced(words)})
		}
		for _, v := range t.Verbs {
			v = format.Fold(v)
			x.verbs[v] = append(x.verbs[v], i)
		}
		for _, text := range t.Patterns {
			x.addPattern(i, text)
		}
	}
	return x
}

// addPattern adds a pattern once for each of its literals.
func (x *Index) addPattern(entry int, text string) {
	source, err := format.ParsePattern(text)
	if err != nil {
		return
	}
	p := &pattern{entry, source, sync.OnceValues(source.Compile)}
	for _, l := range source.Literals {
		prefix := l[:min(len(l), maxPrefix)]
		x.literals[prefix] = append(x.literals[prefix], literal{l, p})
	}
}

// Match returns the entries whose triggers match the beginning of a task, the strongest first and
// then in their order. A keyword matches its words in a row, a verb its word with an English ending.
func (x *Index) Match(task string) []Match {
	task = format.Fold(visible.Prefix(task, maxTask))
	s := search{found: map[int]*hit{}}
	words := split(task)
	text := spaced(words)
	slices.Sort(words)
	for _, w := range slices.Compact(words) {
		for _, p := range x.words[w] {
			if p.text == " "+w+" " || strings.Contains(text, p.text) {
				s.add(p.entry, scoreKeyword, "keyword", strings.TrimSpace(p.text))
			}
		}
		for _, base := range bases(w) {
			for _, entry := range x.verbs[base] {
				s.add(entry, scoreVerb, "verb", base)
			}
		}
	}
	x.matchPatterns(&s, task)
	all := make([]Match, 0, len(s.found))
	for entry, h := range s.found {
		all = append(all, Match{entry, h.score, fmt.Sprintf("%s %q", h.kind, h.text)})
	}
	slices.SortStableFunc(all, func(a, b Match) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Entry, b.Entry)) })
	return all
}

// matchPatterns runs the patterns with a literal that occurs in the task, as long as their work is
// within maxWork.
func (x *Index) matchPatterns(s *search, task string) {
	work := 0
	tried := map[*pattern]bool{}
	for _, l := range x.literalsIn(task) {
		cost := l.of.source.Size * len(task)
		if tried[l.of] || work+cost > maxWork || !strings.Contains(task, l.text) {
			continue
		}
		tried[l.of] = true
		work += cost
		re, err := l.of.compiled()
		if err != nil {
			continue
		}
		// The text of the task, and not the text of the pattern, which a stranger may have written for a
		// model to read.
		if match := re.FindString(task); match != "" {
			s.add(l.of.entry, scorePattern, "pattern", visible.Line(match, maxWhy))
		}
	}
}

// literalsIn returns the literals whose first bytes occur in the task, by their place in it.
func (x *Index) literalsIn(task string) (all []literal) {
	seen := map[string]bool{}
	for at := range len(task) {
		for n := 2; n <= maxPrefix && at+n <= len(task); n++ {
			prefix := task[at : at+n]
			if found := x.literals[prefix]; found != nil && !seen[prefix] {
				seen[prefix] = true
				all = append(all, found...)
			}
		}
	}
	return all
}

// search collects the entries that match.
type search struct{ found map[int]*hit }

// hit is an entry that matches, with the strongest trigger so far.
type hit struct {
	score, strongest int
	kind, text       string
}

// add records that a trigger of an entry matches.
func (s *search) add(entry, score int, kind, text string) {
	h := s.found[entry]
	if h == nil {
		h = &hit{}
		s.found[entry] = h
	}
	h.score += score
	if score > h.strongest {
		h.strongest, h.kind, h.text = score, kind, text
	}
}

// split returns the words of a text: letters and digits, with the marks of names such
// as C++ and C#. In scripts that do not separate words, each character is one.
func split(text string) (words []string) {
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			b.WriteString(" " + string(r) + " ")
		case unicode.In(r, unicode.L, unicode.N, unicode.M), r == '+', r == '#':
			b.WriteRune(r)
		default:
			b.WriteByte(' ')
		}
	}
	return strings.Fields(b.String())
}

// spaced returns words with a space around each, so that a phrase is found only as whole words.
func spaced(words []string) string { return " " + strings.Join(words, " ") + " " }

// bases returns a word and its possible base forms: says and saying of say, waved of wave, planning
// of plan, tried of try.
func bases(word string) []string {
	all := []string{word}
	for _, ending := range []string{"s", "es", "d", "ed", "ing"} {
		stem, ok := strings.CutSuffix(word, ending)
		if !ok || len(stem) < 2 {
			continue
		}
		all = append(all, stem)
		last := len(stem) - 1
		switch {
		case ending == "ing":
			all = append(all, stem+"e")
		case stem[last] == 'i': // ies, ied
			all = append(all, stem[:last]+"y")
		}
		if stem[last] == stem[last-1] {
			all = append(all, stem[:last])
		}
	}
	return all
}
