package grpcpeer_test

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeListener is a listener in memory. It stands in for grpc's bufconn, which sets timers that fire at
// once: in a synctest bubble under the race detector, two of those at the same time crash the Go 1.26
// runtime (go.dev/issue/78156: they share the race context of the bubble).
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	close func()
	addr  net.Addr
}

const pipeSize = 8 << 10 // less than gRPC's window, so that a pipe can be full

func newPipeListener() *pipeListener {
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{}), addr: pipeAddr{}}
	l.close = sync.OnceFunc(func() { close(l.done) })
	return l
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.close(); return nil }
func (l *pipeListener) Addr() net.Addr { return l.addr }

// Dial returns the other end of a connection that Accept returned.
func (l *pipeListener) Dial(ctx context.Context) (net.Conn, error) {
	return l.dial(ctx, func(*pipeEnd) {})
}

// dial is Dial, with something done to the end that Accept returns.
func (l *pipeListener) dial(ctx context.Context, prepare func(*pipeEnd)) (net.Conn, error) {
	near, far := newPipe()
	prepare(far)
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

// newPipe returns the ends of a connection that holds some bytes in each direction, as a socket does.
func newPipe() (a, b *pipeEnd) {
	x, y := &hose{turn: make(chan struct{})}, &hose{turn: make(chan struct{})}
	return &pipeEnd{in: x, out: y, local: pipeAddr{}, remote: pipeAddr{}}, &pipeEnd{in: y, out: x, local: pipeAddr{}, remote: pipeAddr{}}
}

// hose is one direction.
type hose struct {
	mu     sync.Mutex
	data   []byte        // guarded by mu
	closed bool          // guarded by mu
	turn   chan struct{} // closed and replaced at each change; guarded by mu
}

// try does f under the lock until it is done, the hose is closed, or the deadline passes.
func (h *hose) try(d *deadline, f func() (n int, done bool), atEnd error) (int, error) {
	for {
		h.mu.Lock()
		n, done := f()
		if done {
			close(h.turn)
			h.turn = make(chan struct{})
		}
		closed, turn := h.closed, h.turn
		h.mu.Unlock()
		switch {
		case done:
			return n, nil
		case closed:
			return 0, atEnd
		}
		select {
		case <-turn:
		case <-d.passed():
			return 0, os.ErrDeadlineExceeded
		}
	}
}

func (h *hose) shut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	close(h.turn)
	h.turn = make(chan struct{})
}

// pipeEnd is a net.Conn.
type pipeEnd struct {
	in, out         *hose
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
	for sent := 0; ; {
		n, err := c.out.try(&c.writeBy, func() (int, bool) {
			n := min(len(p)-sent, pipeSize-len(c.out.data))
			if c.out.closed || n == 0 {
				return 0, false
			}
			c.out.data = append(c.out.data, p[sent:sent+n]...)
			return n, true
		}, io.ErrClosedPipe)
		if sent += n; err != nil || sent == len(p) {
			return sent, err
		}
	}
}

func (c *pipeEnd) Close() error {
	c.in.shut()
	c.out.shut()
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
	timer *time.Timer
	over  chan struct{}
	fired bool
}

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
	mine := d.over
	fire := func() {
		if d.over == mine && !d.fired {
			d.fired = true
			close(mine)
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
