// Package identity makes and checks the identities of nodes: a node's key, the authority that
// vouches for it, and the TLS configurations that let nothing else through.
//
// The one idea: a node's id is the hash of its public key. A name, an address or a field of a
// message proves no identity; only the certificate of the connection does.
//
// A node's authority is the local one, which each user has on each machine and which means nothing
// elsewhere, or a cluster's. A cluster's authority is made on one machine, and admits a node
// for a token: the joiner knows by the hash in it that it talks to the right cluster, before it
// sends anything; the authority knows by a signature that the joiner has the token, over this
// connection and for this key. A token is good once. Certificates last 7 days and are renewed at
// half of that for the same key. One that has ended is good for its own renewal only, within a
// grace time. A node that is removed is on a signed list that only grows, and that every handshake
// looks at. A node that holds the authority can seal it for another one, which then does the same:
// each redeems the tokens that it made, and what either removes stays removed.
//
// Each run of a node can sign that it goes on; by that two machines with a copy of one key are
// found out.
//
// The text of a certificate is symbio://AUTHORITY/ROLE/ID, and its organizational units are the node's labels. Rules about
// who may do what go by the id, by the role that the token gave (role/NAME, "node" where it gave none), by a label that it
// gave (label/KEY=VALUE), or by the authority "local", which is the name of no cluster.
//
// Guarantees: a key or an authority is made once, however many processes start at the same instant,
// and a file that exists is never overwritten. Connections are mutual TLS 1.3 without session
// resumption. A certificate is reissued at half its life while the node runs. Everything here may
// be used from many goroutines, and nothing here prints a private key.
//
// It does not carry joins, renewals and lists between nodes (transport/grpcpeer does), and does not
// decide what a proven peer may do.
package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// NodeID names a node: the first 16 bytes of SHA-256 over its public key (SubjectPublicKeyInfo),
// as 32 lower-case hex digits.
type NodeID string

const idBytes = 16

// ParseNodeID returns s as a NodeID, or an error unless s is 32 lower-case hex digits.
func ParseNodeID(s string) (NodeID, error) {
	if len(s) != 2*idBytes {
		return "", fmt.Errorf("a node id has %d hex digits, this has %d bytes", 2*idBytes, len(s))
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", fmt.Errorf("a node id has lower-case hex digits only, this has %q", c)
		}
	}
	return NodeID(s), nil
}

func idOf(spki []byte) NodeID {
	sum := sha256.Sum256(spki)
	return NodeID(hex.EncodeToString(sum[:idBytes]))
}
