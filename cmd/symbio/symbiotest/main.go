// Package symbiotest starts symbio as its users do, for tests: as a command, as a node, in a terminal, on machines of a
// LAN that the test makes, with a model that holds it to the rules of its wire. The tests of one node are beside
// cmd/symbio, those of several nodes, of crashes and of other people's programs in cmd/symbio/systemtest.
package symbiotest

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"symbio/cmd/symbio/internal/cli"
)

// Main runs the tests of a package, whose processes find `symbio` and symbio-relay on their PATH: both are this test
// binary. A process that was started with a role plays that one of roles instead.
func Main(m *testing.M, roles map[string]func()) {
	if playRole(roles) {
		return
	}
	if err := hasten(); err != nil {
		panic(err)
	}
	if signal.Ignored(syscall.SIGHUP) { // as under nohup: what ends with its terminal is to end in tests, too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // what a process catches is not ignored by those that it starts
	}
	if !strings.HasPrefix(filepath.Base(os.Args[0]), "symbio") || strings.Contains(os.Args[0], ".test") { // else it plays the program
		flag.Parse()
		if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) && runtime.GOMAXPROCS(0) < 8 {
			if err := flag.Set("test.parallel", "8"); err != nil { // they wait far more than they compute
				panic(err)
			}
		}
	}
	testscript.Main(withPrograms{m}, map[string]func(){"symbio": func() { os.Exit(cli.Run(os.Args[1:])) }, "symbio-relay": relay})
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

// NPMDirectory is the environment variable that names a directory with a node_modules in it, where the npm packages are
// installed that system tests run: model servers, MCP servers, and the checks of pages.
const NPMDirectory = "SYMBIO_TEST_NPM"

// Promised says whether the times of the failure table (architecture) are held against the clock: make bench and make
// soak do, on a machine that does nothing else. Other runs print the times.
func Promised() bool { return os.Getenv("SYMBIO_FIGURES")+os.Getenv("SYMBIO_SOAK") != "" }

// Within prints how long something took, and wants it to keep the promise where times are figures.
func Within(t *testing.T, what string, since, at time.Time, promise time.Duration) {
	t.Helper()
	took := at.Sub(since)
	t.Logf("%s: %v", what, took.Round(100*time.Microsecond))
	if Promised() && took > promise*Slow {
		t.Errorf("%s took %v, want at most %v", what, took, promise*Slow)
	}
}

// Pause waits outside of any bubble: real processes need their time.
func Pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
