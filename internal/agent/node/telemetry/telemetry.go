// Package telemetry tells the world outside of symbio what a node does: traces, metrics and logs by
// OTLP, and an HTTP endpoint with metrics for Prometheus and the health of the node.
//
// The one idea: the rest of a node knows nothing of OpenTelemetry. It has hooks (agent.Middleware,
// Config.OnAsk, OnCall and OnRun), which are not set unless telemetry is on. A span becomes the
// community.Trace of its context, and its parent is the community.Trace of the context before: so
// what travels between nodes is what OpenTelemetry made, and a node without telemetry in between does
// not cut the trace.
//
// The variables OTEL_* of OpenTelemetry's specification configure OTLP, and nothing is sent without an
// endpoint or an exporter in them. Texts of models, tools and people are only in spans, and only if
// OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT asks for them; secrets are left out there, too.
package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"symbio/internal/agent/node/nodelog"
)

// closeTimeout is how long Close waits for what is still to be sent. It is short, because a person who
// ends a node does not wait for a collector that is away.
const closeTimeout = 2 * time.Second

// Config sets up a Telemetry.
type Config struct {
	// Getenv reads the environment for New. The exporters read the environment of the process.
	Getenv func(string) string
	// Prometheus says that Metrics will be served, so that metrics are counted without OTLP, too.
	Prometheus bool
	// Name, ID and Version of the node describe the sender of all that is sent.
	Name, ID, Version string
	// State returns what is measured when metrics are read. It is called from any goroutine.
	State func() State
	// Logger gets failures of the exporters.
	Logger *slog.Logger
}

// State are figures of a node at one moment.
type State struct {
	// Members are the members of all nodes, Nodes the connected ones with this one, Approvals the calls that
	// wait for a person here.
	Members, Nodes, Approvals int
}

// Telemetry makes spans, counts, and sends both. Its methods are the hooks of the parts of a node and
// are safe for concurrent use.
type Telemetry struct {
	tracer   trace.Tracer
	counters counters
	// log sends records with the trace of their context; logs is its handler. Both are of no effect
	// without logs by OTLP.
	log  *slog.Logger
	logs slog.Handler
	// content says that texts of models and people may be in spans.
	content bool
	metrics http.Handler // nil = no Prometheus
	close   []func(context.Context) error
}

// Sends returns the signals that the environment asks to send by OTLP or another exporter: TRACES,
// METRICS and LOGS, as in the names of their variables.
func Sends(getenv func(string) string) (signals []string) {
	if strings.EqualFold(strings.TrimSpace(getenv("OTEL_SDK_DISABLED")), "true") {
		return nil
	}
	for _, s := range []string{"TRACES", "METRICS", "LOGS"} {
		exporter := getenv("OTEL_" + s + "_EXPORTER")
		if exporter != "none" && exporter+getenv("OTEL_EXPORTER_OTLP_"+s+"_ENDPOINT")+getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" {
			signals = append(signals, s)
		}
	}
	return signals
}

