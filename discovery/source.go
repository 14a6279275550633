// Package discovery finds addresses at which other nodes may be listening. Sources look for nodes
// (discovery/mdns on the LAN, discovery/dns and discovery/static by configuration); a Roster merges
// what they see into candidates for the transport to dial.
//
// A Sighting is a hint and proves nothing. The certificate of a connection proves which node
// answers, and the connection's heartbeats show that it is alive. So a sighting never closes or
// redirects a connection, and a forged one costs one failed dial.
//
// A Source calls report serially from its Run until its context ends. The Roster calls its
// callbacks serially from its own Run. All memory is bounded: what strangers send cannot make a
// roster grow past its limits.
//
// To add a source, implement Source in a package below this one, and test it with
// discoverytest.TestSource.
//
// This package does not dial, authenticate or detect failures; the transport does.
package discovery

import (
	"context"
	"net/netip"
)

// MaxAddrs is how many addresses a Sighting or a Candidate has at most: enough for a host with several interfaces of
// two families each, few enough that trying them all ends.
const MaxAddrs = 16

// Sighting is what a source saw of one peer. It is a hint and proves nothing: on a LAN anyone can
// send one.
type Sighting struct {
	// Source is the name of the source that saw it.
	Source string
	// Key names the peer within its source: the claimed node id where there is one, otherwise what
	// was configured.
	Key string
	// Node is the claimed node id; "" when the source cannot know it (a host and a port in a configuration).
	Node string
	// Tag is the claimed cluster tag; "" when the source cannot know it.
	Tag string
	// Protocol is the claimed range of protocol versions ("1", "1-2"); "" when the source cannot know it.
	Protocol string
	// Addrs are where it may be reached, best first, at most MaxAddrs.
	Addrs []netip.AddrPort
	// URL is the address of a WebSocket at which it may be reached (ParseURL), where Addrs has none; else "".
	URL string
	// Gone says that this source no longer sees the peer; Addrs is empty then.
	Gone bool
	// Why says what led to the sighting in one of a few fixed phrases ("announced", "goodbye",
	// "expired"), for logs.
	Why string
}

// Source looks for peers. Its implementations live below this package and pass discoverytest.
type Source interface {
	// Name says what kind of source it is ("mdns", "static"); constant.
	Name() string
	// Run looks until ctx ends, then returns nil, having ended all it started. It calls report serially: once for
	// each peer it finds, again when something about the peer changed, and with Gone when the peer is no longer
	// seen. report may block while its reader is busy. A source that cannot work for the moment keeps trying; an
	// error means that it never will.
	Run(ctx context.Context, report func(Sighting)) error
}

// Reconfirmer is a Source that can check one peer on demand. Reconfirm is called when a dial failed: the source asks
// for the peer again and reports it gone when it does not answer. It returns at once, may be called concurrently, and
// ignores a key it does not know.
type Reconfirmer interface {
	Reconfirm(key string)
}

// Healther is a Source that knows whether it works. Health returns nil while it does, else what was tried, why it
// failed and what to do about it. It may be called concurrently.
type Healther interface {
	Health() error
}
