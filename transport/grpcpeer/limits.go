package grpcpeer

import (
	"time"

	"symbio/security/identity"
)

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
	// Calls is how many calls this node may have in progress to one other node. Further ones wait here for their turn, up to
	// their deadline; those with a stream of their own get ErrBusy, since they may last long. A canceled call counts until the
	// node has answered it. Default 120: below the other side's Streams, so that no call waits there unnoticed.
	Calls int
	// Connections is how many incoming connections may be open, verified or not. Default 256.
	Connections int
	// PerNode is how many incoming connections one node may have. Default 4: one, and a few old
	// ones whose end was not noticed yet.
	PerNode int
	// Handshakes is how many TLS handshakes may be in progress. Default 32.
	Handshakes int
	// HandshakeBurst is how many failed handshakes one IP address may have at once, unfinished ones
	// included, before handshakeRate applies. Default 20: as many nodes as start together on one
	// machine.
	HandshakeBurst int
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

const (
	// handshakeRate is how many failed handshakes per second one IP address may have in the long
	// run; further connections from it are refused. A program that does its part fails once and waits.
	handshakeRate = 5
	// joinsPerMinute is how often one IP address may try to join the cluster: a person pastes a line;
	// anything faster is a script.
	joinsPerMinute = 10

	maxCatalog = 8 << 20  // bytes of one event of a Watch stream
	maxMembers = 16 << 10 // announced by one node at a time; a community keeps fewer and logs that
	maxWatches = 2        // Watch streams of one connection: the node's own, and one to look at it by hand
)

// fill replaces zero values with the defaults that the fields document.
func (l *Limits) fill() {
	orDefault(&l.Message, 1<<20)
	orDefault(&l.Header, 64<<10)
	orDefault(&l.Streams, 128)
	orDefault(&l.Calls, 120)
	orDefault(&l.Connections, 256)
	orDefault(&l.PerNode, 4)
	orDefault(&l.Handshakes, 32)
	orDefault(&l.HandshakeBurst, 20)
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
