//go:build amd64 || arm64

package sandbox_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What makes a helper quick: nothing of other modules is initialised before it, nor what they need.
func TestTheHelperComesFirst(t *testing.T) {
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
		module, _, _ := strings.Cut(name, "/")
		if strings.Contains(module, ".") || module == "symbio" || name == "fmt" || name == "unicode" || name == "reflect" {
			t.Errorf("%s is initialised before the helper runs", name)
		}
	}
	if !strings.Contains(string(out), "init unicode @") {
		t.Errorf("this test sees too little: %s", out)
	}
}
