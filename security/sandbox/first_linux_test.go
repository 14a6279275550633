//go:build amd64 || arm64

package sandbox_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What makes a helper quick: before it, nothing is initialised that other packages wait for, but what it needs itself.
func TestHelperComesFirst(t *testing.T) {
	c := exec.Command("/proc/self/exe", "-test.run=^$")
	c.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before, _, found := strings.Cut(string(out), "init symbio/security/sandbox/internal/inside @")
	if !found {
		t.Fatalf("it was not initialised: %s", out)
	}
	for line := range strings.Lines(before) {
		name, isInit := strings.CutPrefix(line, "init ")
		if !isInit {
			continue
		}
		name, _, _ = strings.Cut(name, " ")
		if slices.Contains([]string{"unicode", "reflect", "fmt", "strings", "bytes", "golang.org/x/sys/unix"}, name) || strings.HasPrefix(name, "symbio/") {
			t.Errorf("%s is initialised before the helper runs", name)
		}
	}
	if !strings.Contains(string(out), "init unicode @") {
		t.Errorf("this test sees too little: %s", out)
	}
}
