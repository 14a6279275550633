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

// DeniedFiles are the files that rules keep from a command (permission.DeniedFiles): absolute paths
// of files that exist, with symbolic links resolved.
type DeniedFiles struct {
	// Hidden look empty to the command.
	Hidden []string
	// ReadOnly cannot be written, replaced or moved.
	ReadOnly []string
	// Fixed are files whose directories cannot be moved.
	Fixed []string
	// Unknown says, a sentence each, what is denied but could not be found: the command is not kept
	// from it.
	Unknown []string
}

// Gaps returns one sentence for each denied or hidden file that a command could use in spite
// of it on this machine; nil if there is none. Landlock cannot take away access that it grants for a
// directory above, and a directory to write is granted as a whole.
func (b *Box) Gaps(f Files) []string {
	gaps := slices.Clone(f.Denied.Unknown)
	if b.here.level < Seatbelt {
		return append(gaps, "nothing holds commands (level "+b.here.level.String()+")")
	}
	if b.here.level != Landlock {
		return gaps
	}
	hidden, err := b.hidden(f)
	if err != nil {
		return append(gaps, err.Error())
	}
	write := f.writable(f.Write)
	for _, list := range []struct {
		verb  string
		paths []string
	}{{"read", hidden}, {"written", f.Denied.ReadOnly}} {
		if i := slices.IndexFunc(list.paths, func(path string) bool { return anyAround(path, write) }); i >= 0 {
			gaps = append(gaps, list.paths[i]+" could be "+list.verb+", since it lies in a directory that the command may write")
		}
	}
	return gaps
}

// writable returns the paths that are not in Denied, nor below a denied directory.
func (f Files) writable(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(w string) bool {
		return anyAround(clean(w), slices.Concat(f.Denied.ReadOnly, f.Denied.Hidden))
	})
}

// hidden returns the files and directories that a command with these Files must not see, and
// that exist now: links resolved, none below another. Most names of Config.Hide do not exist,
// so a cheap Lstat comes first.
func (b *Box) hidden(f Files) ([]string, error) {
	var real []string
	for _, path := range b.cfg.Hide {
		if anyAround(path, f.Show) {
			continue
		}
		// Most of the names do not exist, and Lstat costs less than what follows.
		if _, err := os.Lstat(path); unreachable(err) {
			continue
		}
		at, err := filepath.EvalSymlinks(path)
		if unreachable(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find the files to hide from the command: %w", err)
		}
		if !anyAround(at, f.Show) {
			real = append(real, at)
		}
	}
	return meetPaths(append(real, f.Denied.Hidden...), []string{string(filepath.Separator)}), nil
}

// unreachable reports whether err means that a command cannot reach the file either: it is
// missing, or closed to this user.
func unreachable(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR)
}

// openly returns ErrNotStarted if the command needs one of the paths and it is hidden. That is
// better than a command that fails in an empty directory.
func openly(hidden []string, paths ...string) error {
	for _, h := range hidden {
		for _, path := range paths {
			if within(path, h) {
				return fmt.Errorf("%w: it is to use %s, and %s is hidden from commands: let the sandbox show it, unless a rule denies it", ErrNotStarted, path, h)
			}
		}
	}
	return nil
}
