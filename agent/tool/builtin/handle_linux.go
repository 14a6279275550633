package builtin

import (
	"fmt"
	"os"
	"strings"
)

// pathOf returns the path at which the kernel has an open file; "" if it does not tell or if the
// file was deleted.
func pathOf(f *os.File) string {
	conn, err := f.SyscallConn()
	if err != nil {
		return ""
	}
	path := ""
	err = conn.Control(func(fd uintptr) { path, _ = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) })
	if err != nil || strings.HasSuffix(path, " (deleted)") {
		return ""
	}
	return path
}
