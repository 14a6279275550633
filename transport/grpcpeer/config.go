package grpcpeer

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"symbio/security/identity"
)

// Version of the protocol between nodes. Nodes of another major version do not call each other.
type Version struct{ Major, Minor uint32 }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Config sets up a Network. Only Identity is required.
type Config struct {
	// Identity is who this node is, and whom it trusts.
	Identity *identity.Identity
	// Listen is the address to serve on. Default 127.0.0.1:0. Any other than a loopback address is
	// an error unless a cluster vouches for the identity.
	Listen string
	// Listener is used instead of Listen when it is not nil; Run closes it.
	Listener net.Listener
	// Name is the node's name for people; other nodes see it.
	Name string
	// Protocol is this node's version. Default 1.2; with 1.1 it makes no use of InvokeStream,
	// with 1.0 none of Link either.
	Protocol Version
	// Authority is the directory for the cluster's authority, should a node that holds it give it to this
	// one. Default: this node takes none.
	Authority string
	// Limits bound what other nodes can make this one do.
	Limits Limits
	// Dial opens the connection to an address. Default: TCP.
	Dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	// Report is told of what happens to connections. It is called from many goroutines, one at a
	// time per candidate, and must not block. Default: nobody is told.
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
	// or two that nobody has noticed the end of.
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
	// Candidates is how many hints of nodes are kept. Default 4096, as discovery does.
	Candidates int
	// Dials is how many of them are dialled at once, and as many again that were connected before, and
	// that were only introduced. Default 8.
	Dials int
	// Deadline is for calls whose caller gave none; a community gives all of them one. Default 2 min.
	Deadline time.Duration
	// MaxDeadline ends a call from another node whatever its caller wants. Default 30 min: the
	// longest a task is meant to take.
	MaxDeadline time.Duration
}

// What the failure table of the architecture rests on; changing one changes a promise.
const (
	heartbeat = time.Second
	silence   = 3 * heartbeat // three missed

	firstBackOff = 100 * time.Millisecond
	// maxBackOff leaves a second to connect within the 5 s in which a healed partition is whole.
	maxBackOff = 4 * time.Second
	// strangerBackOff is the longest pause for somebody who was never reached and whom only mDNS speaks of
	// (security: anybody on the LAN may claim anything there); a new announcement ends it.
	strangerBackOff = 5 * time.Minute
	// hearsayBackOff is the longest pause for somebody of whom only others say that it is there, and at whose
	// address nobody has ever answered: it may be one that only they can reach.
	hearsayBackOff = 10 * time.Minute
	// farewellPause is how long a node that said goodbye is left alone. It may be starting again: within
	// the second that a goodbye of mDNS takes, nothing but a dial tells.
	farewellPause = 500 * time.Millisecond
	// refusedPause is how long a node that answered wrongly is left alone, unless its address changes.
	refusedPause = 30 * time.Second
	// maxRefusedPause is for a stranger who goes on answering wrongly; the pauses double up to it.
	maxRefusedPause = time.Hour
	// farewells is how many dials a node that was connected and is announced as gone still gets: a
	// forged goodbye must not part two nodes whose connection broke just then.
	farewells = 10

	connectTimeout   = 2 * time.Second // TCP: long enough for a second SYN
	handshakeTimeout = 5 * time.Second
	drainTime        = time.Second

	// What may come in before it is read. Without them gRPC looks for the best by pinging, for each
	// message while little goes on, which makes a short call take half as long again, and lets one
	// stream hold 16 MiB.
	streamWindow = 1 << 20
	connWindow   = 4 << 20

	envelopeRoom = 64 << 10 // what a request may have besides its payload
	catalogSize  = 8 << 20  // one event of a Watch stream
	maxAnnounced = 4096     // members that one node has at a time; a community keeps fewer
	maxWatches   = 2        // Watch streams of one connection: the one, and one of somebody who looks
)

func (c *Config) fill() {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Protocol == (Version{}) {
		c.Protocol = Version{Major: 1, Minor: streamMinor}
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
