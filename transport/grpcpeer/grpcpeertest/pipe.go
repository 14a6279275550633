package grpcpeertest

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Listener is a net.Listener in memory. It replaces grpc's bufconn, whose timers fire at once: in a
// synctest bubble under the race detector, two of those at the same time crash the Go 1.26 runtime
// (go.dev/issue/78156: they share the race context of the bubble).
type Listener struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	close func()
}

// NewListener returns a listener that says that it listens at addr.
func NewListener(addr net.Addr) *Listener {
	l := &Listener{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.done) })
	return l
}

// Accept returns the next connection that Dial opened, and net.ErrClosed after Close.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial. Open connections stay open.
func (l *Listener) Close() error { l.close(); return nil }

// Addr is part of net.Listener.
func (l *Listener) Addr() net.Addr { return l.addr }

// Dial opens a connection from an address that says nothing. It returns when the connection is
// accepted, or with net.ErrClosed after Close, or with ctx's error.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	return l.dialFrom(ctx, pipeAddr{})
}

// dialFrom is Dial from an address.
func (l *Listener) dialFrom(ctx context.Context, from net.Addr) (net.Conn, error) {
	near, far := Pipe(from, l.addr)
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// pipeSize is how many bytes a connection holds in each direction. It is less than gRPC's window, so
// that a connection can be full.
const pipeSize = 8 << 10

// Pipe returns the ends of a connection between two addresses. Other than net.Pipe it holds some
// bytes in each direction, as sockets do.
func Pipe(a, b net.Addr) (atA, atB net.Conn) {
	x, y := &stream{changed: make(chan struct{})}, &stream{changed: make(chan struct{})}
	return &pipeEnd{in: x, out: y, local: a, remote: b}, &pipeEnd{in: y, out: x, local: b, remote: a}
}

// stream is one direction of a connection.
type stream struct {
	mu     sync.Mutex
	data   []byte // guarded by mu
	closed bool   // guarded by mu
	// changed is closed and replaced at each change; guarded by mu.
	changed chan struct{}
}

// try calls f under the lock until f is done, the stream is closed or the deadline has passed.
func (s *stream) try(d *deadline, f func() (n int, done bool), atEnd error) (int, error) {
	for {
		s.mu.Lock()
		n, done := f()
		if done {
			s.signal()
		}
		closed, changed := s.closed, s.changed
		s.mu.Unlock()
		switch {
		case done:
			return n, nil
		case closed:
			return 0, atEnd
		}
		select {
		case <-changed:
		case <-d.passed():
			return 0, os.ErrDeadlineExceeded
		}
	}
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.signal()
}

// signal wakes what waits for a change. The caller holds mu.
func (s *stream) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// pipeEnd is a net.Conn.
type pipeEnd struct {
	in, out         *stream
	local, remote   net.Addr
	readBy, writeBy deadline
}

func (c *pipeEnd) Read(p []byte) (int, error) {
	return c.in.try(&c.readBy, func() (int, bool) {
		n := copy(p, c.in.data)
		c.in.data = c.in.data[n:]
		return n, n > 0
	}, io.EOF)
}

func (c *pipeEnd) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		n, err := c.out.try(&c.writeBy, func() (int, bool) {
			n := min(len(p)-sent, pipeSize-len(c.out.data))
			if c.out.closed || n == 0 {
				return 0, false
			}
			c.out.data = append(c.out.data, p[sent:sent+n]...)
			return n, true
		}, io.ErrClosedPipe)
		if sent += n; err != nil {
			return sent, err
		}
	}
	return sent, nil
}

func (c *pipeEnd) Close() error {
	c.in.close()
	c.out.close()
	return nil
}

func (c *pipeEnd) LocalAddr() net.Addr  { return c.local }
func (c *pipeEnd) RemoteAddr() net.Addr { return c.remote }

func (c *pipeEnd) SetDeadline(t time.Time) error {
	c.readBy.set(t)
	c.writeBy.set(t)
	return nil
}

func (c *pipeEnd) SetReadDeadline(t time.Time) error  { c.readBy.set(t); return nil }
func (c *pipeEnd) SetWriteDeadline(t time.Time) error { c.writeBy.set(t); return nil }

// deadline is a channel that is closed when a time has come. The zero value never is.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer   // guarded by mu
	over  chan struct{} // guarded by mu
	fired bool          // guarded by mu
}

// passed returns a channel that is closed when the deadline has passed.
func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.channel()
}

func (d *deadline) channel() chan struct{} {
	if d.over == nil {
		d.over = make(chan struct{})
	}
	return d.over
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	d.channel()
	if d.fired {
		d.over, d.fired = make(chan struct{}), false
	}
	current := d.over
	fire := func() {
		if d.over == current && !d.fired {
			d.fired = true
			close(current)
		}
	}
	switch left := time.Until(t); {
	case t.IsZero():
	case left <= 0:
		fire()
	default:
		d.timer = time.AfterFunc(left, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			fire()
		})
	}
}
