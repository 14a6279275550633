//go:build linux || darwin

package sqlite

import (
	"fmt"
	"syscall"
)

// free says how much room the disk of a directory has for this user, as the end of a clause; "" if that
// cannot be told.
func free(dir string) string {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return ""
	}
	return fmt.Sprintf(" (%d KiB are free in %s)", s.Bavail*uint64(s.Bsize)>>10, dir)
}
