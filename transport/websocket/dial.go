package websocket

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/coder/websocket"
)

// Dialer opens WebSockets. The zero Dialer is usable. It may be used concurrently.
type Dialer struct {
	// Roots are the authorities that the certificate of a proxy may be of. Default: the authorities of the system.
	Roots *x509.CertPool
	// DialTCP opens the connection to the proxy. Default: net.Dialer.DialContext.
	DialTCP func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Dial opens a WebSocket at a URL (ws:// or wss://), through the forward proxy that the environment names (HTTPS_PROXY,
// NO_PROXY) if there is one. The error says what answered there and what to do. ctx bounds Dial alone.
func (d Dialer) Dial(ctx context.Context, url string) (net.Conn, error) {
	dial := d.DialTCP
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	var below *socket
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		// A transport makes one request, and so one connection.
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			below = newSocket(c)
			return below, nil
		},
		TLSClientConfig:        &tls.Config{RootCAs: d.Roots, MinVersion: tls.VersionTLS12},
		MaxResponseHeaderBytes: maxHeader,
		DisableKeepAlives:      true,
	}
	defer transport.CloseIdleConnections()
	web := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ws, answer, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: web})
	switch {
	case err == nil:
		return newConn(ws, below, Addr(url)), nil
	case answer != nil:
		return nil, &net.OpError{Op: "open", Net: "websocket", Err: errors.New(explain(answer.StatusCode))}
	}
	return nil, reason(err)
}

// explain returns what an answer of HTTP means that opens no WebSocket, and what to do.
func explain(status int) string {
	text := fmt.Sprintf("HTTP %d %s: ", status, http.StatusText(status))
	switch status {
	case http.StatusSwitchingProtocols:
		return text + "the answer breaks the rules of WebSockets; look for what changes it on the way"
	case http.StatusUpgradeRequired:
		return text + "the proxy does not pass on the headers Upgrade and Connection; set both, and HTTP/1.1, in its configuration"
	case http.StatusProxyAuthRequired:
		return text + "the forward proxy wants a password; write it into HTTPS_PROXY"
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return text + "the proxy does not reach the node behind it; start that node, and compare the proxy's upstream with the node's key node.websocket"
	}
	return text + "no node accepts WebSockets there; compare the path with the key node.websocket of the node, and with the proxy's configuration"
}

// reason returns why a request had no answer, without what the HTTP client adds to it.
func reason(err error) error {
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = failed.Err
	}
	if errors.As(err, new(*tls.CertificateVerificationError)) {
		return fmt.Errorf("the certificate of the proxy does not count here: %w; name the file of its authority with the key discovery.roots", err)
	}
	return err
}
