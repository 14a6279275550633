package telemetry_test

import (
	"net"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

// receiver is the collector's receiver of OTLP, and what it got.
type receiver struct {
	address string
	traces  consumertest.TracesSink
	metrics consumertest.MetricsSink
	logs    consumertest.LogsSink
}

// freeAddress returns an address of this machine that is free now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startReceiver starts a receiver for the test.
func startReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{address: freeAddress(t)}
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{
		"http": map[string]any{"endpoint": r.address},
	}}).Unmarshal(config); err != nil {
		t.Fatal(err)
	}
	settings := receivertest.NewNopSettings(factory.Type())
	traces, err := factory.CreateTraces(t.Context(), settings, config, &r.traces)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := factory.CreateMetrics(t.Context(), settings, config, &r.metrics)
	if err != nil {
		t.Fatal(err)
	}
	logs, err := factory.CreateLogs(t.Context(), settings, config, &r.logs)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []component.Component{traces, metrics, logs} {
		if err := one.Start(t.Context(), componenttest.NewNopHost()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = one.Shutdown(t.Context()) })
	}
	return r
}
