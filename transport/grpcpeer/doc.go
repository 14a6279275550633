// Package grpcpeer connects the nodes of a community over gRPC and mutual TLS 1.3. It implements
// community.Network. Package grpcpeertest runs it over connections in memory, for tests.
//
// # Use
//
// New binds the listener. Run serves until its context ends; a community calls it. AddHint names an
// address at which a node may be listening; discovery calls it. Everything else (dialing, retries,
// certificates, limits) happens inside. Every method may be called from many goroutines.
//
// # Connections
//
// A link is one TLS connection to one node whose certificate was verified, and there is at most one
// link per node. The link opens a community.Lease for the node. Everything the node announced over
// the connection ends with the connection; a new connection is a new lease. On a link this node calls
// and the other one serves, so two nodes usually have two connections, one in each direction.
//
// In a cluster of more than nine nodes a node is a member without a link as long as gossip hears of it (membership.go, package
// internal/gossip, design note 0066). A call makes the link; 30 s without a call close it (on_demand.go).
//
// # The wire
//
// The service is symbio.v1.Peer in proto/symbio/v1/peer.proto:
//
//   - Describe: identity, name, protocol version, limits. The first call on each connection.
//   - Watch: a stream with the node's catalog, its changes, and a heartbeat per second.
//   - Link: two bidirectional streams per connection carry ordinary calls and one-way sends, one for
//     messages of up to 16 KiB and one for longer ones (package internal/calls).
//   - InvokeStream: one call whose caller receives progress and partial output.
//   - Invoke: one call, for clients in other languages.
//
// The services Join and Trust (join.proto, trust.proto) issue certificates and hand over the cluster's
// authority. ALPN tells the kinds of connection apart: ordinary ones, ones that join without a
// certificate (join_server.go), reversed ones (reverse.go), and streams of gossip. Nodes of different major protocol
// versions (config.go: protocol) list each other as incompatible and do not call each other.
//
// # WebSockets
//
// Config.WebSocket accepts connections that come through a proxy, and Config.DialURL opens them (package
// websocket). They carry the same bytes: all that this page says holds for them. Such a connection has no
// address that others could dial, so its node is not introduced, and is called back over reversed ones.
//
// # Redial
//
// redial.go has one goroutine per hinted node: it dials (dial.go), runs the link until it ends,
// waits, and dials again. The pause starts at 100 ms and doubles up to 4 s. It grows further, to
// minutes, for nodes that were never reached and that only untrusted sources name. A new hint ends
// the pause early. The numbers and their reasons are the constants in redial.go.
//
// # Disconnect
//
// A link ends (link.go: runWatch, endReason) when the connection breaks, when no byte came for 3 s,
// when the node says goodbye, breaks the protocol or is removed from the cluster, or when a
// certificate ends. Calls on the link then fail with community.ErrUnavailable within 100 ms. They are
// never repeated: a call is sent at most once. The lease tells the community, and the candidate's
// goroutine dials again.
//
// # Limits of a peer
//
// Limits in limits.go bounds what other nodes can make this one do: connections, handshakes, calls,
// message sizes, deadlines. They are enforced by limitListener (listen.go), admission (admission.go),
// rateLimiter, and internal/calls. Refused connections and messages are rejected at once, reported to
// the other side where TLS or gRPC allows it, and counted (refusals.go, Network.Refusals).
//
// # Parts of a Network
//
//	membership      the lease of each node, by its link or by gossip
//	candidates      the hinted nodes and the goroutines that connect to them
//	dialer          connects, verifies the certificate, calls Describe
//	links           the table of links
//	renewal         renews certificates; closes connections of removed nodes and ended certificates
//	duplicates      detects two machines that run with the same node key
//	reverser        lets nodes that can only dial out be called over connections that they opened
//	server          serves Describe, Watch and calls
//	joinServer      serves Join to machines without a certificate
//	local           what the parts share
//
// # Guarantees
//
// The events of one node reach its lease in order and from one goroutine, and none after its end. A
// call ends with a reply, an error of package community, or its context's error, and never later than
// its deadline. Hints never close or redirect a connection.
//
// # Adding a transport
//
// Implement community.Network (Run, Invoke, Tell) in a new package below transport, attach a lease per
// connected node with Host.Attach, and hand incoming calls to Host.Serve and Host.ServeTell. The
// suite_*_test.go files here test the contract: suite_test.go shows how to run them over another
// transport. The new transport is chosen where agent/node makes its Network.
//
// # Not done here
//
// Permissions of a verified peer (community.Host), finding nodes (package discovery), and relaying
// calls between two nodes that can both only dial out.
package grpcpeer
