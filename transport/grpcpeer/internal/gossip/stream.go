package gossip

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// A stream is a connection of identity.GossipProtocol. Its first byte is its kind; then both ends send a Hello, the
// one that dialed first. A message is 4 bytes for its length, big-endian, and a message of gossip.proto.

// The kinds of streams.
const (
	kindHello   = 'h' // nothing else: dial back
	kindMembers = 'm' // memberlist's
	kindRecords = 'r' // one RecordsRequest; replies, the last one without a record
)

const (
	// streamTimeout ends a stream, whatever it is for.
	streamTimeout = 5 * time.Second
	// maxStreams is how many streams other nodes may have open here, and maxStreamsEach how many one of them.
	maxStreams, maxStreamsEach = 64, 8
	// maxRequest is how many records one request is for.
	maxRequest = 256
	maxHello   = 256
	// maxExchange is how many bytes memberlist reads from one stream: marks of maxNodes nodes, and records for one that joins.
	maxExchange = maxNodes*memberSize + maxJoinState + maxRecord
	memberSize  = 1 << 10
	// maxReply is the longest reply: a record, or the lists of removed nodes.
	maxReply = maxRecord + 64<<10
)

// streams bounds what streams make this node do.
type streams struct {
	mu   sync.Mutex
	open int                      // guarded by mu
	by   map[community.NodeID]int // of them by each node; guarded by mu
	// greetings limits how often a node is dialed because its packets cannot be read.
	greetings *rate.Limiter
}

func newStreams() *streams {
	return &streams{by: map[community.NodeID]int{}, greetings: rate.NewLimiter(5, 5)}
}

// acquire counts a stream of a node, and reports whether there may be one more. release undoes it.
func (s *streams) acquire(id community.NodeID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= maxStreams || s.by[id] >= maxStreamsEach {
		return false
	}
	s.open++
	s.by[id]++
	return true
}

func (s *streams) release(id community.NodeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if s.by[id]--; s.by[id] == 0 {
		delete(s.by, id)
	}
}

// open dials a node and says Hello. expect "" takes any node of the authority.
func (g *Group) open(ctx context.Context, addr netip.AddrPort, expect community.NodeID, kind byte) (net.Conn, error) {
	raw, err := g.cfg.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, g.cfg.Identity.ProtocolClientTLS(identity.GossipProtocol, expect))
	deadline, _ := ctx.Deadline()
	err = errors.Join(conn.SetDeadline(deadline), conn.HandshakeContext(ctx))
	if err == nil {
		_, err = conn.Write(g.hello([]byte{kind}))
	}
	if err == nil {
		_, err = g.readHello(conn)
	}
	if err != nil {
		raw.Close()
		return nil, g.cfg.Identity.Explain(err)
	}
	if kind == kindMembers {
		return &limitedConn{conn, maxExchange}, nil
	}
	return conn, nil
}

// limitedConn is a connection from which at most left further bytes are read.
type limitedConn struct {
	net.Conn
	left int
}

var errExchange = fmt.Errorf("a stream of more than %d bytes", maxExchange)

func (c *limitedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errExchange
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// hello returns this node's Hello behind prefix.
func (g *Group) hello(prefix []byte) []byte {
	k := g.keys.current()
	body, _ := proto.Marshal(&pb.Hello{Key: k.secret, Generation: k.generation, Port: uint32(g.cfg.Port)}) // no error: no required fields
	return append(binary.BigEndian.AppendUint32(prefix, uint32(len(body))), body...)
}

// readHello takes the other node's key over, and returns where that node can be dialed.
func (g *Group) readHello(conn net.Conn) (port uint16, err error) {
	h := &pb.Hello{}
	if err := readMessage(conn, h, maxHello); err != nil {
		return 0, err
	}
	if err := g.keys.add(h.GetGeneration(), h.GetKey()); err != nil {
		return 0, err
	}
	if h.GetPort() >= 1<<16 {
		return 0, errors.New("a port above 65535")
	}
	return uint16(h.GetPort()), nil
}

// Accept serves a stream of another node, whose TLS handshake is done and has proven peer. It blocks, and closes conn
// unless memberlist does. It returns why the stream was not served.
func (g *Group) Accept(conn net.Conn, peer identity.Peer) error {
	if !g.streams.acquire(peer.ID) {
		conn.Close()
		return errors.New("too many streams are open")
	}
	defer g.streams.release(peer.ID)
	kind, port, err := g.greet(conn)
	if err != nil {
		conn.Close()
		return err
	}
	switch kind {
	case kindMembers:
		select {
		case g.transport.streams <- &limitedConn{conn, maxExchange}:
			return nil
		case <-g.ctx.Done():
			err = g.ctx.Err()
		}
	case kindRecords:
		err = g.answer(conn)
	case kindHello:
		err = g.dialBack(peer.ID, conn.RemoteAddr(), port)
	default:
		err = fmt.Errorf("a stream of kind %q", kind)
	}
	conn.Close()
	return err
}

// greet reads what a stream is for, and exchanges Hellos. The stream proves that this node can be reached.
func (g *Group) greet(conn net.Conn) (kind byte, port uint16, err error) {
	if err := conn.SetDeadline(time.Now().Add(streamTimeout)); err != nil {
		return 0, 0, err
	}
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		return 0, 0, err
	}
	if port, err = g.readHello(conn); err != nil {
		return 0, 0, err
	}
	if _, err := conn.Write(g.hello(nil)); err != nil {
		return 0, 0, err
	}
	return first[0], port, g.join(conn.LocalAddr())
}

// dialBack answers a Hello by a stream of memberlist's in the other direction.
func (g *Group) dialBack(id community.NodeID, from net.Addr, port uint16) error {
	addr, err := netip.ParseAddrPort(from.String())
	if err != nil || port == 0 {
		return err
	}
	return g.Meet(id, netip.AddrPortFrom(addr.Addr().Unmap(), port))
}

// askForKey gets the key of a node whose packet this node cannot read. Only a known node is dialed, and seldom.
func (g *Group) askForKey(from net.Addr) {
	addr, err := netip.ParseAddrPort(from.String())
	addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
	if err != nil || !g.view.hasAddr(addr) || !g.streams.greetings.Allow() {
		return
	}
	g.loops.Go(func() {
		ctx, cancel := context.WithTimeout(g.ctx, streamTimeout)
		defer cancel()
		if s, err := g.open(ctx, addr, "", kindHello); err == nil {
			s.Close()
		}
	})
}

func writeMessage(w io.Writer, m proto.Message) error {
	body, err := proto.Marshal(m)
	if err == nil {
		_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	}
	return err
}

// readMessage reads one message of at most limit bytes.
func readMessage(r io.Reader, m proto.Message, limit int) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if int64(n) > int64(limit) {
		return fmt.Errorf("a message of %d bytes, above %d", n, limit)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	return proto.Unmarshal(body, m)
}
