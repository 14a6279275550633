//go:build amd64 || arm64

package inside

import (
	"bytes"
	"encoding/gob"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestProcessIsAHelperOnlyIfArgumentAndEnvironmentSaySo(t *testing.T) {
	for name, test := range map[string]struct {
		args, env []string
		helper    bool
	}{
		"both":              {[]string{Arg}, []string{Mark}, true},
		"no variable":       {[]string{Arg}, nil, false},
		"another value":     {[]string{Arg}, []string{Mark + "0"}, false},
		"no argument":       {nil, []string{Mark}, false},
		"another argument":  {[]string{Arg + "s"}, []string{Mark}, false},
		"one argument more": {[]string{Arg, Arg}, []string{Mark}, false},
	} {
		t.Run(name, func(t *testing.T) {
			job, err := os.Open(os.DevNull) // which is no job
			if err != nil {
				t.Fatal(err)
			}
			defer job.Close()
			said, err := os.Create(filepath.Join(t.TempDir(), "said"))
			if err != nil {
				t.Fatal(err)
			}
			defer said.Close()
			c := exec.Command("/proc/self/exe", test.args...)
			c.Env = append(test.env, "SYMBIO_TEST_INSIDE=1")
			c.ExtraFiles = []*os.File{job, said, job}
			c.Run()
			text, err := os.ReadFile(said.Name())
			if err != nil {
				t.Fatal(err)
			}
			var r Report
			err = gob.NewDecoder(bytes.NewReader(text)).Decode(&r)
			if helper := err == nil && r.Kind == Failed && strings.HasPrefix(r.Text, "read the job: "); helper != test.helper {
				t.Errorf("it said %q, %v; want that it is a helper: %v", text, err, test.helper)
			}
		})
	}
}

// TestMain ends at once in the processes of the test above, and mounts in those of TestMountThatFailsIsAnError.
func TestMain(m *testing.M) {
	switch os.Getenv("SYMBIO_TEST_INSIDE") {
	case "1":
		return
	case "mount":
		mountOverDirectory()
		return
	case "hide":
		hideWhatIsRemoved()
		return
	}
	os.Exit(m.Run())
}

func TestParentOfAProcessWithAnyName(t *testing.T) {
	for stat, want := range map[string]int{
		"7 (sh) S 5 7 7 0": 5, "7 (a) R 9 b) S 12 7": 12, "7 () Z 1 ": 1, "7 (\n) S 3 4": 3,
		"7 (x) S x 1": -1, "7 (x) S": -1, "7 (x": -1, "": -1, ")": -1,
	} {
		got, ok := parentIn([]byte(stat))
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %d, want %d", stat, got, want)
		}
	}
}

func TestProgramIsFoundAsAShellWould(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/tool": 0o644, "b/tool": 0o755, "c/tool": 0o755} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "d/tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for dirs, want := range map[string]string{
		"D/a:D/b:D/c": "D/b/tool", "D/c:D/b": "D/c/tool", "D/d:D/b": "D/b/tool", "b:D/c": "D/c/tool", ":D/c": "D/c/tool",
		"D/none:D/c:": "D/c/tool", "D/a": "", "": "", ".": "", "b": "",
	} {
		got, err := find("tool", strings.ReplaceAll(dirs, "D", dir))
		if want = strings.ReplaceAll(want, "D", dir); got != want || (err == nil) != (want != "") {
			t.Errorf("in %q: %q, %v; want %q", dirs, got, err, want)
		}
	}
	if got, err := find("./tool", ""); got != "./tool" || err != nil {
		t.Errorf("with a slash: %q, %v", got, err)
	}
}
