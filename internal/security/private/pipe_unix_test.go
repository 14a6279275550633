//go:build unix

package private_test

import "syscall"

func pipe(file string) error { return syscall.Mkfifo(file, 0o600) }
