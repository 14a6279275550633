package symbiotest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"symbio/internal/community/waittest"

	"github.com/rogpeppe/go-internal/testscript"
)

// RunScripts runs the scripts of a folder, each with a home of its own, and with more variables, as NAME=VALUE.
func RunScripts(t *testing.T, dir string, more ...string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the scripts use a Unix shell's tools")
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			state, err := os.MkdirTemp("", "sy") // short: sockets live below it
			if err != nil {
				return err
			}
			env.Defer(func() { os.RemoveAll(state) })
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("GOGC", "400") // a thousand short commands need not clear up while they start; nodes do not get it
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("XDG_STATE_HOME", state)
			env.Setenv("XDG_CONFIG_HOME", env.WorkDir+"/config")
			env.Vars = append(env.Vars, more...)
			NewSession(t, env)
			return os.Mkdir(env.WorkDir+"/home", 0o700)
		},
		Cmds: Commands(),
	})
}

// script is what the commands of a script share.
type script struct {
	t     *testing.T
	ctx   context.Context // ends shortly before the deadline of the test
	nodes map[string]*upNode
}

type scriptKey struct{}

func scriptOf(ts *testscript.TestScript) *script { return ts.Value(scriptKey{}).(*script) }

// NewSession prepares the environment of a script for Commands and Waiting. t is the test that runs the scripts.
func NewSession(t *testing.T, env *testscript.Env) {
	env.Values[scriptKey{}] = &script{t: t, ctx: waittest.Context(t), nodes: map[string]*upNode{}}
}

// Commands returns what scripts may use beside the commands of testscript.
func Commands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"node-up":   nodeUp,
		"node-stop": nodeStop,
		"node-kill": nodeKill,
		"until":     until,
		"poll":      poll,
		"status":    status,
		"capture":   capture,

		"for-each-command": forEachCommand,
	}
}

// upNode is a `symbio up` that a script started.
type upNode struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

// nodeUp starts `symbio up --name NAME ARGS` and returns when it has said that it is ready.
//
// Its process id is in $PID_NAME.
//
//	node-up NAME [ARGS...]
func nodeUp(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: node-up NAME [ARGS...]")
	}
	cmd := command(ts, append([]string{"symbio", "up", "--name"}, args...))
	cmd.Stderr = io.Discard
	pipe, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	n := &upNode{cmd: cmd, out: bufio.NewReader(pipe)}
	line, err := n.out.ReadString('\n')
	if err != nil {
		ts.Fatalf("node %s did not get ready: %q %v", args[0], line, err)
	}
	scriptOf(ts).nodes[args[0]] = n
	ts.Setenv("PID_"+args[0], strconv.Itoa(cmd.Process.Pid))
	ts.Defer(func() {
		if n.cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
}

// nodeStop ends a node as Ctrl-C does and wants it to end cleanly.
func nodeStop(ts *testscript.TestScript, neg bool, args []string) { end(ts, args, os.Interrupt) }

// nodeKill ends a node as a crash does.
func nodeKill(ts *testscript.TestScript, neg bool, args []string) { end(ts, args, os.Kill) }

func end(ts *testscript.TestScript, args []string, sig os.Signal) {
	n := scriptOf(ts).nodes[strings.Join(args, "")]
	if n == nil {
		ts.Fatalf("no node %v", args)
	}
	ts.Check(n.cmd.Process.Signal(sig))
	err := n.cmd.Wait()
	var exit *exec.ExitError
	if sig == os.Kill && errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return
	}
	if err != nil {
		ts.Fatalf("node %v ended with %v", args, err)
	}
}

