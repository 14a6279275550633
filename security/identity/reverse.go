package identity

import "crypto/tls"

// TLS protocols (ALPN) of connections that are not for calls of the node that dialed. Each side proves its identity exactly as
// on any other connection.
const (
	// ReverseProtocol is of a reversed connection: the node that dials it serves calls over it.
	ReverseProtocol = "symbio-reverse/1"
	// GossipProtocol is of the streams by which nodes tell each other about all nodes.
	GossipProtocol = "symbio-gossip/1"
)

// ProtocolServerTLS is ServerTLS for connections of another protocol.
func (i *Identity) ProtocolServerTLS(protocol string) *tls.Config {
	return handshake{i, protocol}.server()
}

// ProtocolClientTLS is ClientTLS for a connection of another protocol.
func (i *Identity) ProtocolClientTLS(protocol string, expect NodeID) *tls.Config {
	return handshake{i, protocol}.client(expect)
}
