package grpcpeertest

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// connect carries bytes between two connections, which belong to the nodes a and b, until one of
// the connections is closed, one of the nodes is killed, or the test ends.
func (l *LAN) connect(a, b *Node, atA, atB net.Conn) {
	over := make(chan struct{})
	end := sync.OnceFunc(func() { close(over); atA.Close(); atB.Close() })
	l.running.Go(func() {
		select {
		case <-a.killed:
		case <-b.killed:
		case <-l.ended:
		case <-over:
		}
		end()
	})
	l.running.Go(func() { defer end(); l.carry(a, b, atA, atB, over) })
	l.running.Go(func() { defer end(); l.carry(b, a, atB, atA, over) })
}

// carry copies from src to dst until one of them ends or over is closed. Bytes that are under way
// when the path is cut, and the end of src, arrive after the path is open again.
func (l *LAN) carry(from, to *Node, src io.Reader, dst io.Writer, over <-chan struct{}) {
	if l.cfg.Delay > 0 || l.cfg.Jitter > 0 {
		src = l.delay(src, over)
	}
	buf := make([]byte, pipeSize)
	for {
		n, err := src.Read(buf)
		if !l.awaitPath(from, to, over) {
			return
		}
		if _, werr := dst.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// maxInTransit is how many pieces of at most pipeSize bytes a delayed direction holds. Beyond it the
// sender waits, as with a full TCP window.
const maxInTransit = 64

// piece is what one read returned, and when the other side may read it.
type piece struct {
	data    []byte
	err     error
	arrives time.Time
}

// delayLine reads pieces when they have arrived.
type delayLine struct {
	pieces <-chan piece
	over   <-chan struct{}
}

// delay returns a reader of what src returns, later. Read must be called with pipeSize bytes.
func (l *LAN) delay(src io.Reader, over <-chan struct{}) io.Reader {
	pieces := make(chan piece, maxInTransit)
	l.running.Go(func() {
		for {
			buf := make([]byte, pipeSize)
			n, err := src.Read(buf)
			p := piece{buf[:n], err, time.Now().Add(l.cfg.Delay + rand.N(l.cfg.Jitter+1))}
			select {
			case pieces <- p:
			case <-over:
				return
			}
			if err != nil {
				return
			}
		}
	})
	return delayLine{pieces, over}
}

func (d delayLine) Read(p []byte) (int, error) {
	select {
	case next := <-d.pieces:
		select {
		case <-time.After(time.Until(next.arrives)):
		case <-d.over:
			return 0, io.EOF
		}
		return copy(p, next.data), next.err
	case <-d.over:
		return 0, io.EOF
	}
}
