// Package grpcpeertest is a LAN in memory, for tests: real networks of package grpcpeer, with mutual
// TLS between them, over connections that a test delays, cuts and breaks.
//
// A LAN is the network, LAN.Join returns a node whose Network a test gives to a community. All time
// is that of package time, so tests run in a testing/synctest bubble: make the LAN inside it, because
// certificates are valid from the time that the bubble has.
package grpcpeertest
