//go:build system && linux

package guests_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

// A directory of the desk goes to OpenCode in the kitchen; what it changes there comes back, is shown, and is applied with a yes.
func TestWorkTravelsToAGuest(t *testing.T) {
	bin := programs(t)
	symbiotest.OnASwitch(t, func(t *testing.T) {
		desk, kitchen := newMachines(t, bin)
		work := filepath.Join(desk.State, "work")
		if err := os.Mkdir(work, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, "plan.txt"), []byte("one\ntwo\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args, _ := json.Marshal(map[string]string{"command": "sed -i s/two/TWO/ plan.txt", "description": "change it"})
		cmd := desk.symbio("run", "--on", "kitchen", "--agent", "opencode", "--bring", ".", "CALL bash "+string(args))
		cmd.Dir = work
		cmd.Env = append(cmd.Env, "TERM=xterm", "NO_COLOR=1")
		run := symbiotest.OnScreen(t, cmd)
		t.Log(run.Has("-two", "+TWO"))
		holds := func(want string) {
			t.Helper()
			if got, err := os.ReadFile(filepath.Join(work, "plan.txt")); err != nil || string(got) != want {
				t.Errorf("the file holds %q, %v, want %q", got, err, want)
			}
		}
		holds("one\ntwo\n")
		run.Types("y\r")
		status, text := run.Leaves()
		t.Log(text)
		if status != 0 {
			t.Errorf("it ended with %d", status)
		}
		holds("one\nTWO\n")
		if out := kitchen.Symbio("sessions", "list", "--node", "kitchen"); !strings.Contains(out, "opencode") {
			t.Errorf("the kitchen has no record of it:\n%s", out)
		}
	})
}
