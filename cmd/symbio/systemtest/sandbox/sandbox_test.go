//go:build system && linux

// Package sandbox_test runs the tests of the sandbox, and of the commands in it, that belong to the second tier: they stand
// beside what they test, with the build tag system.
package sandbox_test

import (
	"bytes"
	"os/exec"
	"testing"

	"symbio/internal/community/waittest"
)

func TestOfSecondTierPasses(t *testing.T) {
	for _, test := range []struct{ pkg, name string }{
		{"security/sandbox", "TestEscapesAsAnOrdinaryUser"},
		{"security/sandbox", "TestPlantsForGitWork"},
		{"internal/agent/tool/shell", "TestDeniedFilesAreKeptFromGoTest"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := exec.CommandContext(waittest.Context(t), "go", "test", "-tags", "system", "-count=1", "-v", "-run", "^"+test.name+"$", "../../../../"+test.pkg)
			out, err := c.CombinedOutput()
			switch {
			case err == nil && bytes.Contains(out, []byte("--- SKIP: "+test.name)):
				t.Skipf("%s", out)
			case err != nil || !bytes.Contains(out, []byte("--- PASS: "+test.name+" (")):
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
