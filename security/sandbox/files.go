package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Files says which files a command may use. Paths are absolute and free of symbolic links:
// ReadOnly, WorkingDirectoryOnly and Custom see to that, and a command is refused when one of them
// is a link after all.
type Files struct {
	// Read are directories and files that can be read beside the system's own (programs, libraries,
	// /etc) and those in Write; "/" is everything.
	Read []string
	// Write are directories and files that can be written.
	Write []string
	// Show are hidden files and directories (Config.Hide) that the command sees all the same, where
	// Read and Write let it. Files below one are shown with it.
	Show []string
	// Sockets are Unix sockets to which the command connects, each by its name; hiding does not
	// keep it from them.
	Sockets []string
	// Denied are kept from the command, whatever the rest says.
	Denied DeniedFiles
	// Temp is a private directory for temporary files, in place of /tmp where the level can do that.
	Temp bool
	// Home is a private, empty home directory in place of the user's, and /tmp likewise. Both are in memory, bounded,
	// and gone after the command. It sees of the file system only the system's own, Read, Write and the toolchains in
	// the home, and the caches of builds; it writes a private layer over them; Temp counts for nothing then. A home
	// that lies in Read or Write is seen as it is, and HOME is /tmp. Not sent to other nodes unless it
	// is set, since one of an older version does not know it.
	Home bool `json:",omitempty"`
}

// ReadOnly returns Files that can read everything and write nothing.
func ReadOnly() Files { return Files{Read: []string{"/"}} }

// WorkingDirectoryOnly returns Files that can read everything and write below dir and in a
// private directory for temporary files. dir is the boundary of a session: never take it from
// a model. It returns an error if dir does not exist.
func WorkingDirectoryOnly(dir string) (Files, error) { return Custom([]string{"/"}, []string{dir}) }

// Custom returns Files that can read the given paths and the system's own, and write the given
// paths and temporary files. Paths are made absolute and their links resolved now, not when a
// command runs: a link that is changed later must not move the boundary. A path to read that
// does not exist is left out; a path to write that does not exist is an error.
func Custom(read, write []string) (Files, error) {
	f := Files{Temp: true}
	for _, p := range read {
		real, err := resolve(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Files{}, fmt.Errorf("resolve the directory to read: %w", err)
		}
		f.Read = append(f.Read, real)
	}
	for _, p := range write {
		real, err := resolve(p)
		if err != nil {
			return Files{}, fmt.Errorf("resolve the directory to write: %w", err)
		}
		f.Write = append(f.Write, real)
	}
	return meetFiles(f, f), nil
}

// resolve returns an absolute path without links; an error if it does not exist.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// meetFiles returns what both allow; files that either denies are denied. Files that can be written
// can also be read.
func meetFiles(a, b Files) Files {
	return Files{
		Read:    meetPaths(slices.Concat(a.Read, a.Write), slices.Concat(b.Read, b.Write)),
		Write:   meetPaths(a.Write, b.Write),
		Show:    meetPaths(a.Show, b.Show),
		Sockets: meetNames(a.Sockets, b.Sockets),
		Temp:    a.Temp && b.Temp,
		Home:    a.Home || b.Home,
		Denied: DeniedFiles{
			join(a.Denied.Hidden, b.Denied.Hidden), join(a.Denied.ReadOnly, b.Denied.ReadOnly),
			join(a.Denied.Fixed, b.Denied.Fixed), join(a.Denied.Unknown, b.Denied.Unknown),
		},
	}
}

// meetPaths returns what lies below a path of a and below one of b, in the shortest form:
// sorted, none below another. Relative paths are left out: they name no place.
func meetPaths(a, b []string) []string {
	var both []string
	for _, p := range a {
		for _, q := range b {
			switch p, q := clean(p), clean(q); {
			case p == "" || q == "":
			case within(p, q):
				both = append(both, p)
			case within(q, p):
				both = append(both, q)
			}
		}
	}
	slices.Sort(both)
	both = slices.Compact(both)
	var top []string
	for _, p := range both {
		if !anyAround(p, top) {
			top = append(top, p)
		}
	}
	return top
}

// clean returns the path in its shortest form; "" when it is not absolute, which is no place at all.
func clean(path string) string {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return ""
	}
	return filepath.Clean(path)
}

// within reports whether path is dir or lies below it. Both must be clean. Whole names are
// compared: /ab is not within /a.
func within(path, dir string) bool {
	if path == dir {
		return true
	}
	if !strings.HasSuffix(dir, string(filepath.Separator)) { // as "/" does
		dir += string(filepath.Separator)
	}
	return strings.HasPrefix(path, dir)
}

// anyAround reports whether one of the directories is path, or is above it. path must be clean.
func anyAround(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { dir = clean(dir); return dir != "" && within(path, dir) })
}
