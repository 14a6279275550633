package grpcpeer

import (
	"context"
	"net"
	"sync"
)

// connListener is a net.Listener whose connections are handed to it, after a handshake that was made elsewhere.
type connListener struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newConnListener(addr net.Addr) connListener {
	h := connListener{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
	h.close = sync.OnceFunc(func() { close(h.closed) })
	return h
}

// send waits until the server accepts a connection. On an error the connection is still the caller's.
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

func (h connListener) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h connListener) Close() error   { h.close(); return nil }
func (h connListener) Addr() net.Addr { return h.addr }
