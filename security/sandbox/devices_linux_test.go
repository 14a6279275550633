package sandbox_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"symbio/security/sandbox"
)

// Devices are the machine's. A command uses them and changes nothing of them, not even as root and through its own input.
// At the level Bwrap root's commands can, which Status says.
func TestDevicesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	v := views(t)["elsewhere"]
	for _, line := range []string{"chmod a+r /dev/null", "touch /dev/null", "chmod a+r /proc/self/fd/0", "touch /proc/self/fd/0"} {
		if r := v.look(t, sandbox.Native, line); r.Code == 0 {
			t.Errorf("%s worked", line)
		}
	}
	r := v.look(t, sandbox.Native, "echo x >/dev/null && echo x >>/dev/null && cat </dev/null && head -c2 /dev/zero | wc -c && cat && head -c1 /dev/urandom | wc -c")
	if got := strings.Fields(r.Stdout.String()); len(got) != 2 || got[0] != "2" || got[1] != "1" {
		t.Errorf("%d %q", r.Code, r.Stdout)
	}
}

// A crash starts no program of the machine: with this limit the kernel leaves its handler of crashes alone.
func TestCrashStartsNothing(t *testing.T) {
	t.Parallel()
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &own); err != nil || own.Max == 0 {
		t.Skip("the hard limit of core files is 0 here: ulimit -Hc")
	}
	r := views(t)["elsewhere"].look(t, sandbox.Native, "grep '^Max core' /proc/self/limits")
	if got := strings.Join(strings.Fields(r.Stdout.String()), " "); got != "Max core file size 1 1 bytes" {
		t.Errorf("%q", got)
	}
}
