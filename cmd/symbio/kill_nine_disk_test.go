//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	symbiov1 "symbio/proto/symbio/v1"
)

// stopAtFullDisk fills the disk of a node's state in the middle of a task. The task ends with that
// reason and does nothing more; when there is room again, it goes on.
func stopAtFullDisk(t *testing.T, binary string) {
	m := newStrictModel(t, func(history []modelMessage) modelAnswer { return stepAnswer(history, crashAnswer, bash(1), bash(3)) })
	a := newCrashNode(t, binary, shortDir(t), "a", "127.0.0.1:0", "openai", m, loneConfig)
	if err := os.Mkdir(filepath.Join(a.dir, "symbio"), 0o700); err != nil {
		t.Fatal(err)
	}
	a.mounts = "mount -t tmpfs -o size=3m,mode=700 tmpfs symbio"
	a.start("")
	disk := fmt.Sprintf("/proc/%d/root%s", a.cmd.Process.Pid, filepath.Join(a.dir, "symbio"))
	var filled error
	m.onRequest = func(n int) {
		if n == 2 { // the first effect has its result
			filled = os.WriteFile(filepath.Join(disk, "large"), make([]byte, 4<<20), 0o600)
		}
	}
	x, ended := a.converse(&symbiov1.RunRequest{Task: crashTask})
	if !errors.Is(filled, syscall.ENOSPC) {
		t.Fatalf("the disk was not filled: %v", filled)
	}
	if ended || x.Status != "failed" || !strings.Contains(x.Error, "recorded") || !strings.Contains(x.Error, "full") {
		t.Errorf("on a full disk the task ended %q with %q; want failed, and that it cannot be recorded on a full disk", x.Status, x.Error)
	}
	if got := a.read("effects"); got != "effect-1\n" {
		t.Errorf("effects on a full disk: %q, want the first one only", got)
	}
	if err := os.Remove(filepath.Join(disk, "large")); err != nil {
		t.Fatal(err)
	}
	x, ended = a.converse(&symbiov1.RunRequest{Session: x.session})
	if ended || x.Status != "done" || x.Text != crashAnswer {
		t.Errorf("with room again the task ended %q with %q, %s; want done\n%s", x.Status, x.Text, x.Error, a.said())
	}
	if got := a.read("effects"); got != "effect-1\neffect-3\n" {
		t.Errorf("effects with room again: %q, want both once", got)
	}
	for _, v := range m.violations {
		t.Errorf("the model was sent what no server accepts: %s", v)
	}
}

// refuseReadOnlyDisk starts a node whose state is on a read-only disk: it says so and ends. Its
// unfinished task waits, and goes on when the disk can be written.
func refuseReadOnlyDisk(t *testing.T, binary string) {
	m := newStrictModel(t, func(history []modelMessage) modelAnswer { return stepAnswer(history, crashAnswer, bash(1), bash(3)) })
	a := newCrashNode(t, binary, shortDir(t), "a", "127.0.0.1:0", "openai", m, loneConfig)
	a.start("after:3")
	x, ended := a.converse(&symbiov1.RunRequest{Task: crashTask})
	if !ended {
		t.Fatalf("the task ended %s before the node was killed", x.Status)
	}
	a.kill()
	before, asked := a.read("effects"), m.requests
	a.mounts = "mount --bind symbio symbio && mount -o remount,bind,ro symbio"
	cmd := a.command("")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("mount namespaces are missing: this user may not make them (root may): %v", err)
	}
	if err == nil || !strings.Contains(string(out), "read-only") && !strings.Contains(string(out), "readonly") {
		t.Errorf("on a read-only disk the node ended with %v and said %s; want an error that says so", err, out)
	}
	if got := a.read("effects"); got != before || m.requests != asked {
		t.Errorf("on a read-only disk: effects %q before, %q after, and %d requests", before, got, m.requests-asked)
	}
	a.mounts = ""
	a.start("")
	if !a.finish() {
		t.Errorf("the node ended\n%s", a.said())
	}
	a.kill()
	a.check(m)
}
