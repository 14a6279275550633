//go:build unix

package grpcpeer_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"symbio/community"
	"symbio/discovery"
	"symbio/internal/community/waittest"
	"symbio/transport/grpcpeer"
	"symbio/transport/websocket"
)

// BenchmarkWebSocket compares calls over a WebSocket, alone and through nginx, which ends TLS, with those over TCP, in the
// same way as BenchmarkCalls.
func BenchmarkWebSocket(b *testing.B) {
	l := newLAN(b)
	c := l.child(benchEnv + "=1")
	r := &rig{child: c}
	add := func(name string, dial websocket.Dialer, hint discovery.Candidate) {
		h := l.onLoopback(name, func(cfg *grpcpeer.Config) { cfg.Limits.Calls, cfg.DialURL = crowded, dial.Dial })
		h.network.AddHint(hint)
		h.sees("the agent", func([]community.Member) bool { return len(h.WhoCanReceive("work")) == 1 })
		agent := h.WhoCanReceive("work")[0].ID
		r.home = h
		r.ways = append(r.ways, way{name, func(ctx context.Context, payload []byte) (int, error) {
			reply, err := h.Send(ctx, agent, community.Signal{Perception: "work", Data: payload})
			return len(reply.Data), err
		}})
	}
	add("tcp", websocket.Dialer{}, c.hint)
	url := fmt.Sprintf("ws://%s/symbio", c.web)
	add("websocket", websocket.Dialer{}, discovery.Candidate{Key: url, URL: url})
	if _, err := exec.LookPath("nginx"); err == nil {
		dial, addr := startNginx(b, c.web)
		url := fmt.Sprintf("wss://%s/symbio", addr)
		add("nginx", dial, discovery.Candidate{Key: url, URL: url})
	}
	for _, size := range []int{100, 64 << 10} {
		for _, callers := range []int{1, 64} {
			calls := 20000
			switch {
			case callers == 1:
				calls = 500
			case size > 1000:
				calls = 2000
			}
			b.Run(fmt.Sprintf("%dB/callers=%d", size, callers), func(b *testing.B) {
				payload := bytes.Repeat([]byte("x"), size)
				took := make([][]figure, len(r.ways))
				for round := 0; b.Loop(); round++ {
					for i := range r.ways {
						w := (i + round) % len(r.ways)
						took[w] = append(took[w], r.round(b, r.ways[w], payload, callers, calls))
					}
				}
				b.ReportMetric(0, "ns/op")
				for i, w := range r.ways {
					reportTo(b, w.name, took[i], took[0], "tcp")
				}
			})
		}
	}
}

// startNginx starts nginx on a free port of loopback, with a certificate that the dialer takes, before a WebSocket listener.
func startNginx(b *testing.B, node string) (websocket.Dialer, string) {
	b.Helper()
	dir := b.TempDir()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	addr := server.Listener.Addr().String()
	pair := server.TLS.Certificates[0]
	server.Close() // its certificate and its port are for nginx
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		b.Fatal(err)
	}
	both := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	config := fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log %[1]s/error.log; worker_processes 1; events {}
http { access_log off; client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
server { listen %[2]s ssl; ssl_certificate %[1]s/both.pem; ssl_certificate_key %[1]s/both.pem;
location = /symbio { proxy_pass http://%[3]s; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; } } }
`, dir, addr, node)
	for name, text := range map[string][]byte{"both.pem": both, "nginx.conf": []byte(config)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	cmd := exec.Command("nginx", "-c", filepath.Join(dir, "nginx.conf"), "-e", filepath.Join(dir, "error.log"))
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
	waittest.Until(b, "nginx listens", func() (any, bool) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err, err == nil
	})
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return websocket.Dialer{Roots: roots}, addr
}
