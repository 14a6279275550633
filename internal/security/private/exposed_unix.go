//go:build unix

package private

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// exposed returns an error that wraps ErrExposed and says why another user could have written or
// read a file or directory; nil if none could. The owner must be this user or root, and the
// permission bits in closed must be zero. want is the mode for the advice to run chmod.
func exposed(path string, info fs.FileInfo, closed fs.FileMode, want string) error {
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || s.Uid != 0 && int(s.Uid) != os.Getuid() {
		return fmt.Errorf("%s belongs to another user; move it away: %w", path, ErrExposed)
	}
	if mode := info.Mode().Perm(); mode&closed != 0 {
		return fmt.Errorf("other users have access to %s (mode %04o): look at what is in it, then run `chmod %s %s`: %w", path, mode, want, path, ErrExposed)
	}
	return nil
}
