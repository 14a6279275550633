package grpcpeer

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// linkConn is the TLS connection of a link. It keeps the TLS alert with which the other side ended
// the connection, because gRPC reports that as text only, and the alert is what tells the user why
// (certificate removed, no room). It also closes without waiting.
type linkConn struct {
	net.Conn    // TLS
	raw         *batchConn
	firstRead   chan struct{} // closed when the first read has ended
	onFirstRead func()        // closes firstRead, once
	closed      atomic.Bool
	alert       atomic.Pointer[net.OpError]
}

// newLinkConn wraps c, whose handshake is done and which writes to raw.
func newLinkConn(c net.Conn, raw *batchConn) *linkConn {
	w := &linkConn{Conn: c, raw: raw, firstRead: make(chan struct{})}
	w.onFirstRead = sync.OnceFunc(func() { close(w.firstRead) })
	return w
}

// Read records a TLS alert of the other side before it returns the error.
func (w *linkConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	var opErr *net.OpError
	if errors.As(err, &opErr) && opErr.Op == "remote error" {
		w.alert.Store(opErr)
	}
	w.onFirstRead()
	return n, err
}

// Write sends p with as few system calls as possible.
func (w *linkConn) Write(p []byte) (int, error) { return w.raw.writeTLS(w.Conn, p) }

// Close closes the TCP connection below TLS. A TLS close would send close_notify and wait up to 5 s
// when the other side does not read.
//
// In TLS 1.3 the server verifies the client's certificate after the client's handshake has
// succeeded. A connection that ends before its first read may therefore have been refused; Close
// then waits up to alertTimeout, so that gRPC's reader can read the alert.
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

// alertTimeout is how long to wait for the alert that says why a connection was refused: a round
// trip of a LAN, with some slack.
const alertTimeout = 50 * time.Millisecond

// refusal returns the TLS alert with which the other side ended the connection, or nil.
func (w *linkConn) refusal() error {
	if opErr := w.alert.Load(); opErr != nil {
		return opErr
	}
	return nil
}
