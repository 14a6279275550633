// Package grpcpeer carries a community to other nodes: it serves and calls the gRPC service
// symbio.v1.Peer over mutual TLS 1.3, and is the community.Network of real use.
//
// The one idea: a connection is one TLS connection to one proven node, and everything that came over
// it ends with it. Network dials whoever discovery hints at, lets the certificate say who answered,
// opens that node's lease, and hands the lease what the node's Watch stream says, until the stream
// breaks, is silent for 3 s, or says goodbye. A new connection is a new lease.
//
// Calls go over two Link streams of that connection, one for short and one for long messages, when the
// node speaks version 1.1: a call that is alone is sent at once, and what waits while a message is
// being sent goes together in the next. A lane that ends fails its calls and ends the connection. To
// older nodes, and when a call's envelope is too large for a lane, a call is an Invoke of its own.
//
// Guarantees: at most one outgoing connection per node identity. Events of one node reach its lease in
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
// It does not decide what a proven peer may do (that is community.Host), find nodes (discovery), or
// call a node back over the connection that the node opened.
package grpcpeer
