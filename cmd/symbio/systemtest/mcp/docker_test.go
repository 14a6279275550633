//go:build system && linux

package mcp_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

// framed writes standard output as Docker's service sends it to its client.
type framed struct{ io.Writer }

func (f framed) Write(p []byte) (int, error) {
	head := binary.BigEndian.AppendUint32([]byte{1, 0, 0, 0}, uint32(len(p)))
	_, err := f.Writer.Write(append(head, p...))
	return len(p), err
}

// containers is a stand-in for Docker's service. Its only container is an MCP server.
func containers(ended chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.43")
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/containers/create"):
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, `{"Id": "one", "Warnings": []}`)
		case strings.HasSuffix(path, "/attach"):
			c, both, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
			greet(bufio.NewScanner(both), framed{c})
			c.Close()
			close(ended)
		case strings.HasSuffix(path, "/start"):
			w.WriteHeader(http.StatusNoContent)
		case strings.HasSuffix(path, "/wait"):
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			select {
			case <-ended:
				io.WriteString(w, `{"StatusCode": 0}`)
			case <-r.Context().Done():
			}
		case strings.HasSuffix(path, "/info"), strings.HasSuffix(path, "/version"):
			io.WriteString(w, `{}`)
		}
	})
}

func TestDockerEntryStartsWithItsSocket(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("docker"); err != nil {
		t.Skipf("it needs Docker's client: %v", err)
	}
	work, socket := t.TempDir(), filepath.Join(symbiotest.ShortDir(t), "docker.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	service := &http.Server{Handler: containers(make(chan struct{}))}
	served := make(chan struct{})
	go func() { defer close(served); _ = service.Serve(l) }()
	t.Cleanup(func() { service.Close(); <-served })
	entry := map[string]any{"command": "docker", "args": []string{"run", "-i", "--rm", "mcp/time"}, "env": map[string]string{"DOCKER_HOST": "unix://" + socket}}
	held := map[string]any{"sandbox": map[string]any{"sockets": []string{socket}}}
	for key, value := range entry {
		held[key] = value
	}
	list, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"without": entry, "with": held}})
	if err := errors.Join(err, os.MkdirAll(filepath.Join(work, "symbio"), 0o700), os.WriteFile(filepath.Join(work, "symbio", "mcp.json"), list, 0o600)); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "symbio", "mcp", "list", "--start")
	c.Dir = work
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "GORACE=" + os.Getenv("GORACE"), "HOME=" + work, "XDG_STATE_HOME=" + symbiotest.ShortDir(t), "XDG_CONFIG_HOME=" + work}
	out, err := c.Output() // its status is 1, since one fails
	if strings.Contains(string(out), "level landlock") {
		t.Skip("it needs a kernel and a user that may make namespaces, to hide sockets: symbio doctor")
	}
	if !strings.Contains(string(out), "with\tstdio\tready\t1") || !strings.Contains(string(out), "without\tstdio\tfailed") || !strings.Contains(string(out), `"sandbox": {"sockets": [`) {
		t.Errorf("got %v\n%s", err, out)
	}
}
