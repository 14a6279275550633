package websocket

import (
	"bufio"
	"cmp"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// Config sets up a Listener. Listener is required.
type Config struct {
	// Listener accepts the connections of HTTP. The Listener that is made closes it.
	Listener net.Listener
	// Path is the path of the URL at which WebSockets are accepted. Default "/".
	Path string
	// Logger receives refused requests, at the level of debugging. Default: silent.
	Logger *slog.Logger
}

const (
	// requestTimeout is how long a request may take to arrive, as the handshake of TLS may over TCP.
	requestTimeout = 5 * time.Second
	// maxRequests is how many connections may be open whose request is not answered yet. Those that have become
	// WebSockets are the user's to count.
	maxRequests = 64
	// maxHeader is the size of a request in bytes. Requests of nodes, with what proxies add, are below 2 KiB.
	maxHeader = 8 << 10
)

// Listener is a net.Listener whose connections are WebSockets that other nodes opened. It is plain HTTP: the nodes prove
// who they are inside of the WebSocket. It may be used concurrently.
type Listener struct {
	cfg     Config
	server  *http.Server
	serving sync.WaitGroup
	conns   chan net.Conn
	closed  chan struct{}
	close   func()
	// requests counts the connections before they become WebSockets.
	requests atomic.Int64
}

// NewListener returns a Listener that accepts connections until Close.
func NewListener(cfg Config) *Listener {
	cfg.Path, cfg.Logger = cmp.Or(cfg.Path, "/"), cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	l := &Listener{cfg: cfg, conns: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	l.server = &http.Server{
		Handler: http.HandlerFunc(l.upgrade), ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: requestTimeout,
		MaxHeaderBytes: maxHeader, ConnState: l.limit, ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	l.serving.Go(func() {
		_ = l.server.Serve(cfg.Listener) // ends when it is closed; a listener that breaks has nothing more to accept
		l.close()
	})
	return l
}

// limit closes connections beyond maxRequests. One that has become a WebSocket does not count any more.
func (l *Listener) limit(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if l.requests.Add(1) > maxRequests {
			l.cfg.Logger.Debug("too many requests for WebSockets", "addr", c.RemoteAddr())
			c.Close()
		}
	case http.StateHijacked, http.StateClosed:
		l.requests.Add(-1)
	}
}

// upgrade makes a WebSocket of a request and hands it to Accept. Requests of web pages of other sites are refused
// (websocket.Accept compares Origin with Host).
func (l *Listener) upgrade(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != l.cfg.Path {
		w.Header().Set("Connection", "close")
		http.NotFound(w, r)
		return
	}
	h := &hijacker{ResponseWriter: w}
	ws, err := websocket.Accept(h, r, nil)
	if err != nil {
		l.cfg.Logger.Debug("request for a WebSocket refused", "addr", r.RemoteAddr, "err", err)
		return
	}
	c := newConn(ws, h.conn, callerAddr(r))
	select {
	case l.conns <- c:
	case <-l.closed:
		c.Close()
	}
}

// callerAddr returns where a request comes from. A proxy on this machine says so in the last element of X-Forwarded-For,
// which it appends itself: limits on callers are then not limits on the proxy. Such an address has no port.
func callerAddr(r *http.Request) Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err == nil && from.Addr().Unmap().IsLoopback() {
		all := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		if ip, err := netip.ParseAddr(strings.TrimSpace(all[len(all)-1])); err == nil {
			return Addr(ip.Unmap().WithZone("").String())
		}
	}
	return Addr(r.RemoteAddr)
}

// hijacker keeps the connection that a WebSocket takes over from the HTTP server.
type hijacker struct {
	http.ResponseWriter
	conn *socket
}

// Hijack is part of http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.conn = newSocket(c)
	rw.Writer.Reset(h.conn) // nothing waits in it
	return h.conn, rw, nil
}

// Accept returns the next WebSocket, or net.ErrClosed after Close.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and waits until no further connection is accepted. Open WebSockets stay open.
func (l *Listener) Close() error {
	l.close()
	err := l.server.Close()
	l.serving.Wait()
	return err
}

// Addr returns the address of the connections of HTTP.
func (l *Listener) Addr() net.Addr { return l.cfg.Listener.Addr() }
