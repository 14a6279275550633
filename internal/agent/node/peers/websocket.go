package peers

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"

	"symbio/agent/node/config"
	"symbio/discovery"
	"symbio/transport/websocket"
)

// listenWebSocket returns the listener of node.websocket; nil for "".
func listenWebSocket(at string, log *slog.Logger) (net.Listener, error) {
	if at == "" {
		return nil, nil
	}
	u, err := discovery.ParseURL(at)
	if err != nil {
		return nil, fmt.Errorf("node.websocket: %w", err)
	}
	l, err := net.Listen("tcp", u.Host)
	if err != nil {
		return nil, fmt.Errorf("listening for WebSockets: %w; choose another address with the key node.websocket", err)
	}
	return websocket.NewListener(websocket.Config{Listener: l, Path: u.Path, Logger: log}), nil
}

// newDialer returns what opens WebSockets. It returns an error if the file of discovery.roots has no certificate.
func newDialer(c config.Discovery) (d websocket.Dialer, err error) {
	if c.Roots == "" {
		return d, nil
	}
	text, err := os.ReadFile(c.Roots)
	if err != nil {
		return d, fmt.Errorf("discovery.roots: %w", err)
	}
	if d.Roots, err = x509.SystemCertPool(); err != nil {
		d.Roots = x509.NewCertPool()
	}
	if !d.Roots.AppendCertsFromPEM(text) {
		return d, fmt.Errorf("discovery.roots: %s: it has no certificate in PEM", c.Roots)
	}
	return d, nil
}

// Dial opens a connection to an address as under discovery.peers: HOST:PORT, or the URL of a WebSocket.
func Dial(ctx context.Context, c config.Discovery, addr string) (net.Conn, error) {
	if !discovery.IsURL(addr) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	d, err := newDialer(c)
	if err != nil {
		return nil, err
	}
	return d.Dial(ctx, addr)
}
