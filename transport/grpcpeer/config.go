package grpcpeer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"symbio/community"
	"symbio/internal/actor/awake"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// version is one of the protocol between nodes. Nodes of different major versions do not call each other.
type version struct{ major, minor uint32 }

// protocol is this program's version.
var protocol = version{1, 3}

func (v version) String() string      { return fmt.Sprintf("%d.%d", v.major, v.minor) }
func (v version) toWire() *pb.Version { return &pb.Version{Major: v.major, Minor: v.minor} }

// Config sets up a Network. Only Identity is required.
type Config struct {
	// Identity is this node's key and certificate, and the authorities that it trusts. Required.
	Identity *identity.Identity
	// Listen is the TCP address to serve other nodes on. Default 127.0.0.1:0. An address that other
	// machines can reach is an error unless Identity belongs to a cluster.
	Listen string
	// Listener replaces Listen when it is not nil; Run closes it.
	Listener net.Listener
	// WebSocket accepts further connections, those that come through a proxy (package websocket). Run closes it.
	// Default: none. As for Listen, other machines reach it directly only if Identity belongs to a cluster.
	WebSocket net.Listener
	// Packets carries gossip, at the port of the listener; Run closes it. Default: none if Listener is set, else UDP at the
	// same address. Without it this node keeps a connection to each other one.
	Packets net.PacketConn
	// Name is the node's display name, which other nodes see.
	Name string
	// Authority is the directory in which this node would keep the cluster's authority if another
	// node entrusts it (Network.Promote). Default "": it refuses.
	Authority string
	// KnownAddrs are the addresses of nodes from an earlier run. They are hints for the first
	// minutes, while discovery has found nothing yet.
	KnownAddrs map[community.NodeID]netip.AddrPort
	// Limits bounds what other nodes can make this one do.
	Limits Limits
	// Dial opens the connection to an address. It may be called concurrently. Default: TCP.
	Dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	// DialURL opens a connection by the URL of a candidate, as Dial does by its address. Default: it is an error.
	DialURL func(ctx context.Context, url string) (net.Conn, error)
	// Report receives the events of connections. It is called from many goroutines, but not
	// concurrently for one candidate, and must not block. Default: events are dropped.
	Report func(Event)
	// Clock measures the silence of other nodes. The zero Clock is the machine's.
	Clock awake.Clock
	// Logger receives what an operator wants to know. Default: silent.
	Logger *slog.Logger
}

// These constants implement community/design/failures.md:
// changing one changes a promise.
const (
	// heartbeat is how often Watch sends a sign of life, and silenceTimeout after how long without
	// one a link ends: three missed ones, which is the 3 s that the architecture promises.
	heartbeat      = time.Second
	silenceTimeout = 3 * heartbeat // three missed

	connectTimeout   = 2 * time.Second // TCP: long enough for a second SYN
	handshakeTimeout = 5 * time.Second
	drainTime        = time.Second
	// keepaliveTimeout is for the answer to a ping on a connection that is idle while others fill a slow link;
	// silence ends a link whose node is gone much earlier.
	keepaliveTimeout = 10 * time.Second

	// streamWindow and connWindow are the HTTP/2 windows: how many bytes may arrive before they are
	// read. With gRPC's default estimator a short call took half as long again, because it sends a
	// ping per message while little happens, and one stream could hold 16 MiB.
	streamWindow = 1 << 20
	connWindow   = 4 << 20
)

// fill replaces zero values with the defaults that the fields document.
func (c *Config) fill() {
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr.String())
		}
	}
	if c.DialURL == nil {
		c.DialURL = func(context.Context, string) (net.Conn, error) {
			return nil, errors.New("this node opens no WebSockets")
		}
	}
	if c.Report == nil {
		c.Report = func(Event) {}
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Limits.fill()
}
