//go:build system

package shell_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Of the second tier: cmd/symbio/systemtest/sandbox runs it.
func TestDeniedFilesAreKeptFromGoTest(t *testing.T) {
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(out)))
	if err := os.MkdirAll(os.Getenv("GOCACHE"), 0o755); err != nil {
		t.Fatal(err)
	}
	keepsDeniedFiles(t, []deniedTest{{"go test", "go", "go test -count=1 -v .", `read ""`}})
}
