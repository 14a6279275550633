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

// batchConn is a connection below TLS. What is written while it is held goes together.
type batchConn struct {
	net.Conn
	in *bufio.Reader // used by who reads only

	opened   time.Time
	lastRead atomic.Int64 // nanoseconds since opened

	mu   sync.Mutex
	held bool   // guarded by mu
	out  []byte // guarded by mu
}

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

// silence is how long no byte was read.
func (b *batchConn) silence() time.Duration {
	return time.Since(b.opened) - time.Duration(b.lastRead.Load())
}

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

// writeTLS writes to the TLS connection above, in one go.
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

// flush needs b.mu.
func (b *batchConn) flush() error {
	if len(b.out) == 0 {
		return nil
	}
	_, err := b.Conn.Write(b.out)
	b.out = b.out[:0]
	return err
}
