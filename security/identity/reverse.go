package identity

import "crypto/tls"

// ReverseProtocol is the TLS protocol (ALPN) of a reversed connection: the node that dials it
// serves calls over it. Each side proves its identity exactly as on any other connection.
const ReverseProtocol = "symbio-reverse/1"

// ReverseServerTLS is ServerTLS for the node that a reversed connection is offered to.
func (i *Identity) ReverseServerTLS() *tls.Config { return handshake{i, ReverseProtocol}.server() }

// ReverseClientTLS is ClientTLS for the node that offers node expect to be called over the
// connection.
func (i *Identity) ReverseClientTLS(expect NodeID) *tls.Config {
	return handshake{i, ReverseProtocol}.client(expect)
}
