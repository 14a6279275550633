package builtin

import (
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"symbio/agent/tool/gitignore"
)

// maxIgnoreFile limits what is read of a .gitignore file, in bytes.
const maxIgnoreFile = 1 << 20

// above returns the rules of the directories above the top of the walk. They do not apply to the
// top itself: a directory that the model names is always walked.
func (k *walker) above() gitignore.Stack {
	if k.all || k.top == "." {
		return nil
	}
	var rules gitignore.Stack
	dir := "."
	for name := range strings.SplitSeq(filepath.ToSlash(k.top), "/") {
		var entries []fs.DirEntry
		for _, one := range []string{".git", ".gitignore"} {
			if info, err := k.w.root.Lstat(path.Join(dir, one)); err == nil {
				entries = append(entries, fs.FileInfoToDirEntry(info))
			}
		}
		rules = k.rules(rules, dir, entries)
		dir = path.Join(dir, name)
	}
	return rules
}

// rules adds the rules of a directory to those of the directories above it. The rules from above
// end where a repository begins. A link named .gitignore is not followed, as in git. Unlike in git,
// the files also count outside of a repository.
func (k *walker) rules(rules gitignore.Stack, dir string, entries []fs.DirEntry) gitignore.Stack {
	if k.all {
		return nil
	}
	for _, e := range entries { // .git comes before .gitignore
		switch {
		case e.Name() == ".git":
			rules = nil
			if e.IsDir() {
				rules = k.add(rules, dir, ".git/info/exclude")
			}
		case e.Name() == ".gitignore" && e.Type().IsRegular():
			rules = k.add(rules, dir, ".gitignore")
		}
	}
	return rules
}

// add reads a file of rules. One that cannot be read counts as empty.
func (k *walker) add(rules gitignore.Stack, dir, name string) gitignore.Stack {
	f, _, err := openRegular(k.w.root, path.Join(dir, name))
	if err != nil {
		return rules
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	if err != nil || len(text) == 0 {
		return rules
	}
	if dir == "." {
		dir = ""
	}
	return append(slices.Clip(rules), gitignore.Parse(dir, text))
}
