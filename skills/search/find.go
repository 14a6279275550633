package search

import (
	"cmp"
	"slices"
	"strings"
)

// Hit is a document that a query finds. Score is above 0 and at most 1.
type Hit struct {
	Document int
	Score    float64
}

// The weights of the ways in which a word of a query finds a document, compared with the word itself.
const (
	byPhrase  = 0.8 // a word or phrase that means the same as two or three words of the query
	byConcept = 0.6 // another word of its group of synonyms
	byGuess   = 0.6 // one that begins with it, or is like it, where no document has the word
	byBegin   = 0.4 // one that begins with the last word, which may not be complete
)

const (
	maxQuery    = 64 // words of a query
	maxVariants = 50 // words that begin with another, or are like it
	// minShare is the least score of a hit, compared with that of the best one. Less is noise.
	minShare = 0.1
	// coverBase is what is left of the score of a document that has little of the query.
	coverBase = 0.3
)

// Find returns the documents that have something of the query, the best first; equal ones in their
// order. Of two documents, the one that has more of the words, by their rarity, is the better one.
func (x *Index) Find(query string) []Hit {
	units := x.units(query)
	total, covered, best := make([]float32, x.documents), make([]float32, x.documents), make([]float32, x.documents)
	sum := float32(0)
	for _, u := range units {
		rarity := x.rate(u, best)
		for term := range u {
			for _, p := range x.of(term) {
				if s := best[p.document]; s > 0 {
					total[p.document] += s
					covered[p.document] += rarity
					best[p.document] = 0
				}
			}
		}
		sum += rarity
	}
	var hits []Hit
	for d, t := range total {
		if t > 0 {
			hits = append(hits, Hit{d, float64(t / sum * (coverBase + (1-coverBase)*covered[d]/sum))})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return slices.DeleteFunc(hits, func(h Hit) bool { return h.Score < minShare*hits[0].Score })
}

// rate sets best to how well a unit finds each document, and returns how rare the unit is.
func (x *Index) rate(u unit, best []float32) (rarity float32) {
	for term, by := range u {
		found := x.of(term)
		weight := by * x.rarity(len(found))
		rarity = max(rarity, weight)
		for _, p := range found {
			best[p.document] = max(best[p.document], weight*p.weight)
		}
	}
	return rarity
}

// unit is a word of a query: the terms of the index by which it finds documents, with the weight of
// the way that led to them. The best one counts.
type unit map[string]float32

// add adds a term that some document has.
func (x *Index) add(u unit, term string, weight float32) {
	if _, known := x.terms[term]; known {
		u[term] = max(u[term], weight)
	}
}

// units returns the words of a query that find something, without those that say nothing. A word
// that belongs to a compound or a phrase finds what that finds.
func (x *Index) units(query string) []unit {
	words := x.apart(x.lexicon.words(query, maxQuery))
	units, stems := make([]unit, len(words)), make([]string, len(words))
	for i, w := range words {
		units[i], stems[i] = unit{}, x.lexicon.stem(w.text)
		x.add(units[i], stems[i], 1)
		x.lexicon.conceptsAt(stems, i, func(n int, concept string) {
			for _, u := range units[i+1-n : i+1] {
				x.add(u, concept, byWords(n))
			}
		})
		if i > 0 {
			joined := x.lexicon.stem(words[i-1].text + w.text)
			x.add(units[i-1], joined, 1)
			x.add(units[i], joined, 1)
		}
	}
	for i, w := range words {
		x.guess(units[i], w.text, stems[i], i == len(words)-1)
	}
	meaningful := func(i int) bool { return !x.lexicon.stop[words[i].text] && len(units[i]) > 0 }
	var left []unit
	for i := range units {
		if meaningful(i) {
			left = append(left, units[i])
		}
	}
	if left == nil {
		return slices.DeleteFunc(units, func(u unit) bool { return len(u) == 0 })
	}
	return left
}

// byWords returns the weight of a synonym of n words.
func byWords(n int) float32 {
	if n > 1 {
		return byPhrase
	}
	return byConcept
}

// apart splits compounds that no document has into two words that some have: codereview.
func (x *Index) apart(words []word) (all []word) {
	for _, w := range words {
		if left, right, ok := x.split(w.text); ok {
			all = append(all, word{text: left}, word{text: right, tied: true})
		} else {
			all = append(all, w)
		}
	}
	return all
}

// minPart is the least length of a part of a compound; shorter ones are found everywhere.
const minPart = 3

// split returns the two words of a compound: those of which the rarer one is the most frequent.
func (x *Index) split(text string) (left, right string, ok bool) {
	stem := x.lexicon.stem(text)
	if x.of(stem) != nil || x.lexicon.concepts[stem] != nil {
		return "", "", false
	}
	most := 0
	for i := minPart; i <= len(text)-minPart; i++ {
		n := min(len(x.of(x.lexicon.stem(text[:i]))), len(x.of(x.lexicon.stem(text[i:]))))
		if n > most {
			left, right, most = text[:i], text[i:], n
		}
	}
	return left, right, most > 0
}

// guess adds to a unit what a person may have meant by a word that is not complete or not known.
func (x *Index) guess(u unit, text, stem string, last bool) {
	known := len(u) > 0
	if last && len(text) > 1 {
		weight := float32(byGuess)
		if known {
			weight = byBegin
		}
		x.begin(u, text, weight)
	}
	if known || len(u) > 0 || len(stem) <= minPart {
		return
	}
	x.begin(u, stem, byGuess)
	for i := len(stem) - 1; i > minPart && len(u) == 0; i-- {
		x.add(u, stem[:i], byGuess)
	}
	if len(u) == 0 {
		x.similar(u, stem)
	}
}

// begin adds the words that begin with a text.
func (x *Index) begin(u unit, text string, weight float32) {
	from, _ := slices.BinarySearch(x.sorted, text)
	for i := from; i < min(from+maxVariants, len(x.sorted)) && strings.HasPrefix(x.sorted[i], text); i++ {
		x.add(u, x.sorted[i], weight)
	}
}

// similar adds the words with the same first letter that differ by one letter, or by two if the word
// is long: one more, one less, another one, or two that changed places.
func (x *Index) similar(u unit, stem string) {
	limit := 1
	if len(stem) >= 7 {
		limit = 2
	}
	from, _ := slices.BinarySearch(x.sorted, stem[:1])
	nearest := limit
	var found []string
	for _, other := range x.sorted[from:] {
		if other[0] != stem[0] {
			break
		}
		switch d := distance(stem, other, nearest); {
		case d < nearest:
			nearest, found = d, []string{other}
		case d == nearest && len(found) < maxVariants:
			found = append(found, other)
		}
	}
	for _, term := range found {
		x.add(u, term, byGuess)
	}
}

// distance returns how many letters must be added, removed, replaced or swapped with their neighbour
// to make b of a; more than limit if it is more than that.
func distance(a, b string, limit int) int {
	if abs(len(a)-len(b)) > limit || len(a) > maxWord || len(b) > maxWord {
		return limit + 1
	}
	var rows [3][maxWord + 1]int // the one before the last, the last, this one
	for j := range len(b) + 1 {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		rows[2][0] = i
		for j := 1; j <= len(b); j++ {
			d := min(rows[1][j], rows[2][j-1]) + 1
			replaced := rows[1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[0][j-2]+1)
			}
			rows[2][j] = min(d, replaced)
		}
		rows[0], rows[1] = rows[1], rows[2]
	}
	return rows[1][len(b)]
}

func abs(n int) int { return max(n, -n) }
