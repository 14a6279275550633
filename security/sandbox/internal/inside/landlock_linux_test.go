//go:build amd64 || arm64

package inside

import (
	"errors"
	"net"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The first Landlock that keeps abstract sockets inside does so, and an earlier one is not asked to.
func TestRulesKeepAbstractSocketsInside(t *testing.T) {
	const version = 1 // LANDLOCK_CREATE_RULESET_VERSION
	abi, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version)
	if errno != 0 || abi < SignalsABI {
		t.Skipf("Landlock of this kernel: %d, %v", abi, errno)
	}
	outside, err := net.Listen("unix", "@symbio test "+t.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	for given, want := range map[int]error{SignalsABI - 1: nil, SignalsABI: syscall.EPERM} {
		got := make(chan error)
		go func() {
			runtime.LockOSThread() // the rules are for this thread, which ends with the goroutine
			got <- connectUnder(&Job{ABI: given}, outside.Addr().String())
		}()
		if err := <-got; !errors.Is(err, want) {
			t.Errorf("Landlock %d: connecting to a socket outside: %v, want %v", given, err, want)
		}
	}
}

// connectUnder connects to an abstract socket under the Landlock rules of a job.
func connectUnder(j *Job, name string) error {
	fd, err := j.ruleset()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(fd), 0, 0); errno != 0 {
		return errno
	}
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	return syscall.Connect(socket, &syscall.SockaddrUnix{Name: name})
}
