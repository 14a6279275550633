package format

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

const (
	// maxPattern limits the text of a pattern, in bytes.
	maxPattern = 200
	// maxInstructions limits the compiled pattern: x{1000} is short and large. The time of a match
	// is its product with the length of the text.
	maxInstructions = 200
	// minLiteral is the length of the text that every match must contain, in bytes. Without one, a
	// pattern would match nearly every task, and an index could not help to find it.
	minLiteral = 2
)

// Pattern is a regular expression of RE2, as package regexp has it, for texts that Fold returns.
type Pattern struct {
	// Size is the number of instructions that it is compiled to, roughly.
	Size int
	// Literals are texts; every match contains at least one of them.
	Literals []string

	folded string
}

// Fold returns a text in the form in which two texts are equal that differ only in the case of
// letters.
func Fold(text string) string { return strings.ToLower(strings.ToUpper(text)) }

// ParsePattern reads a pattern and checks its limits. It does not compile the pattern.
func ParsePattern(text string) (Pattern, error) {
	if len(text) > maxPattern {
		return Pattern{}, fmt.Errorf("it has %d bytes; at most %d are allowed", len(text), maxPattern)
	}
	tree, err := syntax.Parse(text, syntax.Perl|syntax.FoldCase)
	if err != nil {
		return Pattern{}, err
	}
	foldLiterals(tree)
	p := Pattern{Size: instructions(tree), Literals: literals(tree)}
	switch {
	case p.Size > maxInstructions:
		return Pattern{}, fmt.Errorf("it repeats too much: about %d instructions; at most %d are allowed", p.Size, maxInstructions)
	case shortest(p.Literals) < minLiteral:
		return Pattern{}, errors.New("it matches nearly everything; each of its alternatives must contain a word")
	}
	p.folded = tree.String()
	return p, nil
}

// foldLiterals changes the texts of a tree to the ones of Fold. Without the flag for their case, package
// regexp looks for them much faster.
func foldLiterals(tree *syntax.Regexp) {
	if tree.Op == syntax.OpLiteral {
		tree.Rune, tree.Flags = []rune(Fold(string(tree.Rune))), tree.Flags&^syntax.FoldCase
	}
	for _, sub := range tree.Sub {
		foldLiterals(sub)
	}
}

// Compile returns the pattern, ready to match texts that Fold returns.
func (p Pattern) Compile() (*regexp.Regexp, error) { return regexp.Compile(p.folded) }

// instructions returns about how many instructions a tree is compiled to. It does not exceed a
// number that is far above maxInstructions.
func instructions(tree *syntax.Regexp) int {
	n := max(1, len(tree.Rune))
	if tree.Op != syntax.OpLiteral {
		n = 1
	}
	for _, sub := range tree.Sub {
		n += instructions(sub)
	}
	if tree.Op == syntax.OpRepeat {
		n *= max(tree.Min+1, tree.Max)
	}
	return min(n, 1<<20)
}

// literals returns texts; every match contains one of them; nil if there are none.
func literals(tree *syntax.Regexp) (best []string) {
	switch tree.Op {
	case syntax.OpLiteral:
		return []string{string(tree.Rune)}
	case syntax.OpCapture, syntax.OpPlus:
		return literals(tree.Sub[0])
	case syntax.OpRepeat:
		if tree.Min > 0 {
			return literals(tree.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range tree.Sub {
			if l := literals(sub); shortest(l) > shortest(best) {
				best = l
			}
		}
	case syntax.OpAlternate:
		for _, sub := range tree.Sub {
			l := literals(sub)
			if l == nil {
				return nil
			}
			best = append(best, l...)
		}
	}
	return best
}

// shortest returns the length of the shortest text, 0 for no texts.
func shortest(texts []string) int {
	n := 0
	for i, t := range texts {
		if i == 0 || len(t) < n {
			n = len(t)
		}
	}
	return n
}
