package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// maxBraces is how many words a brace expansion may make, else {1..9}{1..9}{1..9} made thousands.
const maxBraces = 64

// spread expands braces into the parts of each resulting word. ok is false where the shell may
// find other braces than the parser does, for sequences such as {1..9}, and beyond maxBraces
// words.
func spread(w *syntax.Word) (all [][]syntax.WordPart, ok bool) {
	braces := false
	for i, p := range w.Parts {
		lit, is := p.(*syntax.Lit)
		braces = braces || is && strings.Contains(lit.Value, "{")
		if is && i > 0 && strings.HasPrefix(lit.Value, "{") {
			if _, after := w.Parts[i-1].(*syntax.ParamExp); after {
				return nil, false // behind a $ of any kind a brace is none to the shell
			}
		}
	}
	if !braces {
		return [][]syntax.WordPart{w.Parts}, true
	}
	if !choices(w.Parts) {
		return [][]syntax.WordPart{w.Parts}, true // {}, HEAD@{1}
	}
	// SplitBraces changes the word that it is given. The tree that is printed must not change.
	split := &syntax.Word{Parts: w.Parts}
	if !syntax.SplitBraces(split) || leftOver(split.Parts) {
		return nil, false // the shell may find others than the parser
	}
	for word, err := range expand.BracesSeq(nil, split) {
		if err != nil || len(all) == maxBraces {
			return nil, false
		}
		all = append(all, word.Parts)
	}
	return all, true
}

// choices reports whether there is a comma or .., without which bash leaves braces alone ({},
// @{1}).
func choices(parts []syntax.WordPart) bool {
	return slices.ContainsFunc(parts, func(p syntax.WordPart) bool {
		lit, is := p.(*syntax.Lit)
		return is && (strings.Contains(lit.Value, ",") || strings.Contains(lit.Value, ".."))
	})
}

// leftOver reports whether bash may read other braces in a split word: a brace without its pair,
// a sequence, or a $ that takes in what the expansion puts behind it.
func leftOver(parts []syntax.WordPart) bool {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, "{}$") { // a $ takes in what comes to stand behind it
				return true
			}
		case *syntax.BraceExp:
			if p.Sequence || slices.ContainsFunc(p.Elems, func(e *syntax.Word) bool { return leftOver(e.Parts) }) {
				return true
			}
		}
	}
	return false
}
