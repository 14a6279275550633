package builtin

import (
	"fmt"
	"os"
	"strings"
)

// pathOf returns the path at which the kernel has an open file, with all links followed; "" if it
// does not tell (such as without /proc) or if the file was deleted.
func pathOf(f *os.File) string {
	conn, err := f.SyscallConn()
	if err != nil {
		return ""
	}
	path := ""
	// Control keeps the descriptor open, and so its number from being used for another file
	// meanwhile.
	err = conn.Control(func(fd uintptr) { path, _ = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) })
	if err != nil || strings.HasSuffix(path, " (deleted)") {
		return ""
	}
	return path
}
