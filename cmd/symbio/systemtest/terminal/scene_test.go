//go:build system && linux

package terminal_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"symbio/internal/community/waittest"

	"symbio/cmd/symbio/symbiotest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

var updateScenes = flag.Bool("update-scenes", false, "write the screens of TestTerminalScenes anew")

// Each scene is a person at a real terminal: keys in, screens out. The terminal is tmux. `cmp` compares the screens that
// `screen` saved; -update-scenes writes them anew, to be read as text.
func TestTerminalScenes(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("the scenes need a terminal: tmux is not installed")
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/scene",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *updateScenes,
		Setup: func(env *testscript.Env) error {
			state, err := os.MkdirTemp("", "sy") // short: sockets live below it
			if err != nil {
				return err
			}
			env.Defer(func() { os.RemoveAll(state) })
			for name, value := range map[string]string{
				"GORACE": os.Getenv("GORACE"), "HOME": env.WorkDir + "/home", "XDG_STATE_HOME": state, "XDG_CONFIG_HOME": env.WorkDir + "/config",
				"TERM": "xterm-256color", "LANG": "C.UTF-8", "NO_COLOR": "", "EDITOR": env.WorkDir + "/editor", "SHELL": "/bin/sh",
			} {
				env.Setenv(name, value)
			}
			symbiotest.NewSession(t, env)
			if err := os.Mkdir(env.WorkDir+"/home", 0o700); err != nil {
				return err
			}
			if err := unix.Mkfifo(env.WorkDir+"/gate", 0o600); err != nil {
				return err
			}
			return writeCast(env.WorkDir)
		},
		Cmds: sceneCommands(),
	})
}

func sceneCommands() map[string]func(*testscript.TestScript, bool, []string) {
	all := symbiotest.Commands()
	maps.Copy(all, map[string]func(*testscript.TestScript, bool, []string){
		"terminal": terminalCommand,
		"resize":   resizeTerminal,
		"keys":     keysCommand,
		"type":     typeCommand,
		"paste":    pasteCommand,
		"see":      seeCommand,
		"screen":   screenCommand,
		"ended":    endedCommand,
	})
	return all
}

