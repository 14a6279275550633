// Package search ranks short texts, such as the descriptions of skills, by how well they answer a
// question in plain words.
//
// It is BM25 over fields of different weight (BM25F), made tolerant in four ways: words count by
// their stem; a word finds those that mean nearly the same by a table (synonyms.txt); compounds are
// found together and apart (pre-commit, precommit, preCommit); and a word that no text has finds
// those that begin with it, or that differ in a letter or two.
//
// An Index never changes and is safe for concurrent use. Its memory is bounded by the limits of each
// field. It does not know the meaning of the texts.
package search

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
)

// Document has the texts of one document, by field. A field may be empty.
type Document struct {
	Name, Tags, Triggers, Description, Headings string
}

// field is how a field counts: the weight of a word in it, how much a long text makes a word count
// less (b of BM25, 0 to 1), and how many words are read, which bounds the memory.
type field struct {
	weight, b float32
	limit     int
}

// fields are the fields of a Document, in the order of Document.texts.
func fields() [5]field {
	return [...]field{
		{3, 0.5, 20},   // Name
		{2, 0.3, 40},   // Tags
		{2, 0.3, 60},   // Triggers
		{1, 0.6, 200},  // Description: 1,024 characters have about 170 words
		{0.5, 0.6, 40}, // Headings
	}
}

func (d Document) texts() [5]string {
	return [...]string{d.Name, d.Tags, d.Triggers, d.Description, d.Headings}
}

// saturation is k1 of BM25: with more of it, a repeated word counts for more.
const saturation = 1.6

// Index finds documents by words. Make it with New.
type Index struct {
	lexicon   *lexicon
	documents int
	terms     map[string]uint32 // the number of each stem and concept
	sorted    []string          // the terms, for those that begin with a word
	starts    []uint32          // where the entries of a term begin; one more than there are terms
	entries   []entry
}

// entry says that a document has a term. weight is between 0 and 1: the saturated frequency.
type entry struct {
	document uint32
	weight   float32
}

// occurrence is a term in a field of a document.
type occurrence struct {
	term, document uint32
	field          uint8
}

// builder collects the occurrences of an index.
type builder struct {
	*Index
	found   []occurrence
	lengths [][5]float32 // of the fields of each document, in words
}

// New returns an index of the documents, which are numbered from 0 in their order.
func New(documents iter.Seq[Document]) *Index {
	b := builder{Index: &Index{lexicon: newLexicon(), terms: map[string]uint32{}}}
	for d := range documents {
		b.lengths = append(b.lengths, [5]float32{})
		for f, text := range d.texts() {
			b.add(uint8(f), text)
		}
	}
	b.documents = len(b.lengths)
	b.lexicon.stems, b.lexicon.parts = nil, nil
	b.finish()
	return b.Index
}

// add adds the text of a field of the last document.
func (b *builder) add(f uint8, text string) {
	words := b.lexicon.words(text, fields()[f].limit)
	stems := make([]string, len(words))
	for i, w := range words {
		stems[i] = b.lexicon.stem(w.text)
		b.lexicon.conceptsAt(stems, i, func(_ int, concept string) { b.put(f, concept) })
		if f > 0 && b.lexicon.stop[w.text] { // a name may be how-to
			continue
		}
		b.lengths[len(b.lengths)-1][f]++
		b.put(f, stems[i])
		if w.tied {
			b.put(f, b.lexicon.stem(words[i-1].text+w.text))
		}
	}
}

// put adds a term in a field of the last document.
func (b *builder) put(f uint8, term string) {
	id, known := b.terms[term]
	if !known {
		id = uint32(len(b.terms))
		b.terms[term] = id
	}
	b.found = append(b.found, occurrence{id, uint32(len(b.lengths) - 1), f})
}

// finish makes the entries of the occurrences, by term and document.
func (b *builder) finish() {
	slices.SortFunc(b.found, func(x, y occurrence) int {
		return cmp.Or(cmp.Compare(x.term, y.term), cmp.Compare(x.document, y.document))
	})
	norms := b.norms()
	b.starts = make([]uint32, 1, len(b.terms)+1)
	last := occurrence{term: math.MaxUint32}
	for _, o := range b.found {
		if o.term != last.term || o.document != last.document {
			b.entries = append(b.entries, entry{document: o.document})
		}
		if last = o; int(o.term) == len(b.starts) {
			b.starts = append(b.starts, uint32(len(b.entries)-1))
		}
		f := fields()[o.field]
		b.entries[len(b.entries)-1].weight += f.weight / (1 - f.b + f.b*b.lengths[o.document][o.field]/norms[o.field])
	}
	b.starts = append(b.starts, uint32(len(b.entries)))
	b.entries = slices.Clip(b.entries)
	for i, p := range b.entries {
		b.entries[i].weight = p.weight / (saturation + p.weight)
	}
	b.sorted = slices.Sorted(maps.Keys(b.terms))
}

// norms returns the average length of each field, of the documents that have it.
func (b *builder) norms() (average [5]float32) {
	for f := range average {
		sum, n := float32(0), float32(0)
		for _, l := range b.lengths {
			if l[f] > 0 {
				sum, n = sum+l[f], n+1
			}
		}
		average[f] = max(1, sum/max(1, n))
	}
	return average
}

// of returns the entries of a term; none if no document has it.
func (x *Index) of(term string) []entry {
	id, known := x.terms[term]
	if !known {
		return nil
	}
	return x.entries[x.starts[id]:x.starts[id+1]]
}

// rarity is the inverse document frequency of a term that n documents have.
func (x *Index) rarity(n int) float32 {
	return float32(math.Log(1 + (float64(x.documents)-float64(n)+0.5)/(float64(n)+0.5)))
}
