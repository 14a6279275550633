//go:build system && linux

package crash_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"symbio/cmd/symbio/symbiotest"
	symbiov1 "symbio/proto/symbio/v1"
)

// stopAtFullDisk fills the disk of a node's state in the middle of a task. The task ends with that
// reason and does nothing more; when there is room again, it goes on.
func stopAtFullDisk(t *testing.T, binary string) {
	m := symbiotest.NewStrictModel(t, func(history []symbiotest.ModelMessage) symbiotest.ModelAnswer {
		return symbiotest.StepAnswer(history, symbiotest.CrashAnswer, symbiotest.Bash(1), symbiotest.Bash(3))
	})
	a := symbiotest.NewCrashNode(t, binary, symbiotest.ShortDir(t), "a", "127.0.0.1:0", "openai", m, symbiotest.LoneConfig)
	if err := os.Mkdir(filepath.Join(a.Dir, "symbio"), 0o700); err != nil {
		t.Fatal(err)
	}
	a.Mounts = "mount -t tmpfs -o size=3m,mode=700 tmpfs symbio"
	a.Start("")
	disk := fmt.Sprintf("/proc/%d/root%s", a.Cmd.Process.Pid, filepath.Join(a.Dir, "symbio"))
	var filled error
	m.OnRequest = func(n int) {
		if n == 2 { // the first effect has its result
			filled = os.WriteFile(filepath.Join(disk, "large"), make([]byte, 4<<20), 0o600)
		}
	}
	x, ended := a.Converse(&symbiov1.RunRequest{Task: symbiotest.CrashTask})
	if !errors.Is(filled, syscall.ENOSPC) {
		t.Fatalf("the disk was not filled: %v", filled)
	}
	if ended || x.Status != "failed" || !strings.Contains(x.Error, "recorded") || !strings.Contains(x.Error, "full") {
		t.Errorf("on a full disk the task ended %q with %q; want failed, and that it cannot be recorded on a full disk", x.Status, x.Error)
	}
	if got := a.Read("effects"); got != "effect-1\n" {
		t.Errorf("effects on a full disk: %q, want the first one only", got)
	}
	if err := os.Remove(filepath.Join(disk, "large")); err != nil {
		t.Fatal(err)
	}
	x, ended = a.Converse(&symbiov1.RunRequest{Session: x.Session})
	if ended || x.Status != "done" || x.Text != symbiotest.CrashAnswer {
		t.Errorf("with room again the task ended %q with %q, %s; want done\n%s", x.Status, x.Text, x.Error, a.LogTail())
	}
	if got := a.Read("effects"); got != "effect-1\neffect-3\n" {
		t.Errorf("effects with room again: %q, want both once", got)
	}
	for _, v := range m.Violations {
		t.Errorf("the model was sent what no server accepts: %s", v)
	}
}

// refuseReadOnlyDisk starts a node whose state is on a read-only disk: it says so and ends. Its
// unfinished task waits, and goes on when the disk can be written.
func refuseReadOnlyDisk(t *testing.T, binary string) {
	m := symbiotest.NewStrictModel(t, func(history []symbiotest.ModelMessage) symbiotest.ModelAnswer {
		return symbiotest.StepAnswer(history, symbiotest.CrashAnswer, symbiotest.Bash(1), symbiotest.Bash(3))
	})
	a := symbiotest.NewCrashNode(t, binary, symbiotest.ShortDir(t), "a", "127.0.0.1:0", "openai", m, symbiotest.LoneConfig)
	a.Start("after:3")
	x, ended := a.Converse(&symbiov1.RunRequest{Task: symbiotest.CrashTask})
	if !ended {
		t.Fatalf("the task ended %s before the node was killed", x.Status)
	}
	a.Kill()
	before, asked := a.Read("effects"), m.Requests
	a.Mounts = "mount --bind symbio symbio && mount -o remount,bind,ro symbio"
	cmd := a.Command("")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("mount namespaces are missing: this user may not make them (root may): %v", err)
	}
	if err == nil || !strings.Contains(string(out), "read-only") && !strings.Contains(string(out), "readonly") {
		t.Errorf("on a read-only disk the node ended with %v and said %s; want an error that says so", err, out)
	}
	if got := a.Read("effects"); got != before || m.Requests != asked {
		t.Errorf("on a read-only disk: effects %q before, %q after, and %d requests", before, got, m.Requests-asked)
	}
	a.Mounts = ""
	a.Start("")
	if !a.Finish() {
		t.Errorf("the node ended\n%s", a.LogTail())
	}
	a.Kill()
	a.Check(m)
}
