package search

import (
	"cmp"
	"slices"
	"strings"

	"symbio/internal/security/visible"
)

// Hit is a document that a query finds. Score is above 0 and at most 1.
type Hit struct {
	Document int
	Score    float64
}

// The weights of the ways in which a word of a query finds a document, compared with the word itself.
const (
	byConcept = 0.8 // another word or phrase of its group of synonyms
	byGuess   = 0.6 // one that begins with it, or is like it, where no document has the word
	byBegin   = 0.4 // one that begins with the last word, which may not be complete
)

const (
	maxQuery    = 64 // words of a query
	maxVariants = 50 // words that begin with another, or are like it
	// minShare is the least score of a hit, compared with the score of the best one. Less is noise.
	minShare = 0.1
	// coverBase is what is left of the score of a document that has little of the query.
	coverBase = 0.3
)

// Find returns the documents that have something of the query, the best first; equal ones in their
// order. Of two documents, the one that has more of the words, by their rarity, is the better one.
func (x *Index) Find(query string) (hits []Hit) {
	total, covered, best := make([]float32, x.documents), make([]float32, x.documents), make([]float32, x.documents)
	sum := float32(0)
	for _, u := range x.units(query) {
		rarity := x.rate(u, best)
		for d, s := range best {
			if s > 0 {
				total[d], covered[d], best[d] = total[d]+s, covered[d]+rarity, 0
			}
		}
		sum += rarity
	}
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
		for _, e := range found {
			best[e.document] = max(best[e.document], weight*e.weight)
		}
	}
	return rarity
}

// unit is a word of a query: the terms of the index by which it finds documents, with the weight of
// the way that led to them. The best one counts.
type unit map[string]float32

// add adds a term, if some document has it, to the units of the words that led to it.
func (x *Index) add(term string, weight float32, units ...unit) {
	if _, known := x.terms[term]; known {
		for _, u := range units {
			u[term] = max(u[term], weight)
		}
	}
}

// units returns the words of a query, without stop words if there are others. A word that belongs to a
// compound or a phrase finds what that finds.
func (x *Index) units(query string) (all []unit) {
	words := x.lexicon.words(query, maxQuery)
	units, stems := make([]unit, len(words)), make([]string, len(words))
	for i, w := range words {
		units[i], stems[i] = unit{}, x.lexicon.stem(w.text)
		x.add(stems[i], 1, units[i])
		x.lexicon.conceptsAt(stems, i, func(n int, concept string) {
			x.add(concept, byConcept, units[i+1-n:i+1]...)
		})
		if i > 0 {
			x.add(x.lexicon.stem(words[i-1].text+w.text), 1, units[i-1:i+1]...)
		}
	}
	for i, w := range words {
		x.guess(units[i], w.text, stems[i], i == len(words)-1)
		if !x.lexicon.stop[w.text] {
			all = append(all, units[i])
		}
	}
	if len(all) == 0 {
		return units
	}
	return all
}

// minPart is the least length of a part of a word by which it is guessed; shorter ones are in too many.
const minPart = 3

// guess adds to a unit what a person may have meant by a word that is not complete or not known.
func (x *Index) guess(u unit, text, stem string, last bool) {
	if len(u) > 0 {
		if last && len(text) > 1 {
			x.begin(u, text, byBegin)
		}
		return
	}
	if last || len(stem) >= minPart {
		x.begin(u, text, byGuess)
	}
	// A compound such as codereview, or a form of a word that is shorter in the documents.
	for i := len(stem) - minPart; i >= minPart && len(u) == 0; i-- {
		x.add(x.lexicon.stem(stem[:i]), byGuess, u)
		x.add(stem[i:], byGuess, u)
	}
	if len(stem) > minPart && len(u) == 0 {
		x.similar(u, stem)
	}
}

// begin adds the words that begin with a text.
func (x *Index) begin(u unit, text string, weight float32) {
	from, _ := slices.BinarySearch(x.sorted, text)
	for _, term := range x.sorted[from:min(from+maxVariants, len(x.sorted))] {
		if strings.HasPrefix(term, text) {
			x.add(term, weight, u)
		}
	}
}

// similar adds the nearest words with the same first letter that differ in one letter, or in two if
// the word is long.
func (x *Index) similar(u unit, stem string) {
	limit := 2 // where EditDistance stops
	if len(stem) >= 7 {
		limit = 3
	}
	from, _ := slices.BinarySearch(x.sorted, stem[:1])
	for _, term := range x.sorted[from:] {
		if term[0] != stem[0] {
			return
		}
		if d := visible.EditDistance(stem, term, limit); d < limit {
			x.add(term, byGuess/float32(d), u)
		}
	}
}
