//go:build unix

package identity

import (
	"fmt"
	"io/fs"
)

func privateFile(file string, stat fs.FileInfo) error {
	if mode := stat.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("other users may use %s (mode %04o): run `chmod 600 %s`; "+
			"if somebody may have read it, move it away instead and a new one is made", file, mode, file)
	}
	return nil
}

func privateDir(dir string, stat fs.FileInfo) error {
	if mode := stat.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("other users may replace the files in %s (mode %04o): run `chmod 700 %s`", dir, mode, dir)
	}
	return nil
}
