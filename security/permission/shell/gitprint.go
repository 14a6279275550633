package shell

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

var (
	// gitPatches print contents of commits and take pathspecs; gitContents print what no pathspec bounds. gitQuiet print
	// none without an option that is not plain.
	gitPatches  = set("diff diff-tree diff-index diff-files show whatchanged log reflog grep archive format-patch")
	gitContents = set("cat-file stash fast-export bundle range-diff unpack-file pack-objects merge-tree notes")
	gitQuiet    = set("log reflog stash")
	gitPlain    = regexp.MustCompile(`^-(-(oneline|graph|(short|num|dir)?stat|name-|format|pretty|all$|decorate|no-|merges|first-parent|abbrev|date|reverse|follow|author|committer|since|until|after|before|grep|max-count|skip|branches|tags|remotes|topo-order|message)|[nitseqm]|[0-9]+$)`)
	gitHex      = regexp.MustCompile(`^[0-9a-fA-F]{4,}$`)
)

// gitSub finds git's sub-command; at is the number of the word behind it, 0 if there is none.
func (c Command) gitSub() (sub Word, at int) {
	if name, dashed := strings.CutPrefix(c.Name(), "git-"); dashed {
		return Word{Text: name}, 1
	}
	for i := 1; c.Name() == "git" && i < len(c.Words); i++ {
		w := c.Words[i]
		if w.Dynamic || !strings.HasPrefix(w.Text, "-") {
			return w, i + 1
		}
		if gitGlobal(w.Text) {
			i++
		}
	}
	return Word{}, 0
}

// Without returns the words with which git prints nothing of the object store that the pathspecs mean; nil if it prints no
// contents as it is. sure is false where only a person can say.
func (c Command) Without(pathspecs []string) (words []string, sure bool) {
	sub, at := c.gitSub()
	rest := c.Words[at:]
	prints := slices.ContainsFunc(rest, func(w Word) bool { return w.Dynamic || strings.HasPrefix(w.Text, "-") && !gitPlain.MatchString(w.Text) })
	switch {
	case sub.Dynamic:
		return nil, false
	case sub.Text == "cat-file":
		return nil, !prints && slices.ContainsFunc(rest, func(w Word) bool { return w.Is("-t") || w.Is("-s") || w.Is("-e") })
	case gitQuiet[sub.Text] && !prints:
		return nil, sub.Text != "stash" || len(rest) == 0 || !rest[0].Is("show")
	case !gitPatches[sub.Text]:
		return nil, !gitContents[sub.Text]
	case c.Outer >= 0 || strings.Contains(c.Source(), "$"):
		return nil, false // its words are not in the program as they are
	}
	for i, w := range c.Words {
		if w.Dynamic || w.Tilde || i >= at && (strings.HasPrefix(w.Text, "--no-i") || sub.Text == "grep" && gitHex.MatchString(w.Text)) {
			return nil, false
		}
		words = append(words, w.Text)
	}
	if sub.Text == "show" {
		onlyCommits(words[at:])
	}
	for _, spec := range pathspecs {
		if !slices.Contains(words, spec) { // a script that was judged before has them
			words = append(words, spec)
		}
	}
	return words, true
}

// onlyCommits has the arguments of git show mean commits: a blob would be printed whatever its path is.
func onlyCommits(args []string) {
	for i, text := range args {
		switch {
		case text == "--":
			return
		case strings.HasPrefix(text, "-"), strings.Contains(text, ":"), strings.Contains(text, ".."), strings.HasSuffix(text, "^{commit}"):
		default:
			args[i] += "^{commit}"
		}
	}
}

// Rewrite gives the commands of those numbers other words: Canonical is then the program with these; "" if it cannot be.
func (p *Program) Rewrite(words map[int][]string) {
	for i, all := range words {
		call, ok := p.Commands[i].written.(*syntax.CallExpr)
		var text []string
		for _, w := range all {
			q, err := syntax.Quote(w, syntax.LangBash)
			ok = ok && err == nil
			text = append(text, q)
		}
		again, err := parse(strings.Join(text, " "), syntax.LangBash, false)
		if !ok || err != nil {
			p.Canonical = ""
			return
		}
		call.Args = again.Stmts[0].Cmd.(*syntax.CallExpr).Args
	}
	text, err := printTree(p.tree)
	if err != nil {
		text = ""
	}
	p.Canonical = text
}
