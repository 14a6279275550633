//go:build unix

package trust

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// private says what lets another user write or own a record or their directory.
func private(dir string, file fs.FileInfo) error {
	at, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if mode := at.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("other users may change the files in %s (mode %04o): run `chmod 700 %s`", dir, mode, dir)
	}
	if mode := file.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("other users may use it (mode %04o)", mode)
	}
	for _, info := range []fs.FileInfo{at, file} {
		if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Getuid() {
			return fmt.Errorf("%s belongs to another user", info.Name())
		}
	}
	return nil
}
