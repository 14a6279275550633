//go:build unix && !(linux && (amd64 || arm64))

package sandbox

import "syscall"

// ownGroup puts the command into a process group of its own, which its end takes with it.
func ownGroup(c *command) {
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.Cancel = func() error { return syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) }
	c.cleanup = append(c.cleanup, func() error {
		if c.cmd.Process != nil {
			_ = c.cmd.Cancel() // it fails if nothing is left
		}
		return nil
	})
}
