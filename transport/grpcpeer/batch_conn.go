package grpcpeer

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// chunk is how much is written to a connection, and read from it, at a time: 4 records of TLS, each of
// which would be a system call of its own.
const chunk = 64 << 10

// batchConn is the TCP connection below a TLS connection. It joins the TLS records of one Write
// into one system call, reads in large chunks, and remembers when the last byte arrived.
//
// crypto/tls writes each record of 16 KiB with a system call of its own, four for a message of 64
// KiB. Write may be called concurrently, Read by one goroutine at a time, silence by any.
type batchConn struct {
	net.Conn
	// in is used by Read only, which crypto/tls serializes.
	in *bufio.Reader

	opened   time.Time
	lastRead atomic.Int64 // nanoseconds since opened

	mu   sync.Mutex
	held bool   // guarded by mu
	out  []byte // guarded by mu
}

// newBatchConn wraps c. The caller must not use c directly afterwards, because in may have read
// ahead.
func newBatchConn(c net.Conn) *batchConn {
	limitUnsent(c)
	return &batchConn{Conn: c, in: bufio.NewReaderSize(c, chunk), opened: time.Now()}
}

func (b *batchConn) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if n > 0 {
		b.lastRead.Store(int64(time.Since(b.opened)))
	}
	return n, err
}

// silence returns the time since the last byte was read, or since the connection was made.
func (b *batchConn) silence() time.Duration {
	return time.Since(b.opened) - time.Duration(b.lastRead.Load())
}

// Write sends p at once, or keeps it for the flush at the end of writeTLS. It flushes early when 2
// chunks are waiting, which bounds the memory of a connection whose peer does not read.
func (b *batchConn) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.held {
		return b.Conn.Write(p)
	}
	if len(b.out)+len(p) > 2*chunk {
		if err := b.flush(); err != nil {
			return 0, err
		}
	}
	b.out = append(b.out, p...)
	return len(p), nil
}

// writeTLS writes p to the TLS connection tls, whose records come back through Write and are held,
// and then flushes them together. It returns the error of either step. Concurrent writers are
// serialized by crypto/tls.
func (b *batchConn) writeTLS(tls net.Conn, p []byte) (int, error) {
	b.mu.Lock()
	b.held = true
	b.mu.Unlock()
	n, err := tls.Write(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = false
	if flushed := b.flush(); err == nil && flushed != nil {
		return 0, flushed
	}
	return n, err
}

// flush writes what is held. The caller holds b.mu.
func (b *batchConn) flush() error {
	if len(b.out) == 0 {
		return nil
	}
	_, err := b.Conn.Write(b.out)
	b.out = b.out[:0]
	return err
}
