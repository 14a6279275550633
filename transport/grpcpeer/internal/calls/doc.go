// Package calls carries calls over one connection between two nodes, in both directions.
//
// A Client sends calls over two Link streams of its connection, one for short and one for long messages: a call
// that is alone is sent at once, and calls that wait while a message is being sent go together in the next. A
// call whose caller listens is an InvokeStream of its own: HTTP/2's windows make its provider wait for a slow
// listener, and delay no other call. A Server answers both, and Invoke, which foreign clients use.
//
// Guarantees: a call ends with a reply, an error of package community, or its context's error; it is sent at
// most once. The end of one lane ends the calls of both. The size of a payload is checked once on each side,
// where it leaves or enters: Client.measure and Client.reply, Server.serve. A frame has limits that hold before
// its entries are allocated (codec).
//
// It does not decide who may call what (community.Host), nor open or prove connections (package grpcpeer).
package calls
