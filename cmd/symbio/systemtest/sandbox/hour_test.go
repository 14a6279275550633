//go:build system && linux

package sandbox_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"symbio/cmd/symbio/symbiotest"
	"symbio/internal/community/waittest"

	"gopkg.in/yaml.v3"
)

func TestMain(m *testing.M) { symbiotest.Main(m, nil) }

// hourOfWork is a repository, and what a model does in it.
type hourOfWork struct {
	Task  string
	Files map[string]string
	Calls []struct {
		Tool  string
		Args  map[string]any
		Want  string // a part of the result
		Fails bool
	}
	Done []struct{ Command, Want string } // what a person sees afterwards, outside of any box
}

// hourConfig is that of a person who has set nothing but the preset and the model.
const hourConfig = `
model: openai:m
providers: {openai: {base_url: "%s"}}
security: standard
discovery: {mdns: false}
skills: {enabled: false}
approvals: {unattended: true}
`

// A person who has a model work in three repositories for an hour is asked at most three times under the preset standard, if
// each answer takes the first offer, for the session; and all the work is done.
func TestAnHourOfWorkAsksThreeTimes(t *testing.T) {
	var (
		mu    sync.Mutex
		asked []string // guarded by mu
		calls int
	)
	for _, name := range []string{"go", "node", "python"} {
		text, err := os.ReadFile(filepath.Join("testdata/hour", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var w hourOfWork
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Fatal(err)
		}
		calls += len(w.Calls)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			about := w.do(t)
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, about...)
		})
	}
	t.Cleanup(func() { // after all three
		t.Logf("%d calls; a person was asked about:\n%s", calls, strings.Join(asked, "\n"))
		if calls < 150 || len(asked) > 3 {
			t.Errorf("of %d calls a person was asked about %d, want at most 3 of at least 150", calls, len(asked))
		}
	})
}

// do lets the model work, and returns the calls that a person was asked about, who takes the first offer.
func (w hourOfWork) do(t *testing.T) (asked []string) {
	dir := w.repository(t)
	var steps [][]symbiotest.ModelCall
	for _, c := range w.Calls {
		steps = append(steps, []symbiotest.ModelCall{{Name: c.Tool, Args: json.RawMessage(symbiotest.ToJSON(c.Args))}})
	}
	m := symbiotest.NewStrictModel(t, func(history []symbiotest.ModelMessage) symbiotest.ModelAnswer {
		return symbiotest.StepAnswer(history, "All is done.", steps...)
	})
	home := symbiotest.ShortDir(t)
	config := filepath.Join(home, "c.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, hourConfig, m.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	symbio := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(waittest.Context(t), "symbio", args...)
		c.Dir, c.Env = dir, append(os.Environ(), "XDG_STATE_HOME="+home, "XDG_CONFIG_HOME="+home, "OPENAI_API_KEY=k")
		return c
	}
	run := symbio("run", "--json", "--max-turns", "100", "--config", config, w.Task)
	run.Stderr = os.Stderr
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	done := 0
	lines := bufio.NewScanner(out)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		var l struct {
			Type, ID, Tool, Text string
			Failed               bool
			Args                 json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		switch l.Type {
		case "approval":
			asked = append(asked, l.Tool+" "+string(l.Args))
			if out, err := symbio("approvals", "allow", l.ID, "--offer", "1").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		case "tool_result":
			w.check(t, done, l.Text, l.Failed)
			done++
		}
	}
	if err := run.Wait(); err != nil || done != len(w.Calls) {
		t.Errorf("the task ended with %v after %d of %d calls", err, done, len(w.Calls))
	}
	for _, v := range m.Violations {
		t.Errorf("the model was sent what no server accepts: %s", v)
	}
	for _, d := range w.Done {
		got, failed := bench{dir: dir}.outside(t, d.Command)
		if failed || !strings.Contains(got, d.Want) || d.Want == "" && got != "" {
			t.Errorf("afterwards %s prints:\n%s\nwant %q", d.Command, got, d.Want)
		}
	}
	return asked
}

// repository makes the repository, with one commit.
func (w hourOfWork) repository(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range w.Files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, failed := (bench{dir: dir}).outside(t, "git init -q -b main . && git config user.name n && git config user.email n@example.com && git add . && git commit -qm first"); failed {
		t.Fatal(out)
	}
	return dir
}

// check compares the result of the i-th call.
func (w hourOfWork) check(t *testing.T, i int, result string, failed bool) {
	t.Helper()
	c := w.Calls[i]
	want := cmp.Or(c.Want, map[string]string{"Edit": "Edited ", "Write": "Created "}[c.Tool])
	if failed != c.Fails || !strings.Contains(result, want) {
		t.Errorf("%s %v: failed: %v, want %v, and %q in its result:\n%s", c.Tool, c.Args, failed, c.Fails, want, result)
	}
}
