//go:build unix

package standing

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// trusted tells why a file or directory could be somebody else's words. closed are the permissions that others must
// not have.
func trusted(path string, info fs.FileInfo, closed fs.FileMode, want string) error {
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Getuid() {
		return fmt.Errorf("%s belongs to another user; move it away", path)
	}
	if mode := info.Mode().Perm(); mode&closed != 0 {
		return fmt.Errorf("other users may use %s (mode %04o): look at what is in it, then run `chmod %s %s`", path, mode, want, path)
	}
	return nil
}
