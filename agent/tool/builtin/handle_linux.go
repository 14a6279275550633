package builtin

import (
	"fmt"
	"os"
	"strings"
)

// pathOf is where a file that is open lies, by the system's word; "" when it does not say, or the file is gone.
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
