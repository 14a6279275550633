package skills

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"symbio/internal/skills/walk"
)

// The limits of a list of a skill's files. The list goes into a prompt, so it
// is short. The number of visited entries limits the time in a directory that was not meant as a
// skill.
const (
	// maxListedFiles and maxListedBytes limit the list, in files and in bytes of their paths.
	maxListedFiles = 200
	maxListedBytes = 16 << 10
	// maxVisitedEntries limits the search, maxFileDepth how deep it goes.
	maxVisitedEntries = 20_000
	maxFileDepth      = 8
)

// onDisk reports whether the skill has a directory that a tool can read.
func (s Skill) onDisk() bool { return s.files == nil && filepath.IsAbs(s.Dir) }

// ResourcePath returns the path of a file of the skill. rel starts from the skill's directory.
func (s Skill) ResourcePath(rel string) string {
	if s.files != nil {
		return s.Dir + "/" + rel
	}
	return filepath.Join(s.Dir, filepath.FromSlash(rel))
}

// tree opens the skill's directory. No path and no link leads out of it. The caller must call done.
func (s Skill) tree() (files fs.FS, done func() error, err error) {
	if s.files != nil {
		return s.files, func() error { return nil }, nil
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("files of skill %s: %w", s.Name, err)
	}
	return root.FS(), root.Close, nil
}

// Files returns the files of the skill except the SKILL.md, sorted, as paths from its directory. It
// returns regular files, and links to regular files inside the directory. It returns at most 200
// files whose paths have at most 16 KiB together. truncated reports whether there are more. It
// reads the disk.
func (s Skill) Files() (list []string, truncated bool, err error) {
	files, done, err := s.tree()
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = done() }() // nothing was written
	looked, size := 0, 0
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if looked++; looked > maxVisitedEntries {
			truncated = true
			return fs.SkipAll
		}
		if err != nil {
			// An unreadable entry is left out of the list.
			return nil
		}
		if d.IsDir() {
			if name != "." && (d.Name() == ".git" || walk.Pruned(d.Name()) || strings.Count(name, "/") >= maxFileDepth) {
				return fs.SkipDir
			}
			return nil
		}
		if name == walk.FileName || !regular(files, name, d) {
			return nil
		}
		if len(list) == maxListedFiles || size+len(name) > maxListedBytes {
			truncated = true
			return fs.SkipAll
		}
		list, size = append(list, name), size+len(name)
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("files of skill %s: %w", s.Name, err)
	}
	return list, truncated, nil
}

// regular reports whether an entry is a regular file, or a link to one inside files. os.Root
// refuses links that lead out, so Stat fails for them.
func regular(files fs.FS, name string, d fs.DirEntry) bool {
	if d.Type()&fs.ModeSymlink == 0 {
		return d.Type().IsRegular()
	}
	info, err := fs.Stat(files, name)
	return err == nil && info.Mode().IsRegular()
}

// ResourceKind is a kind of resource of a skill. Each has its own directory.
type ResourceKind string

// The kinds of optional directories.
const (
	Scripts ResourceKind = "scripts"
	// References may also be in a directory called reference.
	References ResourceKind = "references"
	Assets     ResourceKind = "assets"
)

// dirs returns the directory names of a kind. Some skills write reference instead of references.
func (k ResourceKind) dirs() []string {
	switch k {
	case References:
		return []string{"references", "reference"}
	case Scripts, Assets:
		return []string{string(k)}
	}
	return nil
}

// Resources returns the files of one kind, as paths from the skill's directory. The limits are
// the errors of Files.
func (s Skill) Resources(k ResourceKind) ([]string, error) {
	all, _, err := s.Files()
	return slices.DeleteFunc(all, func(name string) bool {
		dir, _, _ := strings.Cut(name, "/")
		return !slices.Contains(k.dirs(), dir)
	}), err
}

// topAssets returns the names of the files directly in assets. Invisible characters are removed from
// them: they go into a prompt.
func (s Skill) topAssets() (names []string) {
	all, _ := s.Resources(Assets) // none of the unreadable ones
	for _, file := range all {
		if dir, name := path.Split(file); dir == "assets/" {
			names = append(names, oneLine(name))
		}
	}
	return names
}
