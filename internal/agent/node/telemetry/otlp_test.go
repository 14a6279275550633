package telemetry

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	_ "google.golang.org/grpc/encoding/gzip"
)

// collector receives OTLP by HTTP.
type collector struct {
	mu sync.Mutex
	// received has the messages by path.
	received map[string][]byte
	headers  map[string]string
}

// startCollector starts a collector, and sets the variables that name it.
func startCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{received: map[string][]byte{}, headers: map[string]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(body)
		}
		message, err := io.ReadAll(body)
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.received[r.URL.Path], c.headers[r.URL.Path] = append(c.received[r.URL.Path], message...), r.Header.Get("key")
	}))
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "key=word-of-header")
	return c
}

// send does a task with telemetry by the variables, and returns what the node logged.
func send(t *testing.T) (log string) {
	t.Helper()
	var lines bytes.Buffer
	all, err := New(t.Context(), Config{Getenv: os.Getenv, Name: "kitchen", State: func() State { return State{} }, Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	if err != nil {
		t.Fatal(err)
	}
	all.Logger(slog.New(slog.DiscardHandler)).InfoContext(t.Context(), "word-of-log")
	work(t.Context(), all, nil)
	for _, shutdown := range all.close { // Close has a limit in time
		if err := shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
	return lines.String()
}

func TestSignalsAreSent(t *testing.T) {
	for _, compression := range []string{"", "gzip"} {
		t.Run("compression "+compression, func(t *testing.T) {
			c := startCollector(t)
			t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
			log := send(t)
			for path, want := range map[string]string{"/v1/traces": "execute_tool Bash", "/v1/metrics": "symbio.tool.calls", "/v1/logs": "word-of-log"} {
				if got := c.received[path]; !bytes.Contains(got, []byte(want)) || !bytes.Contains(got, []byte("kitchen")) {
					t.Errorf("%s received %q, want %q of kitchen", path, got, want)
				}
				if got := c.headers[path]; got != "word-of-header" {
					t.Errorf("%s received the header %q", path, got)
				}
			}
			if len(c.received) != 3 || log != "" {
				t.Errorf("%d kinds were received; the log is %q", len(c.received), log)
			}
		})
	}
}

func TestUnknownExportersAndProtocolsAreErrors(t *testing.T) {
	for name, value := range map[string]string{"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/json"} {
		env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", name: value}
		_, err := New(t.Context(), Config{Getenv: func(k string) string { return env[k] }, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), value) || !strings.Contains(err.Error(), "set it to otlp") && !strings.Contains(err.Error(), "4318") {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}