// writeCast writes the files that most scenes use: a model by script, a configuration, and an editor.
func writeCast(dir string) error {
	all, err := os.ReadDir("testdata/scene/cast")
	if err != nil {
		return err
	}
	for _, f := range all {
		text, err := os.ReadFile(filepath.Join("testdata/scene/cast", f.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name()), text, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// tmux runs a command of tmux on the server of this scene.
func tmux(ts *testscript.TestScript, args ...string) string {
	cmd := exec.Command("tmux", append([]string{"-S", ts.Getenv("TMUX_SOCKET"), "-f", "/dev/null"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"GORACE", "HOME", "PATH", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "TERM", "LANG", "EDITOR", "SHELL", "TMPDIR"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		ts.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// terminalCommand starts a command in a terminal of so many columns and rows. The terminal stays when the
// command has ended.
//
//	terminal 80x24 COMMAND [ARGS...]
func terminalCommand(ts *testscript.TestScript, neg bool, args []string) {
	columns, rows, ok := strings.Cut(strings.Join(args[:min(1, len(args))], ""), "x")
	if neg || len(args) < 2 || !ok {
		ts.Fatalf("usage: terminal COLUMNSxROWS COMMAND [ARGS...]")
	}
	quoted := make([]string, len(args)-1)
	for i, a := range args[1:] {
		quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	socket := fmt.Sprintf("%s/tmux%d", ts.Getenv("XDG_STATE_HOME"), time.Now().UnixNano()) // a server may still be ending
	ts.Setenv("TMUX_SOCKET", socket)
	endTerminal := func() {
		_ = exec.Command("tmux", "-S", socket, "kill-server").Run() // it may have ended
	}
	tmux(ts, "start-server", ";", "set-option", "-g", "status", "off", ";", "set-option", "-g", "remain-on-exit", "on", ";", "set-option", "-g", "escape-time", "0", ";",
		"set-option", "-g", "extended-keys", "on", ";", "new-session", "-d", "-x", columns, "-y", rows, "exec "+strings.Join(quoted, " "))
	ts.Defer(endTerminal)
}

// resizeTerminal changes the size of the terminal.
//
//	resize 60x15
func resizeTerminal(ts *testscript.TestScript, neg bool, args []string) {
	columns, rows, ok := strings.Cut(strings.Join(args, ""), "x")
	if neg || !ok {
		ts.Fatalf("usage: resize COLUMNSxROWS")
	}
	tmux(ts, "resize-window", "-x", columns, "-y", rows)
}

// keysCommand presses keys by their names in tmux, such as Enter, C-c, M-Enter, BTab, Up.
//
//	keys KEY...
func keysCommand(ts *testscript.TestScript, neg bool, args []string) {
	tmux(ts, append([]string{"send-keys"}, args...)...)
}

// typeCommand types a text as it is.
//
//	type TEXT
func typeCommand(ts *testscript.TestScript, neg bool, args []string) {
	tmux(ts, "send-keys", "-l", strings.Join(args, " "))
}

// pasteCommand pastes the text of a file.
//
//	paste FILE
func pasteCommand(ts *testscript.TestScript, neg bool, args []string) {
	tmux(ts, "load-buffer", ts.MkAbs(strings.Join(args, "")))
	tmux(ts, "paste-buffer", "-p")
}

// seeCommand waits until what the terminal shows, or has shown and scrolled away, matches; with ! until it does not.
//
//	[!] see REGEXP
func seeCommand(ts *testscript.TestScript, neg bool, args []string) {
	want, err := regexp.Compile("(?m)" + strings.Join(args, " "))
	ts.Check(err)
	waittest.Until(symbiotest.Waiting(ts), fmt.Sprintf("the terminal to match %q (negated: %v)", want, neg), func() (any, bool) {
		text := tmux(ts, "capture-pane", "-p", "-J", "-S", "-")
		return text, want.MatchString(text) != neg
	})
}

// endedCommand waits until the program in the terminal has ended.
//
//	ended
func endedCommand(ts *testscript.TestScript, neg bool, args []string) {
	waittest.Until(symbiotest.Waiting(ts), "the end of the program in the terminal", func() (any, bool) {
		ended := strings.TrimSpace(tmux(ts, "display-message", "-p", "#{pane_dead}")) == "1"
		return tmux(ts, "capture-pane", "-p"), ended
	})
}

// varying are the parts of a screen that differ from run to run, and what stands for them.
var varying = []struct {
	pattern *regexp.Regexp
	as      string
}{
	{regexp.MustCompile(`\b(\d+m)?\d+(\.\d+)?(ms|s|µs)\b`), "TIME"},
	{regexp.MustCompile(`(?m)^(  [✓✗] .*?)  .*…  TIME$`), "$1  …  TIME"}, // where the result is cut depends on the time
	{regexp.MustCompile(`(●.*) TIME`), "$1"},
	{regexp.MustCompile(`(?m)^  working.*$`), "  working …"}, // it has the time, and is cut to the width
	{regexp.MustCompile(`\b\d+(\.\d+)?k? tokens`), "N tokens"},
	{regexp.MustCompile(`\b\d+% of`), "N% of"},
	{regexp.MustCompile(`\b\d+-[0-9a-f]{8}\b`), "ID"},
	{regexp.MustCompile(`/\S*/script-[^/\s]*`), "WORK"},
	{regexp.MustCompile(`\b\d+-[0-9a-f]{8}\b`), "ID"},
	{regexp.MustCompile(`\bbegins: [a-z0-9]{10}\b`), "begins: ID"},
	{regexp.MustCompile(`\b\d\d:\d\d(:\d\d)?\b`), "CLOCK"},
	// Of symbio top: figures in columns, addresses, and where a text that ends in a time is cut.
	{regexp.MustCompile(`\b\d+\.\d ms\b`), "RTT"},
	{regexp.MustCompile(` +\d+%`), "  N%"},
	{regexp.MustCompile(`(\$\d+\.\d\d) +\d+k?\b`), "$1  N"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\b\d+k? of N tokens`), "N of N tokens"},
	{regexp.MustCompile(`(?m)^  CLOCK     .*$`), "  CLOCK     …"}, // the order of events of two nodes
	{regexp.MustCompile(`(?m)^  EVENT .*$`), "  EVENT"},
	{regexp.MustCompile(`\bsession [a-z0-9]{10}\b`), "session ID"},
}

// screenCommand saves what the terminal shows, and what has scrolled away, when it has not changed for a moment and is what
// FILE.golden expects. Parts that vary are replaced. A full-screen page is saved alone.
//
//	screen FILE
func screenCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: screen FILE")
	}
	want, err := os.ReadFile(ts.MkAbs(args[0] + ".golden"))
	anything := err != nil || *updateScenes
	text, same := "", 0
	waittest.Until(symbiotest.Waiting(ts), "the screen of "+args[0]+".golden", func() (any, bool) {
		now := rows(tmux(ts, "capture-pane", "-p", "-S", strings.TrimSpace(tmux(ts, "display-message", "-p", "#{?alternate_on,0,-}"))))
		for _, v := range varying {
			now = v.pattern.ReplaceAllString(now, v.as)
		}
		if same++; now != text {
			text, same = now, 0
		}
		return cmp.Diff(string(want), text), same >= 4 && (anything || text == string(want))
	})
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

var emptyRows = regexp.MustCompile(`\n{3,}`)

// rows returns the rows of a terminal. How many empty rows stand between others, and below and above them, depends on when
// the live part was drawn last.
func rows(text string) string {
	all := strings.Split(text, "\n")
	for i, row := range all {
		all[i] = strings.TrimRight(row, " ")
	}
	return strings.Trim(emptyRows.ReplaceAllString(strings.Join(all, "\n"), "\n\n"), "\n") + "\n"
}
