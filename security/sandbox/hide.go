package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// hidden are the files and directories that a command of that policy must not see and that are there now, links
// resolved, none below another.
func (b *Box) hidden(f Files) ([]string, error) {
	var real []string
	for _, path := range b.cfg.Hide {
		if shows(f, path) {
			continue
		}
		if _, err := os.Lstat(path); unreachable(err) {
			continue // most are not there, and this asks for less than what follows
		}
		at, err := filepath.EvalSymlinks(path)
		if unreachable(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look at what to hide from the command: %w", err)
		}
		if !shows(f, at) {
			real = append(real, at)
		}
	}
	return meetPaths(real, []string{string(filepath.Separator)}), nil
}

// unreachable says that there is nothing for a command to see either: what is closed to this process is closed to it.
func unreachable(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR)
}

// shows says that the policy lets the command see a path that is hidden otherwise.
func shows(f Files, path string) bool {
	return slices.ContainsFunc(f.Show, func(s string) bool { s = clean(s); return s != "" && within(path, s) })
}

// openly returns an error if one of the paths lies where commands see nothing.
func openly(hidden []string, paths ...string) error {
	for _, h := range hidden {
		for _, path := range paths {
			if within(path, h) {
				return fmt.Errorf("%w: it is to use %s, and %s is hidden from commands: let the sandbox show it", ErrNotStarted, path, h)
			}
		}
	}
	return nil
}

// bares says, a sentence, what of the hidden cannot be hidden at this level; "" if nothing. Landlock cannot take away
// what it grants above, and a directory to write is granted whole.
func (b *Box) bares(f Files) string {
	if b.here.level != Landlock || len(f.Write) == 0 {
		return ""
	}
	hidden, err := b.hidden(f)
	if err != nil {
		return err.Error()
	}
	for _, h := range hidden {
		if slices.ContainsFunc(f.Write, func(w string) bool { return within(h, clean(w)) }) {
			return h + " could be read, since it lies in a directory that the command may write"
		}
	}
	return ""
}
