package websocket

import (
	"bufio"
	"net"
	"sync"
)

// chunk is how much is read from a socket at a time, in bytes, as over TCP.
const chunk = 64 << 10

// socket is the connection below a WebSocket, and below TLS if there is any. It reads in large chunks and sends what
// belongs to one message together: the WebSocket reads and writes pieces of 4 KiB, each of which would be a system call.
// Write may be called concurrently, Read by one goroutine at a time.
type socket struct {
	net.Conn
	in *bufio.Reader

	mu   sync.Mutex
	held bool   // guarded by mu
	out  []byte // guarded by mu
}

func newSocket(c net.Conn) *socket { return &socket{Conn: c, in: bufio.NewReaderSize(c, chunk)} }

func (s *socket) Read(p []byte) (int, error) { return s.in.Read(p) }

// Write sends p at once, or keeps it until release.
func (s *socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held {
		return s.Conn.Write(p)
	}
	s.out = append(s.out, p...)
	return len(p), nil
}

// hold lets Write keep its bytes.
func (s *socket) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = true
}

// release sends what Write has kept.
func (s *socket) release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	out := s.out
	s.out = out[:0]
	if len(out) == 0 {
		return nil
	}
	_, err := s.Conn.Write(out)
	return err
}
