package grpcpeer

import (
	"context"
	"net"
	"sync"
)

// handover is a net.Listener whose connections are handed to it, after a handshake that was made elsewhere.
type handover struct {
	addr    net.Addr
	arrived chan net.Conn
	closed  chan struct{}
	close   func()
}

func newHandover(addr net.Addr) handover {
	h := handover{addr: addr, arrived: make(chan net.Conn), closed: make(chan struct{})}
	h.close = sync.OnceFunc(func() { close(h.closed) })
	return h
}

// send waits until the server accepts a connection. On an error the connection is still the caller's.
func (h handover) send(ctx context.Context, c net.Conn) error {
	select {
	case h.arrived <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-h.closed:
		return net.ErrClosed
	}
}

func (h handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.arrived:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h handover) Close() error   { h.close(); return nil }
func (h handover) Addr() net.Addr { return h.addr }
