package grpcpeer

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// linkConn is the TLS connection of a link. It remembers what gRPC tells as text only: the alert by which
// the other side ended it.
type linkConn struct {
	net.Conn    // TLS
	raw         *batchConn
	firstRead   chan struct{} // closed when the first read has ended
	onFirstRead func()        // closes heard, once
	closed      atomic.Bool
	alert       atomic.Pointer[net.OpError]
}

func newLinkConn(c net.Conn, raw *batchConn) *linkConn {
	w := &linkConn{Conn: c, raw: raw, firstRead: make(chan struct{})}
	w.onFirstRead = sync.OnceFunc(func() { close(w.firstRead) })
	return w
}

func (w *linkConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	var told *net.OpError
	if errors.As(err, &told) && told.Op == "remote error" {
		w.alert.Store(told)
	}
	w.onFirstRead()
	return n, err
}

func (w *linkConn) Write(p []byte) (int, error) { return w.raw.writeTLS(w.Conn, p) }

// Close closes below TLS, at once: a TLS close waits to say goodbye, up to 5 s when the other side
// does not read. A connection that ends before a word was heard may have been refused, because in TLS
// 1.3 the other side checks this one's certificate last; gRPC's reader then gets the time to read why.
func (w *linkConn) Close() error {
	if !w.closed.Swap(true) {
		_ = w.raw.SetReadDeadline(time.Now().Add(alertTimeout))
		late := time.NewTimer(alertTimeout)
		defer late.Stop()
		select {
		case <-w.firstRead:
		case <-late.C:
		}
	}
	return w.raw.Close()
}

// alertTimeout is how long to wait for the reason of a refusal.
const alertTimeout = 50 * time.Millisecond

// refusal returns the alert by which the other side ended the connection, if it did.
func (w *linkConn) refusal() error {
	if told := w.alert.Load(); told != nil {
		return told
	}
	return nil
}
