// Package websocket carries the connections between nodes through WebSockets, for networks where HTTP/1.1 gets through
// and other TCP does not: a proxy that ends TLS (nginx), a firewall, a forward proxy.
//
// A WebSocket carries bytes, as TCP does, in binary messages whose borders mean nothing. Inside of them the two nodes
// make the same TLS 1.3 handshake with the certificates of both as they make over TCP, and package grpcpeer speaks the
// same protocol: a Listener and a Dialer only replace those of TCP. So a proxy sees ciphertext, can break the connection
// and count its bytes, and can pass for neither node. TLS outside of that (wss) is between the node and the proxy.
//
// A connection is opened by Dialer.Dial and accepted by Listener.Accept. It may be read by one goroutine and written by
// another, closes at once, without the closing handshake of WebSockets, and is unusable after a deadline has passed.
package websocket
