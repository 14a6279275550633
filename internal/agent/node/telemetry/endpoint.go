package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// maxConnections bounds the connections to an Endpoint: some scrapers and probes.
const maxConnections = 64

// NewHealth returns the health of a node, for grpc.health.v1. It is not serving until it is set.
func NewHealth() *health.Server {
	h := health.NewServer() // it would begin as serving
	h.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	return h
}

// Endpoint serves on one address, without TLS: /metrics for Prometheus, /healthz, and grpc.health.v1,
// as Kubernetes probes ask for it. Whoever can connect can read, and do nothing else.
type Endpoint struct {
	listener net.Listener
	server   *http.Server
	grpc     *grpc.Server
}

// Listen opens the address. The caller must call Run, or Close. metrics may be nil.
func Listen(addr string, metrics http.Handler, h *health.Server) (*Endpoint, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("metrics: listening on %s: %w; choose another address with the key metrics", addr, err)
	}
	e := &Endpoint{listener: netutil.LimitListener(l, maxConnections), grpc: grpc.NewServer()}
	grpc_health_v1.RegisterHealthServer(e.grpc, h)
	pages := http.NewServeMux()
	if metrics != nil {
		pages.Handle("GET /metrics", metrics)
	}
	pages.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { serveHealth(w, r, h) })
	e.server = &http.Server{Handler: e.orGRPC(pages), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, Protocols: new(http.Protocols)}
	e.server.Protocols.SetHTTP1(true)
	e.server.Protocols.SetUnencryptedHTTP2(true)
	return e, nil
}

// orGRPC returns a handler that passes calls of gRPC on to the gRPC server.
func (e *Endpoint) orGRPC(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			e.grpc.ServeHTTP(w, r)
			return
		}
		if !isOwnHost(r.Host) {
			http.Error(w, "ask for the address of this machine, or its host name", http.StatusMisdirectedRequest)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// isOwnHost reports whether a request is for this machine as its people call it: by an address, as localhost, or by its
// host name, in any domain. A page of another site reaches it by a name of its own, by DNS rebinding.
func isOwnHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	own, err := os.Hostname()
	label, _, _ := strings.Cut(host, ".")
	ownLabel, _, _ := strings.Cut(own, ".")
	return strings.EqualFold(host, "localhost") || err == nil && ownLabel != "" && strings.EqualFold(label, ownLabel)
}

// serveHealth answers 200 while the node serves, else 503.
func serveHealth(w http.ResponseWriter, r *http.Request, h *health.Server) {
	reply, err := h.Check(r.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || reply.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		http.Error(w, "not serving", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "serving")
}

// Addr returns the address that is bound, with its port.
func (e *Endpoint) Addr() net.Addr { return e.listener.Addr() }

// Run serves until ctx ends, and ends all connections then.
func (e *Endpoint) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { e.Close() })()
	if err := e.server.Serve(e.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends an Endpoint, also one that was not run.
func (e *Endpoint) Close() error {
	e.grpc.Stop()
	return errors.Join(e.server.Close(), e.listener.Close())
}
