package permission

import (
	"slices"
	"strings"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/permission/shell"
)

var (
	// gitPatches are the sub-commands that print contents of commits and take pathspecs, so that
	// files can be excluded.
	gitPatches = strings.Fields("diff diff-tree diff-index diff-files show whatchanged log reflog grep archive format-patch")
	// gitContents are those that print contents which no pathspec limits. A person has to say.
	gitContents = strings.Fields("cat-file stash fast-export bundle range-diff unpack-file pack-objects merge-tree notes")
	// gitQuiet are the commands of both lists that print no contents unless an option asks for it, as
	// log -p does.
	gitQuiet = strings.Fields("log reflog stash")
	// gitNamesOnly matches options with which they still print none. It is a positive list: an
	// unknown option counts as one that prints.
	gitNamesOnly = lazyregexp.New(`^-(-(oneline|graph|(short|num|dir)?stat|name-|format|pretty|all$|decorate|no-|merges|first-parent|abbrev|date|reverse|follow|author|committer|since|until|after|before|grep|max-count|skip|branches|tags|remotes|topo-order|message)|[nitseqm]|[0-9]+$)`)
	// gitHex matches an argument of git grep that may be the hash of an object. In a tree or blob
	// that is named by its hash, pathspecs may mean other files.
	gitHex = lazyregexp.New(`^[0-9a-fA-F]{4,}$`)
)

// gitSub returns git's sub-command, of git-log as of git log. at is the index of the word behind
// it, 0 if there is no sub-command or the program is not git.
func gitSub(c *shell.Command) (sub shell.Word, at int) {
	if name, dashed := strings.CutPrefix(c.Name(), "git-"); dashed {
		return shell.Word{Text: name}, 1
	}
	for i := 1; c.Name() == "git" && i < len(c.Words); i++ {
		w := c.Words[i]
		if w.Dynamic || !strings.HasPrefix(w.Text, "-") {
			return w, i + 1
		}
		if valued, _ := shell.GlobalValue("git", w.Text); valued {
			i++
		}
	}
	return shell.Word{}, 0
}

// withoutFiles returns the words of a git command with pathspecs added, so that git prints no stored
// content of the files that they exclude. A rule that denies reading a file also has to cover the
// copies of it in the object store.
//
// It returns nil and true if the command prints no contents as it is, or is not git. sure is
// false if neither can be told; then a person has to be asked. The caller executes the words in
// place of the command's own (shell.Program.Rewrite).
func withoutFiles(c *shell.Command, pathspecs []string) (words []string, sure bool) {
	sub, at := gitSub(c)
	rest := c.Words[at:]
	prints := slices.ContainsFunc(rest, func(w shell.Word) bool {
		return w.Dynamic || strings.HasPrefix(w.Text, "-") && !gitNamesOnly().MatchString(w.Text)
	})
	switch {
	// It may be any sub-command.
	case sub.Dynamic:
		return nil, false
	// -t, -s and -e print the type, the size and nothing.
	case sub.Text == "cat-file":
		return nil, !prints && slices.ContainsFunc(rest, func(w shell.Word) bool { return w.Is("-t") || w.Is("-s") || w.Is("-e") })
	case slices.Contains(gitQuiet, sub.Text) && !prints:
		return nil, sub.Text != "stash" || len(rest) == 0 || !rest[0].Is("show")
	case !slices.Contains(gitPatches, sub.Text):
		return nil, !slices.Contains(gitContents, sub.Text)
	case c.Outer >= 0 || strings.Contains(c.Source(), "$"):
		return nil, false // its words are not in the program as they are
	}
	for i, w := range c.Words {
		// Such a word cannot be written down again, or may mean more than a path: --no-index
		// compares files outside of the repository.
		if w.Dynamic || w.Tilde || i >= at && (strings.HasPrefix(w.Text, "--no-i") || sub.Text == "grep" && gitHex().MatchString(w.Text)) {
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

// onlyCommits appends ^{commit} to the arguments of git show that name an object. git then fails
// for a blob, which it would print whatever its path is. Words behind -- are paths; X:PATH and
// ranges stay as they are. It changes args.
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
