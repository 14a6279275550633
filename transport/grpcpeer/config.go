package grpcpeer

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// version is one of the protocol between nodes. Nodes of different major versions do not call each other.
type version struct{ major, minor uint32 }

// protocol is this program's version.
var protocol = version{1, 2}

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
	// Report receives the events of connections. It is called from many goroutines, but not
	// concurrently for one candidate, and must not block. Default: events are dropped.
	Report func(Event)
	// Logger receives what an operator wants to know. Default: silent.
	Logger *slog.Logger
}

// Limits bounds what other nodes can make this one do. Zero fields have their defaults.
type Limits struct {
	// Message is the largest payload in bytes, in each direction. Default 1 MiB: larger data
	// belongs in a file or a stream, and Message times Streams bounds the memory that calls hold.
	Message int
	// Header is the largest size of a call's headers, in bytes. Default 64 KiB.
	Header uint32
	// Streams is how many calls one connection may have in progress here. Those with a stream of
	// their own wait at the caller beyond it, those over Link get ErrBusy. Default 128: twice what
	// a community admits from one node, so that the community, which explains its refusals, refuses
	// first.
	Streams uint32
	// Calls is how many calls this node may have in progress to one other node; further ones get
	// ErrBusy. A canceled call counts until the node has answered it. Default 120: below the other
	// side's Streams, so that no call waits there unnoticed.
	Calls int
	// Connections is how many incoming connections may be open, verified or not. Default 256.
	Connections int
	// PerNode is how many incoming connections one node may have. Default 4: one, and a few old
	// ones whose end was not noticed yet.
	PerNode int
	// Handshakes is how many TLS handshakes may be in progress. Default 32.
	Handshakes int
	// HandshakeRate is how many failed handshakes per second one IP address may have in the long
	// run; further connections from it are refused. Default 5. HandshakeBurst is how many it may
	// have at once, unfinished ones included. Default 20: as many nodes as start together on one
	// machine.
	HandshakeRate  float64
	HandshakeBurst int
	// Joins is how many attempts to join one IP address may make per minute. Default 10: a person
	// pastes a line; anything faster is a script.
	Joins int
	// Grace is how long after its end a certificate can still be renewed here, if this node holds
	// the authority. Default identity.Grace.
	Grace time.Duration
	// Candidates is how many hinted nodes are kept. Default 4096, like discovery's limit.
	Candidates int
	// Dials is how many candidates may be dialed at the same time, separately for those never
	// reached, those connected before, and those only introduced; 16 times as many for configured
	// ones, so that 300 dead ones do not delay the living one for long. Default 8.
	Dials int
	// Deadline is the timeout of calls whose caller set none; a community sets one for all of them.
	// Default 2 min.
	Deadline time.Duration
	// MaxDeadline ends a call from another node whatever timeout its caller asked for. Default 30
	// min: the longest that a task should take.
	MaxDeadline time.Duration
}

// These constants implement the failure table of the architecture:
// changing one changes a promise.
const (
	// heartbeat is how often Watch sends a sign of life, and silenceTimeout after how long without
	// one a link ends: three missed ones, which is the 3 s that the architecture promises.
	heartbeat      = time.Second
	silenceTimeout = 3 * heartbeat // three missed

	firstBackOff = 100 * time.Millisecond
	// maxBackOff leaves a second to connect within the 5 s in which a healed partition is whole.
	maxBackOff = 4 * time.Second
	// maxUnprovenBackOff is for a candidate that was never reached and that only mDNS names (security: any machine
	// of the LAN may claim anything there). A new announcement ends it.
	maxUnprovenBackOff = 5 * time.Minute
	// maxIntroducedBackOff is for a candidate that was never reached and that only other nodes name: its address
	// may be one that only they can reach.
	maxIntroducedBackOff = 10 * time.Minute
	// goodbyePause is how long a node that said goodbye is not dialed. It may be starting again: within the
	// second that a goodbye of mDNS takes, only a dial tells.
	goodbyePause = 500 * time.Millisecond
	// refusedPause is how long a node that answered wrongly is not dialed, unless its address changes. For an
	// unproven candidate the pauses double up to maxRefusedPause.
	refusedPause    = 30 * time.Second
	maxRefusedPause = time.Hour
	// goneDials is how many dials a node that was connected and is announced as gone still gets: a forged
	// goodbye must not part two nodes whose connection broke just then.
	goneDials = 10

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

	maxCatalog = 8 << 20  // bytes of one event of a Watch stream
	maxMembers = 16 << 10 // announced by one node at a time; a community keeps fewer and logs that
	maxWatches = 2        // Watch streams of one connection: the node's own, and one to look at it by hand
)

// fill replaces zero values with the defaults that the fields document.
func (c *Config) fill() {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr.String())
		}
	}
	if c.Report == nil {
		c.Report = func(Event) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	l := &c.Limits
	orDefault(&l.Message, 1<<20)
	orDefault(&l.Header, 64<<10)
	orDefault(&l.Streams, 128)
	orDefault(&l.Calls, 120)
	orDefault(&l.Connections, 256)
	orDefault(&l.PerNode, 4)
	orDefault(&l.Handshakes, 32)
	orDefault(&l.HandshakeRate, 5)
	orDefault(&l.HandshakeBurst, 20)
	orDefault(&l.Joins, 10)
	orDefault(&l.Grace, identity.Grace)
	orDefault(&l.Candidates, 4096)
	orDefault(&l.Dials, 8)
	orDefault(&l.Deadline, 2*time.Minute)
	orDefault(&l.MaxDeadline, 30*time.Minute)
}

// orDefault sets *n to value unless it is positive.
func orDefault[N int | uint32 | float64 | time.Duration](n *N, value N) {
	if *n <= 0 {
		*n = value
	}
}
