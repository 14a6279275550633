package grpcpeertest

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// maxWaiting is how many packets wait for their reader. Further ones are lost, as in a socket.
const maxWaiting = 256

// packet is one that has arrived.
type packet struct {
	text []byte
	from net.Addr
}

// packetConn is a node's net.PacketConn. Packets get through where connections do, but for those that are lost.
type packetConn struct {
	node *Node
	in   chan packet
	done chan struct{}
	end  func()
}

func newPacketConn(n *Node) *packetConn {
	c := &packetConn{node: n, in: make(chan packet, maxWaiting), done: make(chan struct{})}
	c.end = sync.OnceFunc(func() { close(c.done) })
	return c
}

func (c *packetConn) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case p := <-c.in:
		return copy(b, p.text), p.from, nil
	case <-c.done:
		return 0, nil, net.ErrClosed
	}
}

// WriteTo returns no error for what is lost.
func (c *packetConn) WriteTo(b []byte, to net.Addr) (int, error) {
	l := c.node.lan
	addr, err := netip.ParseAddrPort(to.String())
	if err != nil {
		return 0, err
	}
	other := l.find(addr)
	if other == nil || other.packets == nil || other.isKilled() || c.node.isKilled() || !l.isOpen(c.node, other) || rand.Float64() < l.cfg.Loss {
		return len(b), nil
	}
	text := append([]byte(nil), b...)
	arrive := func() {
		select {
		case other.packets.in <- packet{text, net.UDPAddrFromAddrPort(c.node.Addr)}:
		default:
		}
	}
	if l.cfg.Delay > 0 {
		time.AfterFunc(l.cfg.Delay, arrive)
	} else {
		arrive()
	}
	return len(b), nil
}

// isOpen reports whether bytes get from a to b now.
func (l *LAN) isOpen(a, b *Node) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.side[a.ID] == l.side[b.ID] && !l.frozen[a.ID] && !l.frozen[b.ID]
}

func (c *packetConn) Close() error                     { c.end(); return nil }
func (c *packetConn) LocalAddr() net.Addr              { return net.UDPAddrFromAddrPort(c.node.Addr) }
func (c *packetConn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (c *packetConn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (c *packetConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
