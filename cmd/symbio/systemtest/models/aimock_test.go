//go:build system && linux

package models_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"symbio/internal/community/waittest"

	"symbio/cmd/symbio/symbiotest"
)

// aimock is a running aimock: a chat-completions server that this project did not write.
type aimock struct {
	// BaseURL is what OPENAI_BASE_URL is to be; it ends in /v1.
	BaseURL string

	t    testing.TB
	root string
}

// recorded is a request that aimock got, and how it answered.
type recorded struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    struct {
		Model    string            `json:"model"`
		Stream   bool              `json:"stream"`
		Messages []json.RawMessage `json:"messages"`
		Tools    []json.RawMessage `json:"tools"`
	} `json:"body"`
	Response struct {
		Status int `json:"status"`
	} `json:"response"`
}

// listening is the line with which aimock says that it is ready.
var listening = regexp.MustCompile(`listening on (http://[0-9.:]+)`)

// startAimock starts aimock on a free port of 127.0.0.1 with these fixtures, in strict mode: a request
// that no fixture matches gets status 503. It ends with the test. Without node or the package the
// test is skipped, and says what is missing. flags are further ones, such as "--chunk-size", "5".
func startAimock(t testing.TB, fixtures string, flags ...string) *aimock {
	t.Helper()
	dir := os.Getenv(symbiotest.NPMDirectory)
	if dir == "" {
		t.Skipf("%s names no directory with @copilotkit/aimock in its node_modules", symbiotest.NPMDirectory)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skipf("aimock needs node: %v", err)
	}
	program := filepath.Join(dir, "node_modules", ".bin", "llmock")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("aimock is not installed in $%s: %v", symbiotest.NPMDirectory, err)
	}
	file := filepath.Join(t.TempDir(), "fixtures.json")
	if err := os.WriteFile(file, []byte(fixtures), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &output{ready: make(chan string, 1)}
	cmd := exec.Command(node, append([]string{program, "-p", "0", "-f", file, "--strict"}, flags...)...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), "NODE_OPTIONS=") // what a developer set there is none of the test's business
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting aimock: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // its status says only that it was killed
	})
	var root string
	waittest.Until(t, "aimock to listen", func() (any, bool) {
		select {
		case root = <-out.ready:
			return nil, true
		default:
			return out, false
		}
	})
	return &aimock{BaseURL: root + "/v1", t: t, root: root}
}

// Journal returns the requests so far, oldest first.
func (a *aimock) Journal() []recorded {
	a.t.Helper()
	resp, err := http.Get(a.root + "/__aimock/journal")
	if err != nil {
		a.t.Fatalf("aimock's journal: %v", err)
	}
	defer resp.Body.Close()
	var list []recorded
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		a.t.Fatalf("aimock's journal: %v", err)
	}
	return list
}

// output keeps what a process says and finds the address in it.
type output struct {
	mu    sync.Mutex
	said  bytes.Buffer // guarded by mu
	found bool         // guarded by mu
	ready chan string
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.said.Write(p)
	if m := listening.FindSubmatch(o.said.Bytes()); m != nil && bytes.HasSuffix(o.said.Bytes(), []byte("\n")) && !o.found {
		o.found = true
		o.ready <- string(m[1])
	}
	return n, err
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.said.String()
}
