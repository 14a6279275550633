package skills

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"symbio/skills/walk"
)

// What a listing of a skill's files holds at most (skills.md R60, F22), and how much of a directory is
// looked at for it.
const (
	mostFiles     = 200
	mostFileBytes = 16 << 10
	mostLooked    = 20_000
	deepestFile   = 8
)

// onDisk says that the skill has a directory that a tool can read.
func (s Skill) onDisk() bool { return s.files == nil && filepath.IsAbs(s.Dir) }

// ResourcePath is where a file of the skill lies, of which rel is the path from its directory.
func (s Skill) ResourcePath(rel string) string {
	if s.files != nil {
		return s.Dir + "/" + rel
	}
	return filepath.Join(s.Dir, filepath.FromSlash(rel))
}

// tree is the skill's directory, of which nothing outside can be reached.
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

// Files lists the files of the skill but the SKILL.md, by their paths from its directory, in order:
// regular files, and links to such that do not lead out. There are at most 200, of 16 KiB together;
// truncated says that there are more. It reads the disk.
func (s Skill) Files() (list []string, truncated bool, err error) {
	files, done, err := s.tree()
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = done() }() // nothing was written
	looked, size := 0, 0
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if looked++; looked > mostLooked {
			truncated = true
			return fs.SkipAll
		}
		if err != nil {
			return nil // what cannot be read is not listed
		}
		if d.IsDir() {
			if name != "." && (d.Name() == ".git" || walk.Pruned(d.Name()) || strings.Count(name, "/") >= deepestFile) {
				return fs.SkipDir
			}
			return nil
		}
		if name == walk.FileName || !regular(files, name, d) {
			return nil
		}
		if len(list) == mostFiles || size+len(name) > mostFileBytes {
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

func regular(files fs.FS, name string, d fs.DirEntry) bool {
	if d.Type()&fs.ModeSymlink == 0 {
		return d.Type().IsRegular()
	}
	info, err := fs.Stat(files, name)
	return err == nil && info.Mode().IsRegular()
}

// Kind is a directory of resources of a skill.
type Kind string

// The kinds (specification: optional directories).
const (
	Scripts    Kind = "scripts"
	References Kind = "references" // or reference, as some have it
	Assets     Kind = "assets"
)

// dirs are the names under which a skill may keep a kind.
func (k Kind) dirs() []string {
	switch k {
	case References:
		return []string{"references", "reference"}
	case Scripts, Assets:
		return []string{string(k)}
	}
	return nil
}

// Resources lists the files of one kind, by their paths from the skill's directory; capped as Files is.
func (s Skill) Resources(k Kind) ([]string, error) {
	all, _, err := s.Files()
	return slices.DeleteFunc(all, func(name string) bool {
		dir, _, _ := strings.Cut(name, "/")
		return !slices.Contains(k.dirs(), dir)
	}), err
}

// top are the names of the files directly in one of the skill's directories.
func (s Skill) top(dir string) (names []string) {
	files, done, err := s.tree()
	if err != nil {
		return nil
	}
	defer func() { _ = done() }() // nothing was written
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if name := oneLine(e.Name()); len(names) < mostFiles && regular(files, path.Join(dir, e.Name()), e) {
			names = append(names, name)
		}
	}
	return names
}
