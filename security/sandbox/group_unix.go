//go:build unix && !(linux && (amd64 || arm64))

package sandbox

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the command into a process group of its own, which its end takes with it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
