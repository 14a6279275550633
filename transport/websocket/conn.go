package websocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/coder/websocket"
)

// Addr is an end of a connection. It is no *net.TCPAddr, because nothing listens there: the end is behind a proxy.
type Addr string

// Network returns "websocket".
func (Addr) Network() string { return "websocket" }

// String returns the URL that was dialed, or the address of the one that dialed, as HOST:PORT or HOST; "" is unknown.
func (a Addr) String() string { return string(a) }

// conn is a WebSocket as a net.Conn. Deadlines are those of the socket below, so that they fail as those of TCP do.
type conn struct {
	*socket
	ws      *websocket.Conn
	message io.Reader // the rest of the message that is being read; nil = none. Read uses it.
	remote  Addr
}

// newConn returns ws, which is open on below, as a net.Conn.
func newConn(ws *websocket.Conn, below *socket, remote Addr) *conn {
	ws.SetReadLimit(-1) // messages are not held: a message is as long as its sender likes
	return &conn{socket: below, ws: ws, remote: remote}
}

// maxPiece is how many bytes Read waits for: package websocket fills the buffer that it gets, and what comes slowly has to
// be seen, because silence ends a connection.
const maxPiece = 4 << 10

// Read returns bytes of the message under way, or of the next one. A text message is an error: no node sends one.
func (c *conn) Read(p []byte) (int, error) {
	p = p[:min(len(p), maxPiece)]
	for {
		if c.message == nil {
			kind, r, err := c.ws.Reader(context.Background())
			switch {
			case websocket.CloseStatus(err) != -1, errors.Is(err, io.EOF):
				return 0, io.EOF
			case err != nil:
				return 0, err
			case kind != websocket.MessageBinary:
				c.Close()
				return 0, fmt.Errorf("a %s came over the WebSocket, which is no message of a node", kind)
			}
			c.message = r
		}
		switch n, err := c.message.Read(p); {
		case errors.Is(err, io.EOF) && n == 0: // of the message, or of the socket: the next message tells
			c.message = nil
		case err != nil:
			return 0, err // the bytes before an error may still be masked
		case n > 0 || len(p) == 0:
			return n, nil
		}
	}
}

// Write sends p as one message.
func (c *conn) Write(p []byte) (int, error) {
	c.hold()
	err := c.ws.Write(context.Background(), websocket.MessageBinary, p)
	if sent := c.release(); err == nil {
		err = sent
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close closes the connection below first, so that nothing waits for another side that does not read.
func (c *conn) Close() error {
	err := c.socket.Close()
	_ = c.ws.CloseNow() // frees what the WebSocket holds; its connection is closed
	return err
}

// LocalAddr returns no address: the other side can dial none of this one.
func (c *conn) LocalAddr() net.Addr { return Addr("") }

// RemoteAddr returns the URL that was dialed, or the address of the one that dialed.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SyscallConn gives access to the options of the socket, if there is one.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
