package main

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"symbio/cmd/symbio/symbiotest"
	"symbio/internal/community/waittest"

	"github.com/rogpeppe/go-internal/txtar"
)

var updateMistakes = flag.Bool("update-mistakes", false, "write testdata/mistakes.txtar: read the difference as a person who made the mistake")

// mistake is a command line of a person, what it prints, and its exit status.
var mistake = regexp.MustCompile(`(?m)^\$ (.*)\n((?:[^$#\n].*\n|\n[^$#\n])*)`)

var (
	// told is what differs each time: events before the error, times, and ids.
	told = regexp.MustCompile(`(?m)^(\d\d:\d\d:\d\d|\d+ agent) .*\n| at \d{4}-\S+Z|^time=.*\n| [0-9a-f]{8}\b…?| as process \d+|, since \d{4}-\S+ [\d:]+`)
	// remedy is what to do, behind a semicolon or on a line of its own, or what would be right.
	remedy = regexp.MustCompile(`[;\n]|: want |: write |has to be|expected|missing|: indent `)
)

// Each command of the file is a mistake of a person. The text says what went wrong, where, and what to do.
func TestMistakesAreAnsweredWithWhatToDo(t *testing.T) {
	t.Parallel()
	const file = "testdata/mistakes.txtar"
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir, state, other := t.TempDir(), symbiotest.ShortDir(t), symbiotest.ShortDir(t)
	work := filepath.Join(dir, "work")
	for _, name := range []string{"home", "config", "work"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := txtar.Write(archive, work); err != nil {
		t.Fatal(err)
	}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}`, http.StatusUnauthorized)
	}))
	t.Cleanup(provider.Close)
	vars := map[string]string{"HOME": dir + "/home", "XDG_CONFIG_HOME": dir + "/config", "XDG_STATE_HOME": state, "OTHER": other, "ALONE": symbiotest.ShortDir(t), "PROVIDER": provider.URL, "WORK": work}
	shell := func(line string) *exec.Cmd {
		cmd := exec.CommandContext(waittest.Context(t), "sh", "-c", line)
		cmd.Dir, cmd.Env = work, []string{"PATH=" + os.Getenv("PATH")}
		for name, value := range vars {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		return cmd
	}
	up := func(line string) string {
		p := symbiotest.Started(t, shell("exec symbio up --json "+line))
		return p.Expect(t, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" }).Listen
	}
	vars["DESK"], _ = up("--name desk --config desk.yaml"), up("--name kitchen")
	vars["XDG_STATE_HOME"] = other
	if out, err := shell("symbio cluster init --name far --config far.yaml").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	vars["FAR"] = up("--config far.yaml --listen 127.0.0.1:0")
	vars["XDG_STATE_HOME"] = state

	var plain []string
	for _, name := range []string{"DESK", "FAR", "PROVIDER", "OTHER", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME"} {
		plain = append(plain, strings.TrimPrefix(vars[name], "http://"), "$"+name)
	}
	names := strings.NewReplacer(append(plain, work, "$WORK")...)
	all := mistake.FindAllSubmatch(archive.Comment, -1)
	got := make([]string, len(all))
	t.Run("each", func(t *testing.T) {
		for i, m := range all {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				line := string(m[1])
				cmd := shell(line)
				out, err := cmd.CombinedOutput()
				text := told.ReplaceAllString(names.Replace(strings.TrimSpace(string(out))), "")
				if err == nil || !remedy.MatchString(text) {
					t.Errorf("$ %s\n%s\n(%v) want a failure, and what to do", line, text, err)
				}
				got[i] = fmt.Sprintf("%s\n(%d)\n", text, cmd.ProcessState.ExitCode())
				if want := string(m[2]); got[i] != want && !*updateMistakes {
					t.Errorf("$ %s\ngot:\n%s\nwant:\n%s", line, got[i], want)
				}
			})
		}
	})
	if len(all) < 60 {
		t.Errorf("%d mistakes, want 60", len(all))
	}
	if *updateMistakes {
		i := -1
		archive.Comment = mistake.ReplaceAllFunc(archive.Comment, func([]byte) []byte {
			i++
			return fmt.Appendf(nil, "$ %s\n%s", all[i][1], got[i])
		})
		if err := os.WriteFile(file, bytes.TrimSpace(txtar.Format(archive)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
