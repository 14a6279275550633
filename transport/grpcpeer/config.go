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
	// Identity is this node's key and certificate, and the authorities that it trusts.
	Identity *identity.Identity
	// Listen is the address to serve on. Default 127.0.0.1:0. Any other than a loopback address is
	// an error unless a cluster vouches for the identity.
	Listen string
	// Listener is used instead of Listen when it is not nil; Run closes it.
	Listener net.Listener
	// Name is the node's name for people; other nodes see it.
	Name string
	// Authority is the directory for the cluster's authority, should a node that holds it give it to this
	// one. Default: this node takes none.
	Authority string
	// Met is where nodes could be dialled in an earlier run: hints for the first minutes.
	KnownAddrs map[community.NodeID]netip.AddrPort
	// Limits bound what other nodes can make this one do.
	Limits Limits
	// Dial opens the connection to an address. Default: TCP.
	Dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	// Report is told of what happens to connections. It is called from many goroutines, one at a
	// time per candidate, and must not block. Default: no reports.
	Report func(Event)
	// Logger receives what a person would want to know. Default: silent.
	Logger *slog.Logger
}

// Limits bound what other nodes can make this one do. Zero fields have their defaults.
type Limits struct {
	// Message is the size of a payload, in bytes, in each direction. Default 1 MiB: more belongs in a
	// file or a stream, and it bounds what Streams calls hold in memory together.
	Message int
	// Header is the size of the headers of a call. Default 64 KiB.
	Header uint32
	// Streams is how many calls one connection may have open here, each in a stream of its own, in
	// which case more wait at the caller, or all over Link, in which case more are ErrBusy. Default
	// 128: twice the calls a community admits from one node, so that it, not gRPC, says busy.
	Streams uint32
	// Calls is how many calls this node has open to another one; more are refused with ErrBusy. A call
	// that was given up counts until the node has answered it.
	// Default 120: below the other side's Streams, so that nothing waits there unseen.
	Calls int
	// Connections is how many connections are open here, proven or not. Default 256.
	Connections int
	// PerNode is how many of them one identity may have. Default 4: a node has one, and an old one
	// or two whose end was not noticed yet.
	PerNode int
	// Handshakes is how many connections may be proving themselves at once. Default 32.
	Handshakes int
	// HandshakeRate is how many connections of one address may fail to prove themselves in a second, in the
	// long run, before those that come from there are refused. Default 5. HandshakeBurst is how many may at
	// once, or may be about to. Default 20: as many nodes as start together on one machine.
	HandshakeRate  float64
	HandshakeBurst int
	// Joins is how many tries to join one address may make in a minute. Default 10: a person pastes a line;
	// whatever is faster is not a person.
	Joins int
	// Grace is how long after its end a certificate is renewed here, where the authority is. Default identity.Grace.
	Grace time.Duration
	// Candidates is how many hints of nodes are kept. Default 4096, as discovery does.
	Candidates int
	// Dials is how many of them are dialled at once, and as many again that were connected before, and
	// that were only introduced; 16 times as many of those that the configuration names, so that 300 dead ones do
	// not delay the living one for long. Default 8.
	Dials int
	// Deadline is for calls whose caller gave none; a community gives all of them one. Default 2 min.
	Deadline time.Duration
	// MaxDeadline ends a call from another node whatever its caller wants. Default 30 min: the
	// longest a task is meant to take.
	MaxDeadline time.Duration
}

// What the failure table of the architecture rests on; changing one changes a promise.
const (
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
	// goodbyePause is how long a node that said goodbye is not dialled. It may be starting again: within the
	// second that a goodbye of mDNS takes, only a dial tells.
	goodbyePause = 500 * time.Millisecond
	// refusedPause is how long a node that answered wrongly is not dialled, unless its address changes. For an
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

	// What may come in before it is read. Without them gRPC looks for the best by pinging, for each
	// message while little goes on, which makes a short call take half as long again, and lets one
	// stream hold 16 MiB.
	streamWindow = 1 << 20
	connWindow   = 4 << 20

	maxCatalog = 8 << 20  // bytes of one event of a Watch stream
	maxMembers = 16 << 10 // that one node announces at a time; a community keeps fewer, and says so
	maxWatches = 2        // Watch streams of one connection: the node's own, and one to look at it by hand
)

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

func orDefault[N int | uint32 | float64 | time.Duration](n *N, value N) {
	if *n <= 0 {
		*n = value
	}
}
