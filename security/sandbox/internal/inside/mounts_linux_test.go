//go:build amd64 || arm64

package inside

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A mount that the kernel refuses must not be taken for one that is there. Run as root of a user namespace of its own.
func TestMountThatFailsIsAnError(t *testing.T) {
	if got, want := inUserNamespace(t, "mount"), "mount /dev/null: invalid argument"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

// inUserNamespace returns what this program prints as root of namespaces of its own; see TestMain.
func inUserNamespace(t *testing.T, what string) string {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = []string{"SYMBIO_TEST_INSIDE=" + what}
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	if strings.HasPrefix(string(out), "no mounts: ") || err != nil && len(out) == 0 {
		t.Skipf("no mounts in a user namespace here: %v %s", err, out)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return string(out)
}

// A socket that its program removes just then is hidden from no command, and keeps none from starting.
func TestHidingOfWhatIsRemovedIsNoError(t *testing.T) {
	if got := inUserNamespace(t, "hide"); got != "hidden" {
		t.Error(got)
	}
}

// hideWhatIsRemoved hides a file while another goroutine makes and removes it, and prints the error.
func hideWhatIsRemoved() {
	const file = "/dev/socket"
	if err := errors.Join(unix.Mount("tmpfs", "/dev", "tmpfs", 0, ""), os.WriteFile(emptyFile, nil, 0o444)); err != nil {
		os.Stdout.WriteString("no mounts: " + err.Error())
		return
	}
	var racer sync.WaitGroup
	stop := make(chan bool)
	racer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				os.WriteFile(file, nil, 0o600)
				os.Remove(file)
			}
		}
	})
	var err error
	for i := 0; i < 5000 && err == nil; i++ {
		err = (&Job{}).cover(file)
		unix.Unmount(file, unix.MNT_DETACH)
	}
	close(stop)
	racer.Wait()
	if err != nil {
		os.Stdout.WriteString(err.Error())
		return
	}
	os.Stdout.WriteString("hidden")
}

// mountOverDirectory mounts a file over a directory, which fails, and prints the error.
func mountOverDirectory() {
	file, err := copyPlain("/dev/null", "/dev/null", 0)
	if err != nil {
		os.Stdout.WriteString("no mounts: " + err.Error())
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
