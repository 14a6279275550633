package mcpservers

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fileState returns a text that changes when one of the files changes: times
// and sizes. It reads no contents, because it is called in each turn of an
// agent.
func fileState(files ...string) string {
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

// isUserFile reports whether only the user can write a file: it is outside of
// the directories that commands may write, or in symbio's configuration
// directory, which the sandbox protects. Changes of other files are ignored
// until a restart, because an agent could have made them.
func (c Config) isUserFile(file string) bool {
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

// realPath resolves the links of the existing part of a path.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(realPath(dir), filepath.Base(path))
	}
	return path
}
