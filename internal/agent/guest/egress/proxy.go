package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"symbio/internal/security/permission/endpoint"
	"symbio/internal/security/visible"
)

// Limits of a proxy.
const (
	// maxConnections is how many connections there are at a time. An agent has about ten.
	maxConnections = 64
	// maxHeader limits the header of a request, in bytes. Clients send about 200.
	maxHeader = 8 << 10
	// headerTimeout is how long a client may take for its request, and connectTimeout how long a connection to one
	// address may take.
	headerTimeout  = 30 * time.Second
	connectTimeout = 10 * time.Second
	// idleTimeout ends a connection without traffic. A model may think for some minutes before its first word.
	idleTimeout = 10 * time.Minute
)

// Config configures a Proxy. The zero value lets nothing through.
type Config struct {
	// Hosts may be reached: NAME, *.NAME for all names below it, or either with :PORT (default 443). A name must
	// resolve to a public address. ADDRESS:PORT is reached although it is a private address.
	Hosts []string
	// Dial connects to HOST:PORT. Default: with the system's resolver, to public addresses and to the addresses of
	// Hosts.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Log is called once for each connection, when it has ended. It may be called from several goroutines. Default
	// (nil): not called.
	Log func(Connection)
}

// Connection is one connection through a proxy.
type Connection struct {
	// Host is HOST:PORT; "" if the request named none.
	Host string
	// Sent and Received are the bytes from and to the client.
	Sent, Received int64
	// Refused says why the connection was not made; "" if it was.
	Refused string
}

// Proxy is an HTTP proxy with a list of the hosts that it connects to. New makes it. Its methods may be called
// concurrently.
type Proxy struct {
	cfg     Config
	allowed []target
}

// New returns a Proxy. An error names the entry of Hosts that is not valid, and its right form.
func New(cfg Config) (*Proxy, error) {
	p := &Proxy{cfg: cfg}
	if cfg.Log == nil {
		p.cfg.Log = func(Connection) {}
	}
	for _, host := range cfg.Hosts {
		entry, err := parseEntry(host)
		if err != nil {
			return nil, err
		}
		p.allowed = append(p.allowed, entry)
	}
	return p, nil
}

// Loopback returns the ports of the addresses of this machine (127.0.0.1) in Hosts. Programs connect to those without a proxy,
// so that the box needs a listener at each.
func (p *Proxy) Loopback() (ports []uint16) {
	for _, t := range p.allowed {
		if t.addr == netip.AddrFrom4([4]byte{127, 0, 0, 1}) {
			ports = append(ports, t.port)
		}
	}
	return ports
}

// Serve serves the clients of l until ctx ends, and closes l. It returns when all connections have ended: nil after the end
// of ctx, else the error of l. More clients than maxConnections wait. A client that sends no valid HTTP request is answered
// by net/http and not logged.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	open := make(chan struct{}, maxConnections)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case open <- struct{}{}:
				p.cfg.Log(p.handle(w, r))
				<-open
			case <-ctx.Done():
			}
		}),
		BaseContext:    func(net.Listener) context.Context { return ctx },
		MaxHeaderBytes: maxHeader, ReadTimeout: headerTimeout, WriteTimeout: headerTimeout, ErrorLog: log.New(io.Discard, "", 0),
	}
	server.SetKeepAlivesEnabled(false)
	defer context.AfterFunc(ctx, func() { server.Close() })()
	err := server.Serve(netutil.LimitListener(l, maxConnections))
	if ctx.Err() != nil {
		err = nil
	}
	cancel()
	server.Close()
	for range maxConnections { // each handler has returned, or will not begin
		open <- struct{}{}
	}
	return err
}

// handle serves one request. It returns when the connection has ended.
func (p *Proxy) handle(w http.ResponseWriter, r *http.Request) Connection {
	c := Connection{Host: visible.Truncate(r.RequestURI, 300)}
	refuse := func(status int, text string, cause error) Connection {
		if c.Refused = text; cause != nil {
			c.Refused += ": " + cause.Error()
		}
		http.Error(w, text, status)
		return c
	}
	if r.Method != http.MethodConnect {
		w.Header().Set("Allow", http.MethodConnect)
		return refuse(http.StatusMethodNotAllowed, "This proxy only makes connections (CONNECT HOST:PORT) and forwards no other request. Use an https URL.", nil)
	}
	// Only the target counts. A Host field that differs from it has no effect.
	name, port, err := net.SplitHostPort(r.RequestURI)
	asked := target{}
	if err == nil {
		asked, err = parseTarget(name, port)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "The target is not HOST:PORT.", err)
	}
	c.Host = asked.String()
	if !slices.ContainsFunc(p.allowed, func(t target) bool { return t.covers(asked) }) {
		return refuse(http.StatusForbidden, c.Host+" is not among the hosts that this agent may reach. A person allows it under acp: hosts: in the agent's definition.", nil)
	}
	server, err := p.dial(r.Context(), asked)
	// The client is not told the cause, which may name addresses of the local network.
	switch {
	case errors.Is(err, errPrivate):
		return refuse(http.StatusForbidden, c.Host+" is not reached, because it is at no public address.", err)
	case err != nil:
		return refuse(http.StatusBadGateway, c.Host+" cannot be reached.", err)
	}
	defer server.Close()
	c.Sent, c.Received, err = tunnel(r.Context(), w, server)
	if err != nil {
		return refuse(http.StatusInternalServerError, "The connection cannot be made.", err)
	}
	return c
}

// errPrivate means that a name resolved to an address that is not public.
var errPrivate = errors.New("the address is not public")

// dial connects to a target that is allowed. The address is checked after name resolution, right before connecting, so that
// a name that resolves to another address the second time cannot get around the check.
func (p *Proxy) dial(ctx context.Context, t target) (net.Conn, error) {
	if p.cfg.Dial != nil {
		return p.cfg.Dial(ctx, "tcp", t.String())
	}
	dialer := &net.Dialer{Timeout: connectTimeout}
	dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || to != t.addrPort() && !endpoint.IsPublic(to.Addr()) {
			return fmt.Errorf("%w: %s", errPrivate, address)
		}
		return nil
	}
	return dialer.DialContext(ctx, "tcp", t.String())
}
