package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	if playRole() { // on a LAN of namespaces
		return
	}
	if err := hasten(); err != nil {
		panic(err)
	}
	if !strings.HasPrefix(filepath.Base(os.Args[0]), "symbio") || strings.Contains(os.Args[0], ".test") { // else it plays the program
		flag.Parse()
		if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) && runtime.GOMAXPROCS(0) < 8 {
			if err := flag.Set("test.parallel", "8"); err != nil { // they wait far more than they compute
				panic(err)
			}
		}
	}
	testscript.Main(withPrograms{m}, map[string]func(){"symbio": func() { os.Exit(run()) }, "symbio-relay": relay})
}

// withPrograms runs the tests and removes the program that they have built.
type withPrograms struct{ tests testscript.TestingM }

func (w withPrograms) Run() int {
	defer os.RemoveAll(faultyDir())
	return w.tests.Run()
}

// faultyDir is where the program of buildFaulty is, until all tests have ended.
func faultyDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("symbio-faulty-%d", os.Getpid()))
}

// relay is a program that gives what it is told to a Unix socket, as docker run -i does.
func relay() {
	c, err := net.Dial("unix", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(c, os.Stdin)
		copied <- errors.Join(err, c.(*net.UnixConn).CloseWrite())
	}()
	_, err = io.Copy(os.Stdout, c)
	if err != nil || <-copied != nil {
		os.Exit(1)
	}
}

// Each script is a user's session: a home of its own, real processes, real sockets on loopback.
func TestScripts(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the scripts use a Unix shell's tools")
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
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
			env.Values[nodesKey{}] = map[string]*upNode{}
			return os.Mkdir(env.WorkDir+"/home", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"node-up":   nodeUp,
			"node-stop": nodeStop,
			"node-kill": nodeKill,
			"until":     until,
			"poll":      poll,
			"status":    status,
			"capture":   capture,

			"for-each-command": forEachCommand,
		},
	})
}

type nodesKey struct{}

// upNode is a `symbio up` that a script started.
type upNode struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

// promised says whether the times of the failure table (architecture) are held against the clock: make bench and make
// soak do, on a machine that does nothing else. Other runs print the times.
func promised() bool { return os.Getenv("SYMBIO_FIGURES")+os.Getenv("SYMBIO_SOAK") != "" }

// within prints how long something took, and wants it to keep the promise where times are figures.
func within(t *testing.T, what string, since, at time.Time, promise time.Duration) {
	t.Helper()
	took := at.Sub(since)
	t.Logf("%s: %v", what, took.Round(100*time.Microsecond))
	if promised() && took > promise*slow {
		t.Errorf("%s took %v, want at most %v", what, took, promise*slow)
	}
}

// limit ends what hangs. It is no promise: a busy machine needs a third of it at times.
const limit = 90 * time.Second

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
	timer := time.AfterFunc(limit, func() { cmd.Process.Kill() })
	line, err := n.out.ReadString('\n')
	timer.Stop()
	if err != nil {
		ts.Fatalf("node %s did not get ready: %q %v", args[0], line, err)
	}
	nodes := ts.Value(nodesKey{}).(map[string]*upNode)
	nodes[args[0]] = n
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
	n := ts.Value(nodesKey{}).(map[string]*upNode)[strings.Join(args, "")]
	if n == nil {
		ts.Fatalf("no node %v", args)
	}
	ts.Check(n.cmd.Process.Signal(sig))
	timer := time.AfterFunc(limit, func() { n.cmd.Process.Kill() })
	defer timer.Stop()
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
	timer := time.AfterFunc(limit, func() { cmd.Process.Kill() })
	defer timer.Stop()
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
	var out []byte
	for end := time.Now().Add(limit); time.Now().Before(end); {
		began := time.Now()
		if out, err = command(ts, args[1:]).CombinedOutput(); err == nil && want.Match(out) {
			return
		}
		breathe(began, 100*time.Millisecond)
	}
	ts.Fatalf("%v never prints what matches %q; at last %v:\n%s", args[1:], args[0], err, out)
}

// breathe waits before a program is started once more to see whether something is so by now: for a time, and on a busy
// machine as long as the program took, so that programs that wait do not slow down what they wait for.
func breathe(began time.Time, least time.Duration) { <-time.After(max(least, time.Since(began))) }

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
	cmd := exec.Command(path, args[1:]...)
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
