package grpcpeer

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// wire is the TLS connection of a link. It remembers what gRPC tells as text only: the alert by which
// the other side ended it.
type wire struct {
	net.Conn // TLS
	raw      *batch
	heard    chan struct{} // closed when the first read has ended
	hear     func()        // closes heard, once
	closed   atomic.Bool
	alert    atomic.Pointer[net.OpError]
}

func newWire(c net.Conn, raw *batch) *wire {
	w := &wire{Conn: c, raw: raw, heard: make(chan struct{})}
	w.hear = sync.OnceFunc(func() { close(w.heard) })
	return w
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	var told *net.OpError
	if errors.As(err, &told) && told.Op == "remote error" {
		w.alert.Store(told)
	}
	w.hear()
	return n, err
}

func (w *wire) Write(p []byte) (int, error) { return w.raw.together(w.Conn, p) }

// Close closes below TLS, at once: a TLS close waits to say goodbye, up to 5 s when the other side
// does not read. A connection that ends before a word was heard may have been refused, because in TLS
// 1.3 the other side checks this one's certificate last; gRPC's reader then gets the time to read why.
func (w *wire) Close() error {
	if !w.closed.Swap(true) {
		_ = w.raw.SetReadDeadline(time.Now().Add(lastWord))
		late := time.NewTimer(lastWord)
		defer late.Stop()
		select {
		case <-w.heard:
		case <-late.C:
		}
	}
	return w.raw.Close()
}

// lastWord is how long to wait for the reason of a refusal.
const lastWord = 50 * time.Millisecond

// refusal returns the alert by which the other side ended the connection, if it did.
func (w *wire) refusal() error {
	if told := w.alert.Load(); told != nil {
		return told
	}
	return nil
}
