package telemetry

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// bytesCodec hands the messages of gRPC on as they are.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (bytesCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}

// collector receives OTLP by gRPC and by HTTP.
type collector struct {
	mu sync.Mutex
	// received has the messages by method or path, failures what the next calls of gRPC answer.
	received map[string][]byte
	headers  map[string]string
	failures []codes.Code
}

func (c *collector) add(where, header string, message []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failures) > 0 {
		code := c.failures[0]
		c.failures = c.failures[1:]
		return status.Error(code, "the collector has no room")
	}
	c.received[where], c.headers[where] = append(c.received[where], message...), header
	return nil
}

// startCollector starts a collector, and sets the variables that name it.
func startCollector(t *testing.T, protocol string, failures ...codes.Code) *collector {
	t.Helper()
	c := &collector{received: map[string][]byte{}, headers: map[string]string{}, failures: failures}
	g := grpc.NewServer(grpc.ForceServerCodec(bytesCodec{}), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(s)
		md, _ := metadata.FromIncomingContext(s.Context())
		var message, answer []byte
		if err := s.RecvMsg(&message); err != nil {
			return err
		}
		if err := c.add(method, strings.Join(md["key"], ","), message); err != nil {
			return err
		}
		return s.SendMsg(&answer)
	}))
	t.Cleanup(g.Stop)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			g.ServeHTTP(w, r)
			return
		}
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(body)
		}
		message, err := io.ReadAll(body)
		if err != nil {
			t.Error(err)
		}
		if err := c.add(r.URL.Path, r.Header.Get("key"), message); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
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

func TestSignalsAreSentByHTTPAndGRPC(t *testing.T) {
	const services = "/opentelemetry.proto.collector."
	for protocol, paths := range map[string][3]string{
		"":              {"/v1/traces", "/v1/metrics", "/v1/logs"},
		"http/protobuf": {"/v1/traces", "/v1/metrics", "/v1/logs"},
		"grpc":          {services + "trace.v1.TraceService/Export", services + "metrics.v1.MetricsService/Export", services + "logs.v1.LogsService/Export"},
	} {
		for _, compression := range []string{"", "gzip"} {
			t.Run(fmt.Sprintf("%s %s", protocol, compression), func(t *testing.T) {
				c := startCollector(t, protocol)
				t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
				log := send(t)
				for i, want := range []string{"execute_tool Bash", "symbio.tool.calls", "word-of-log"} {
					if got := c.received[paths[i]]; !bytes.Contains(got, []byte(want)) || !bytes.Contains(got, []byte("kitchen")) {
						t.Errorf("%s received %q, want %q of kitchen", paths[i], got, want)
					}
					if got := c.headers[paths[i]]; got != "word-of-header" {
						t.Errorf("%s received the header %q", paths[i], got)
					}
				}
				if len(c.received) != 3 || log != "" {
					t.Errorf("%d kinds were received; the log is %q", len(c.received), log)
				}
			})
		}
	}
}

func TestFailedCallIsFailedRequest(t *testing.T) {
	c := startCollector(t, "grpc", codes.Unavailable, codes.InvalidArgument)
	client, err := otlp{"LOGS", os.Getenv}.grpcClient()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusBadRequest, http.StatusOK} {
		answer, err := client.Post(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")+"/v1/logs", "application/x-protobuf", strings.NewReader("message"))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			t.Fatal(err)
		}
		text := "the collector has no room"
		if want == http.StatusOK {
			text = ""
		}
		if answer.StatusCode != want || string(body) != text {
			t.Errorf("%d %q, want %d %q", answer.StatusCode, body, want, text)
		}
	}
	if got := string(c.received["/opentelemetry.proto.collector.logs.v1.LogsService/Export"]); got != "message" {
		t.Errorf("received %q", got)
	}
}

func TestStatusOfCallDecidesAboutRepetition(t *testing.T) {
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		want := http.StatusBadRequest
		switch code {
		case codes.OK:
			want = http.StatusOK
		case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
			want = http.StatusServiceUnavailable
		}
		if got := httpStatus(fmt.Sprint(int(code))); got != want {
			t.Errorf("%v becomes %d, want %d", code, got, want)
		}
	}
}

func TestUnknownExportersAndProtocolsAreErrors(t *testing.T) {
	for name, want := range map[string]string{"OTEL_TRACES_EXPORTER": "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL": "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", name: "zipkin"}
		_, err := New(t.Context(), Config{Getenv: func(k string) string { return env[k] }, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s=zipkin: %v", name, err)
		}
	}
}
