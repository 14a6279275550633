package doctor

import (
	"cmp"
	"context"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"symbio/agent/node/telemetry"
)

// sendsTelemetry reports what a node that is started from here sends by OTLP, and whether its endpoints
// can be reached. One that cannot is a warning, because a node works without it.
func sendsTelemetry(ctx context.Context, w *World) []Finding {
	var found []Finding
	if at := w.Options.Settings.Metrics; at != "" {
		found = append(found, ok("metrics and health are served at %s", at))
	}
	signals := telemetry.Sends(w.Options.Getenv)
	if len(signals) == 0 {
		return append(found, ok("nothing is sent by OTLP: no variable such as OTEL_EXPORTER_OTLP_ENDPOINT asks for it"))
	}
	at := map[string][]string{} // the signals by their endpoint
	for _, s := range signals {
		addr := endpoint(telemetry.Target(w.Options.Getenv, s))
		at[addr] = append(at[addr], strings.ToLower(s))
	}
	for _, addr := range slices.Sorted(maps.Keys(at)) {
		what, err := strings.Join(at[addr], ", "), error(nil)
		if addr != "" { // else the exporter has its own default
			err = w.dial(ctx, addr)
		}
		if err != nil {
			found = append(found, warn("start the collector there, or correct OTEL_EXPORTER_OTLP_ENDPOINT", "%s are sent to %s, which does not answer: %v", what, addr, err))
			continue
		}
		found = append(found, ok("%s are sent to %s", what, cmp.Or(addr, "the default of OTEL_*_EXPORTER")))
	}
	return found
}

// endpoint returns the HOST:PORT of an endpoint, and nothing else of it: the rest may have a secret.
func endpoint(target string) string {
	if target != "" && !strings.Contains(target, "://") {
		target = "http://" + target
	}
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = u.Scheme // net.Dial knows the ports of http and https
	}
	return net.JoinHostPort(u.Hostname(), port)
}
