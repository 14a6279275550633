package mcpservers

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// marks is how files look: another text when one of them has changed.
func marks(files ...string) string {
	var b strings.Builder
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			b.WriteString("none\n")
			continue
		}
		fmt.Fprintf(&b, "%d %d\n", info.ModTime().UnixNano(), info.Size())
	}
	return b.String()
}

// usersOwn says that only the user writes a file: it lies outside of where agents may be let write, or in the directory that
// they are kept from there. Any other file counts as it was when the node started.
func (c Config) usersOwn(file string) bool {
	file = realPath(file)
	if strings.Contains(filepath.ToSlash(file), "/.config/symbio/") {
		return true
	}
	for _, dir := range append(slices.Clip(c.Writable), c.Workspace) {
		if rel, err := filepath.Rel(realPath(dir), file); err != nil || filepath.IsLocal(rel) {
			return false
		}
	}
	return true
}

// realPath is a path without links, as far as it is there.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(realPath(dir), filepath.Base(path))
	}
	return path
}
