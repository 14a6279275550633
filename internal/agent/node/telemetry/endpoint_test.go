package telemetry_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"symbio/internal/agent/node/telemetry"
)

func TestEndpointServesMetricsAndHealthOnOneAddress(t *testing.T) {
	all, err := telemetry.New(t.Context(), telemetry.Config{
		Getenv: func(string) string { return "" }, Prometheus: true, Name: "kitchen", ID: "1", Logger: slog.New(slog.DiscardHandler),
		State: func() telemetry.State { return telemetry.State{Members: 3, Nodes: 2, Approvals: 1} },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	all.Refused("Bash")
	all.Refused("invoke")
	health := telemetry.NewHealth()
	e, err := telemetry.Listen("127.0.0.1:0", all.Metrics(), health)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	get := func(page string) (int, string) {
		reply, err := http.Get("http://" + e.Addr().String() + page)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		text, err := io.ReadAll(reply.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply.StatusCode, string(text)
	}
	conn, err := grpc.NewClient(e.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	probe := func() grpc_health_v1.HealthCheckResponse_ServingStatus {
		reply, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return reply.GetStatus()
	}
	if got := probe(); got != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("a node that is starting is %v", got)
	}
	if status, _ := get("/healthz"); status != http.StatusServiceUnavailable {
		t.Errorf("/healthz of a node that is starting is %d", status)
	}
	health.SetServingStatus("", grpc_health_v1.HealthCheckResponse_SERVING)
	if got := probe(); got != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("a node that is ready is %v", got)
	}
	if status, _ := get("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz of a node that is ready is %d", status)
	}
	_, text := get("/metrics")
	for _, line := range []string{"symbio_members 3", "symbio_nodes 2", "symbio_approvals_waiting 1", `symbio_refusals_total{otel_scope_name="symbio",symbio_refused="capability"} 1`, `symbio_refusals_total{symbio_refused="tool"} 1`, "go_goroutines"} {
		if !hasMetric(text, line) {
			t.Errorf("/metrics has no %q:\n%s", line, text)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the endpoint ended with %v", err)
	}
	if _, err := http.Get("http://" + e.Addr().String() + "/healthz"); err == nil {
		t.Error("the endpoint answers after its end")
	}
}

// hasMetric reports whether a line of text is of that metric, has at least its labels, and its value.
func hasMetric(text, want string) bool {
	name, labels, value := parse(want)
	for line := range strings.Lines(text) {
		n, l, v := parse(line)
		if n == name && (value == "" || v == value) && !slices.ContainsFunc(labels, func(of string) bool { return !slices.Contains(l, of) }) {
			return true
		}
	}
	return false
}

func parse(line string) (name string, labels []string, value string) {
	name, value, _ = strings.Cut(strings.TrimSpace(line), " ")
	if i := strings.Index(line, "} "); i >= 0 {
		name, value = line[:i], strings.TrimSpace(line[i+2:])
	}
	name, inner, _ := strings.Cut(name, "{")
	for label := range strings.SplitSeq(strings.TrimSuffix(inner, "}"), ",") {
		if label != "" {
			labels = append(labels, label)
		}
	}
	return name, labels, value
}

func TestTelemetryIsOffWithoutVariables(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want []string
	}{
		"nothing":            {},
		"endpoint":           {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, []string{"TRACES", "METRICS", "LOGS"}},
		"endpoint of traces": {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318"}, []string{"TRACES"}},
		"exporter":           {map[string]string{"OTEL_METRICS_EXPORTER": "otlp"}, []string{"METRICS"}},
		"exporter none":      {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_LOGS_EXPORTER": "none"}, []string{"TRACES", "METRICS"}},
		"disabled":           {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "TRUE"}, nil},
		"headers alone":      {map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "a=b", "OTEL_SERVICE_NAME": "x"}, nil},
	} {
		getenv := func(key string) string { return c.env[key] }
		if got := telemetry.Sends(getenv); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v is sent, want %v", name, got, c.want)
		}
		if c.want != nil {
			continue
		}
		if all, err := telemetry.New(t.Context(), telemetry.Config{Getenv: getenv}); all != nil || err != nil {
			t.Errorf("%s: New = %v, %v; want nothing", name, all, err)
		}
	}
}

// A page of another site reaches the port under a name of its own (DNS rebinding).
func TestEndpointAnswersOwnHostsOnly(t *testing.T) {
	e, err := telemetry.Listen("127.0.0.1:0", http.NotFoundHandler(), telemetry.NewHealth())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	defer func() { stop(); <-ended }()
	hosts := map[string]bool{
		"127.0.0.1": true, "127.0.0.1:9464": true, "[::1]:9464": true, "10.0.0.7:9464": true, "localhost:9464": true, "LOCALHOST": true,
		"evil.example": false, "evil.example:9464": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
	}
	if own, err := os.Hostname(); err == nil {
		label, _, _ := strings.Cut(own, ".")
		hosts[own+":9464"], hosts[label+".lan"], hosts["x"+label] = true, true, false
	}
	for host, want := range hosts {
		for _, page := range []string{"/metrics", "/healthz"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+e.Addr().String()+page, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			reply, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			reply.Body.Close()
			if got := reply.StatusCode != http.StatusMisdirectedRequest; got != want {
				t.Errorf("%s of host %s: %d", page, host, reply.StatusCode)
			}
		}
	}
}