// New returns the Telemetry that the environment and c ask for; nil = none. The caller must Close it.
// The error says which variable cannot be used.
func New(ctx context.Context, c Config) (_ *Telemetry, err error) {
	signals := Sends(c.Getenv)
	if len(signals) == 0 && !c.Prometheus {
		return nil, nil
	}
	t := &Telemetry{tracer: noop.NewTracerProvider().Tracer(scope), log: slog.New(slog.DiscardHandler), logs: slog.DiscardHandler}
	switch strings.ToLower(c.Getenv(captureContent)) {
	case "true", "span_only", "span_and_event":
		t.content = true
	}
	defer func() {
		if err != nil {
			t.Close()
			err = fmt.Errorf("OpenTelemetry by the variables OTEL_*: %w", err)
		}
	}()
	// The reports of the exporters go to the node's log alone: sent by OTLP it would fail again.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { c.Logger.Warn("telemetry not sent", "err", err) }))
	from, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(
		attribute.String("service.name", scope), attribute.String("service.version", c.Version),
		attribute.String("service.instance.id", c.ID), attribute.String("symbio.node.name", c.Name)), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	var readers []sdkmetric.Option
	for _, s := range signals {
		if err := checkExporter(c.Getenv, s); err != nil {
			return nil, err
		}
		switch s {
		case "TRACES":
			err = t.sendTraces(ctx, from)
		case "METRICS":
			var to sdkmetric.Exporter
			to, err = otlpmetrichttp.New(ctx)
			readers = append(readers, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(to)))
		case "LOGS":
			err = t.sendLogs(ctx, from)
		}
		if err != nil {
			return nil, err
		}
	}
	if c.Prometheus {
		r, err := t.scraped()
		if err != nil {
			return nil, err
		}
		readers = append(readers, sdkmetric.WithReader(r))
	}
	metrics := sdkmetric.NewMeterProvider(append(readers, sdkmetric.WithResource(from))...)
	t.close = append(t.close, metrics.Shutdown)
	t.counters, err = newCounters(metrics.Meter(scope), c.State)
	return t, err
}

// checkExporter returns an error that names the variable if the environment asks for another exporter of a
// signal than OTLP over HTTP, which all collectors receive.
func checkExporter(getenv func(string) string, signal string) error {
	if e := getenv("OTEL_" + signal + "_EXPORTER"); e != "" && e != "otlp" {
		return fmt.Errorf("OTEL_%s_EXPORTER is %q: set it to otlp or none", signal, e)
	}
	p := cmp.Or(getenv("OTEL_EXPORTER_OTLP_"+signal+"_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	if p != "http/protobuf" {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: symbio sends http/protobuf alone: "+
			"leave the variable out, and name the collector's port for HTTP, 4318 as a rule, in OTEL_EXPORTER_OTLP_ENDPOINT", p)
	}
	return nil
}

func (t *Telemetry) sendTraces(ctx context.Context, from *resource.Resource) error {
	to, err := otlptracehttp.New(ctx)
	if err != nil {
		return err
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(to), sdktrace.WithResource(from))
	t.tracer, t.close = p.Tracer(scope), append(t.close, p.Shutdown)
	return nil
}

func (t *Telemetry) sendLogs(ctx context.Context, from *resource.Resource) error {
	to, err := otlploghttp.New(ctx)
	if err != nil {
		return err
	}
	p := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(to)), sdklog.WithResource(from))
	t.logs = nodelog.Redact(otelslog.NewHandler(scope, otelslog.WithLoggerProvider(p)), slog.LevelInfo)
	t.log, t.close = slog.New(t.logs), append(t.close, p.Shutdown)
	return nil
}

// scraped returns the reader of the metrics that Prometheus fetches, and sets metrics to their handler.
func (t *Telemetry) scraped() (sdkmetric.Reader, error) {
	own := prometheus.NewRegistry()
	if err := errors.Join(own.Register(collectors.NewGoCollector()), own.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))); err != nil {
		return nil, err
	}
	// Two at once and a limit in time: a scrape is cheap, and one that is slow is not to pile up.
	t.metrics = promhttp.HandlerFor(own, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: 5 * time.Second})
	return otelprometheus.New(otelprometheus.WithRegisterer(own))
}

// Metrics serves the metrics for Prometheus; nil = New was not asked for them.
func (t *Telemetry) Metrics() http.Handler { return t.metrics }

// Logger returns a Logger that logs to l and by OTLP.
func (t *Telemetry) Logger(l *slog.Logger) *slog.Logger {
	if t.logs == slog.DiscardHandler {
		return l
	}
	return slog.New(slog.NewMultiHandler(l.Handler(), t.logs))
}

// Close sends what is still to be sent, for at most closeTimeout, and releases everything. A failure is
// in the node's log: it must not make the node fail.
func (t *Telemetry) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, shutdown := range t.close {
		if err := shutdown(ctx); err != nil {
			otel.Handle(err)
		}
	}
}
