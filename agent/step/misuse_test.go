package step_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Wrong programs do not compile: the compiler refuses each line of testdata/misuse that says want, and no other.
func TestMisuseDoesNotCompile(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command to compile with")
	}
	source, err := os.ReadFile(filepath.Join("testdata", "misuse", "misuse.go"))
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[int]string{}
	for i, line := range strings.Split(string(source), "\n") {
		if _, why, ok := strings.Cut(line, "// want: "); ok {
			wanted[i+1] = why
		}
	}
	out, err := exec.Command(goTool, "build", "-gcflags=-e", "./testdata/misuse").CombinedOutput()
	if err == nil {
		t.Fatal("it compiles")
	}
	refused := map[int]string{}
	for _, m := range regexp.MustCompile(`misuse\.go:(\d+):\d+: (.*)`).FindAllStringSubmatch(string(out), -1) {
		line, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		refused[line] = m[2]
	}
	for line, why := range wanted {
		if refused[line] == "" {
			t.Errorf("line %d compiles: %s", line, why)
		}
	}
	for line, what := range refused {
		if wanted[line] == "" {
			t.Errorf("line %d should compile: %s", line, what)
		}
	}
	if len(wanted) < 20 || len(refused) == 0 {
		t.Errorf("%d lines wanted, %d refused:\n%s", len(wanted), len(refused), out)
	}
}
