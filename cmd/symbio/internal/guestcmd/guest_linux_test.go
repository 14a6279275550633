package guestcmd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"symbio/cmd/symbio/internal/cli"
	"symbio/internal/agent/guest/egress"
	"symbio/security/sandbox"
)

// TestMain is also the main of symbio: this binary runs itself, in the sandbox and outside.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && strings.HasPrefix(os.Args[1], "guest-") {
		syscall.Exit(cli.Run(os.Args[1:])) // os.Exit takes a second under the race detector
	}
	os.Exit(m.Run())
}

// place has directories for sockets and for work that a box does not hide, and this binary.
type place struct{ sockets, work, self string }

func newPlace(t *testing.T) place {
	t.Helper()
	top, err := os.MkdirTemp("/var/tmp", "symbio-test-")
	if err != nil {
		t.Skip("no directory outside of /tmp to try it in:", err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	p := place{top + "/sockets", top + "/work", top + "/self"}
	self, err := os.ReadFile("/proc/self/exe")
	if err := errors.Join(err, os.Mkdir(p.sockets, 0o700), os.Mkdir(p.work, 0o700), os.WriteFile(p.self, self, 0o700)); err != nil {
		t.Fatal(err)
	}
	return p
}

// serve runs the node's proxy until the test ends. connections returns what it has logged.
func (p place) serve(t *testing.T, hosts ...string) (connections func() string) {
	t.Helper()
	var mu sync.Mutex
	var logged []string
	proxy, err := egress.New(egress.Config{Hosts: hosts, Log: func(c egress.Connection) {
		mu.Lock()
		defer mu.Unlock()
		logged = append(logged, fmt.Sprintf("%s %v\n", c.Host, c.Refused == ""))
	}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(p.sockets, "proxy.sock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- proxy.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(logged, "")
	}
}

func page(t *testing.T, text string) (port string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }))
	t.Cleanup(s.Close)
	_, port, _ = net.SplitHostPort(s.Listener.Addr().String())
	return port
}

// privateAddress returns an address of this machine that is not of loopback; "" if it has none.
func privateAddress() string {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			return ip.IP.String()
		}
	}
	return ""
}

// The program in the box reaches the server that the list names, by its own address and through the proxy, and nothing else.
func TestProgramInBoxReachesTheListedHostsOnly(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not here")
	}
	p := newPlace(t)
	allowed, other := page(t, "allowed"), page(t, "other")
	connections := p.serve(t, "127.0.0.1:"+allowed, "localhost:"+other)
	box := sandbox.Probe(t.Context(), sandbox.Config{Levels: []sandbox.Level{sandbox.Native, sandbox.Bwrap}, Env: os.Environ()})
	policy, err := sandbox.Standard(p.work)
	if err != nil {
		t.Fatal(err)
	}
	policy.Files.Sockets = []string{p.sockets + "/proxy.sock"}
	if err := box.Check(policy); err != nil {
		t.Skip(err)
	}
	var script, want strings.Builder
	try := func(line, output string) {
		script.WriteString(line + "; echo \" $?\"\n")
		want.WriteString(output + "\n")
	}
	try("curl -s http://127.0.0.1:"+allowed, "allowed 0")
	try("curl -sp --noproxy '' http://127.0.0.1:"+allowed, "allowed 0")
	try("curl -s --noproxy '' http://127.0.0.1:"+allowed+" -o page -w '%{http_code}' && cat page", "200allowed 0") // a whole request
	try("curl -s --noproxy '' -d long=$(head -c 99999 /dev/zero | tr '\\0' x) http://127.0.0.1:"+allowed, "allowed 0")
	try("curl -s http://localhost:"+other+" --noproxy '' -o page -w '%{http_code}'", "403 0")
	try("curl -s http://127.0.0.1:"+other, " 7")
	try("curl -sp --noproxy '' http://127.0.0.1:"+other, " 56")
	try("curl -sp --noproxy '' http://localhost:"+other, " 56") // its name is in the list, its address is private
	try("curl -s https://example.com", " 56")
	try("curl -s --noproxy '*' https://example.com", " 6") // there is no resolver
	try("getent hosts example.com", " 2")
	for _, address := range []string{privateAddress(), "169.254.169.254"} {
		if address != "" {
			try("curl -s --noproxy '*' http://"+address+":"+allowed, " 7")
			try("curl -sp http://"+address+":"+allowed, " 56")
		}
	}
	r, err := box.Run(t.Context(), policy, sandbox.Spec{Argv: []string{p.self, "guest-box", "--port", allowed, p.sockets, "--", "sh", "-c", script.String()}, Dir: p.work})
	if err != nil || r.Code != 0 || r.Stdout.String() != want.String() {
		t.Errorf("status %d, %v: got\n%swant\n%s%s\n%s", r.Code, err, r.Stdout.String(), want.String(), r.Stderr.String(), connections())
	}
	if got := connections(); strings.Count(got, " true") != 4 || !strings.Contains(got, "example.com:443 false") {
		t.Errorf("logged\n%s", got)
	}
}

func TestBoxCommandHasStatusAndSignalsOfItsProgram(t *testing.T) {
	p := newPlace(t)
	for name, c := range map[string]struct {
		script string
		signal os.Signal
		want   int
	}{
		"status": {"exit 3", nil, 3},
		"killed": {"kill -9 $$", nil, 137},
		"signal": {"trap 'exit 7' TERM; echo ready; while read line; do :; done; exit 1", syscall.SIGTERM, 7},
		"proxy":  {"test -n \"$HTTPS_PROXY\" && test \"$https_proxy$NODE_USE_ENV_PROXY\" = \"${HTTP_PROXY}1\"", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(p.self, "guest-box", p.sockets, "--", "sh", "-c", c.script)
			in, err := cmd.StdinPipe()
			out, outErr := cmd.StdoutPipe()
			if err := errors.Join(err, outErr, cmd.Start()); err != nil {
				t.Fatal(err)
			}
			if c.signal != nil {
				io.ReadFull(out, make([]byte, len("ready\n")))
				cmd.Process.Signal(c.signal)
			}
			io.Copy(io.Discard, out)
			in.Close()
			cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != c.want {
				t.Errorf("status %d, want %d", got, c.want)
			}
		})
	}
}

func TestMCPCommandCopiesUntilTheServerEnds(t *testing.T) {
	p := newPlace(t)
	l, err := net.Listen("unix", p.sockets+"/mcp.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command(p.self, "guest-mcp", l.Addr().String())
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout = strings.NewReader("request"), &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(server)
	fmt.Fprintf(server, "answer to %s", got)
	server.Close()
	if err := cmd.Wait(); err != nil || out.String() != "answer to request" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
