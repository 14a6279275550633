// Package grpcpeer carries a community to other nodes: it serves and calls the gRPC service
// symbio.v1.Peer over mutual TLS 1.3, and is the community.Network of real use.
//
// The one idea: a connection is one TLS connection to one proven node, and everything that came over
// it ends with it. Network dials whoever discovery hints at, lets the certificate say who answered,
// opens that node's lease, and hands the lease what the node's Watch stream says, until the stream
// breaks, is silent for 3 s, or says goodbye. A new connection is a new lease.
//
// Calls go over two Link streams of that connection, one for short and one for long messages (internal/calls). A call
// whose caller listens is an InvokeStream of its own. A Link stream that ends fails its calls and ends the connection.
// A node of another major version of the protocol is listed as incompatible and not called.
//
// A Network is made of parts with one subject each: candidates (which nodes to pursue), dialer, links (the table of
// connections), renewal (certificates and removals), reverser (connections over which this node is called), twins, and
// server (Describe, Watch, and the calls of other nodes); local is what they share.
//
// Guarantees: at most one connection per node identity on which this node calls. Events of one node reach its lease in
// order and from one goroutine, and none after its end. A call ends with a reply, an error of package
// community, or its context's error, never later than its deadline, and within 100 ms of a broken
// connection; it is sent at most once. Every method may be called from many goroutines.
//
// Nodes of a cluster also join and renew here: a connection that says so in its ALPN comes without a
// certificate, and is handed to a server that knows the service Join and nothing else. Lists of removed
// nodes travel on Describe and Watch; the connections of a node that is on one are closed at once. A node
// that holds the cluster's authority can give it to another one (Promote). A connection is closed when a
// certificate that it rests on has ended; nodes show their newer ones over the connections that are open.
//
// What is over a limit is refused at once, told to the other side where TLS or gRPC can, and counted
// (Refusals).
//
// A node that can only dial out is called all the same: it opens a second connection to the node that
// says that it cannot call it, both prove who they are as on any other, and then who accepted it calls
// and who opened it serves. And nodes introduce each other: Watch tells of the nodes that one has dialled
// and is linked with, and Introduced hands that to discovery, as hints and no more.
//
// It does not decide what a proven peer may do (that is community.Host), find nodes (discovery), or carry
// calls between two nodes that can both only dial out.
package grpcpeer
