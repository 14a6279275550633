package grpcpeer

import (
	"context"
	"net"
	"sync"
)

// connListener is a net.Listener whose connections come from send instead of from a socket. gRPC
// servers need a listener; the connections here have done their TLS handshake elsewhere (joins,
// reversed connections). It may be used concurrently and copied.
type connListener struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

// newConnListener returns an open connListener. addr is only what Addr returns.
func newConnListener(addr net.Addr) connListener {
	h := connListener{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
	h.close = sync.OnceFunc(func() { close(h.closed) })
	return h
}

// send hands c to Accept and waits until Accept has it. It returns net.ErrClosed after Close, or
// ctx's error; the caller then still owns c and must close it.
func (h connListener) send(ctx context.Context, c net.Conn) error {
	select {
	case h.conns <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-h.closed:
		return net.ErrClosed
	}
}

// Accept returns the next connection that send brings, or net.ErrClosed after Close.
func (h connListener) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept and send return net.ErrClosed. It may be called more than once: both gRPC's
// Stop and the owner call it.
func (h connListener) Close() error   { h.close(); return nil }
func (h connListener) Addr() net.Addr { return h.addr }
