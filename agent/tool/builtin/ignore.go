package builtin

import (
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"symbio/internal/agent/tool/gitignore"
)

// maxIgnoreFile limits what is read of a .gitignore file, in bytes. The rest of a longer one is
// left out, and the line at the limit may be cut.
const maxIgnoreFile = 256 << 10

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
		// The name after dir is not yet part of dir: the rules of top itself are added by the walk.
		rules = k.rules(rules, dir, entries)
		dir = path.Join(dir, name)
	}
	return rules
}

// rules adds the rules of a directory to the rules of the directories above it and returns nil if all
// files are wanted. The rules from above end where a repository begins. A link named .gitignore is
// not followed, as in git. Unlike in git, the files also count outside of a repository.
//
// entries must be sorted by name, so that .git comes before .gitignore: .git resets the rules.
func (k *walker) rules(rules gitignore.Stack, dir string, entries []fs.DirEntry) gitignore.Stack {
	if k.all {
		return nil
	}
	for _, e := range entries {
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

// add reads a file of rules in dir and returns rules with it. A file that cannot be read counts as
// empty.
func (k *walker) add(rules gitignore.Stack, dir, name string) gitignore.Stack {
	f, _, err := OpenRegular(k.w.root, path.Join(dir, name))
	if err != nil {
		return rules
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	if err != nil || len(text) == 0 {
		return rules
	}
	// Package gitignore calls the top "".
	if dir == "." {
		dir = ""
	}
	// Clip makes append copy: directories beside each other share the rules from above and must not
	// overwrite each other's.
	return append(slices.Clip(rules), gitignore.Parse(dir, text))
}
