package grpcpeer

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"

	"symbio/community"
	"symbio/internal/community/waittest"
)

// A node that says that it cannot call has lost the connection that it was offered before.
func TestNewOfferCutsTheOldOne(t *testing.T) {
	c := &reverser{accepted: newConnListener(nil), offered: map[community.NodeID]*offeredConn{}}
	var far []net.Conn
	for i := range 3 {
		near, end := net.Pipe()
		far = append(far, end)
		go c.accepted.Accept()
		if err := c.serve(t.Context(), &link{peer: community.Peer{ID: someID(1 + i/2)}}, tls.Client(near, &tls.Config{}), newBatchConn(near)); err != nil {
			t.Fatal(err)
		}
	}
	at, _ := waittest.Context(t).Deadline() // zero: none
	_ = far[0].SetDeadline(at)              // an error when it is cut already
	if _, err := far[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the first connection: got %v, want that it is cut", err)
	}
	for _, o := range []community.NodeID{someID(1), someID(2)} {
		c.offered[o].Close()
	}
	if len(c.offered) != 0 {
		t.Errorf("%v is kept of connections that have ended", c.offered)
	}
}

// at is a listener with an address.
type at string

func (at) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (at) Close() error              { return nil }
func (a at) Addr() net.Addr          { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(string(a))) }

func TestPortIsReportedOnlyWhereDialable(t *testing.T) {
	for _, c := range []struct {
		listens, from string
		want          uint32
	}{
		{"10.0.0.1:7946", "10.0.0.1:40000", 7946},
		{"10.0.0.1:7946", "10.0.0.2:40000", 0},
		{"127.0.0.1:7946", "127.0.0.1:40000", 7946},
		{"127.0.0.1:7946", "10.0.0.1:40000", 0},
		{"0.0.0.0:7946", "10.0.0.1:40000", 7946},
		{"0.0.0.0:7946", "[fd00::1]:40000", 0},
		{"[::]:7946", "10.0.0.1:40000", 7946},
		{"[::]:7946", "[fd00::1]:40000", 7946},
	} {
		n := &local{listener: newLimitListener(at(c.listens), 1, nil)}
		if got := n.portAt(at(c.from).Addr()); got != c.want {
			t.Errorf("listening on %s, connected from %s: said port %d, want %d", c.listens, c.from, got, c.want)
		}
	}
}