// until runs a command that goes on for ever, until a line of its output matches.
//
//	until REGEXP COMMAND [ARGS...]
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP COMMAND [ARGS...]")
	}
	want, err := regexp.Compile(args[0])
	ts.Check(err)
	cmd := command(ts, args[1:])
	pipe, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	var seen strings.Builder
	found := false
	for lines := bufio.NewScanner(pipe); !found && lines.Scan(); {
		seen.WriteString(lines.Text() + "\n")
		found = want.MatchString(lines.Text())
	}
	cmd.Process.Kill()
	cmd.Wait() // it was killed: the error says only that
	if !found {
		ts.Fatalf("no line of %v matches %q; it printed:\n%s", args[1:], args[0], seen.String())
	}
}

// poll runs a command again and again, until its output matches.
//
//	poll REGEXP COMMAND [ARGS...]
func poll(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: poll REGEXP COMMAND [ARGS...]")
	}
	want, err := regexp.Compile(args[0])
	ts.Check(err)
	waittest.Until(Waiting(ts), fmt.Sprintf("what %v prints to match %q", args[1:], args[0]), func() (any, bool) {
		began := time.Now()
		out, err := command(ts, args[1:]).CombinedOutput()
		if err == nil && want.Match(out) {
			return nil, true
		}
		breathe(scriptOf(ts).t, began)
		return fmt.Sprintf("%v\n%s", err, out), false
	})
}

// Waiting returns a script as package waittest sees it, whose environment NewSession has prepared: its waits end shortly
// before the deadline of the test that runs it.
func Waiting(ts *testscript.TestScript) waittest.T { return scriptTest{ts, scriptOf(ts).t} }

type scriptTest struct {
	*testscript.TestScript
	t *testing.T
}

func (s scriptTest) Helper()                     {}
func (s scriptTest) Deadline() (time.Time, bool) { return s.t.Deadline() }

// Await waits until a condition holds. What tells more when it fails is waittest.Until.
func Await(t waittest.T, what string, holds func() bool) {
	t.Helper()
	waittest.Until(t, what, func() (any, bool) { ok := holds(); return ok, ok })
}

// AwaitProgram waits until a condition holds that starts programs to see whether it does.
func AwaitProgram(t *testing.T, what string, holds func() bool) {
	t.Helper()
	Await(t, what, func() bool {
		began := time.Now()
		if holds() {
			return true
		}
		breathe(t, began)
		return false
	})
}

// breathe waits as long as a program took that is started once more to see whether something is so by now, so that on a
// busy machine programs that wait do not slow down what they wait for.
func breathe(t *testing.T, began time.Time) { Pause(t, time.Since(began)) }

func command(ts *testscript.TestScript, args []string) *exec.Cmd {
	path, err := exec.LookPath(args[0])
	if p := ts.Getenv("PATH"); err != nil && p != "" {
		for dir := range strings.SplitSeq(p, ":") {
			if _, statErr := os.Stat(dir + "/" + args[0]); statErr == nil {
				path, err = dir+"/"+args[0], nil
				break
			}
		}
	}
	ts.Check(err)
	cmd := exec.CommandContext(scriptOf(ts).ctx, path, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"GORACE", "HOME", "PATH", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "OPENAI_BASE_URL", "OPENAI_API_KEY", "TMPDIR"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	return cmd
}

// status runs a command and wants it to end with that exit status.
//
//	status N COMMAND [ARGS...]
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND [ARGS...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v: %v", args[1:], err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("%v ended with status %d, want %s", args[1:], got, args[0])
	}
}

// capture sets a variable to the first group of the regular expression in the last standard output.
//
//	capture NAME REGEXP
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture NAME REGEXP")
	}
	want, err := regexp.Compile(args[1])
	ts.Check(err)
	m := want.FindStringSubmatch(ts.ReadFile("stdout"))
	if len(m) != 2 {
		ts.Fatalf("the output has no %s with one group:\n%s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], m[1])
}

// forEachCommand wants help with an example for each of the commands.
func forEachCommand(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		ts.Check(ts.Exec("symbio", name, "--help"))
		if help := ts.ReadFile("stdout"); !strings.Contains(help, "Examples:") || !strings.Contains(help, "symbio "+name) {
			ts.Fatalf("the help of %s has no example:\n%s", name, help)
		}
	}
}
