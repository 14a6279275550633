//go:build amd64 || arm64

package inside

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A mount that the kernel refuses must not be taken for one that is there. Run as root of a user namespace of its own.
func TestMountThatFailsIsAnError(t *testing.T) {
	c := exec.Command("/proc/self/exe")
	c.Env = []string{"SYMBIO_TEST_INSIDE=mount"}
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	if out := string(out); strings.HasPrefix(out, "no copy: ") || err != nil && out == "" {
		t.Skipf("no mounts in a user namespace here: %v %s", err, out)
	}
	if want := "mount /dev/null: invalid argument"; err != nil || string(out) != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
}

// mountOverDirectory mounts a file over a directory, which fails, and prints the error.
func mountOverDirectory() {
	file, err := copyPlain("/dev/null", "/dev/null", 0)
	if err != nil {
		os.Stdout.WriteString("no copy: " + err.Error())
		return
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == nil {
		err = file.attachAt(root)
	}
	if err == nil {
		os.Stdout.WriteString("mounted")
	} else {
		os.Stdout.WriteString(err.Error())
	}
}
