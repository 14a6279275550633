package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Peer is who is at the other end of a connection, as proven by its certificate.
type Peer struct {
	ID NodeID
	// Authority is the name of who vouches for it.
	Authority string
	Role      string
}

const uriScheme = "symbio"

// PeerOf says who is at the other end of a connection made with ServerTLS or ClientTLS. A connection
// without a verified certificate, or with one that is not a node's, is an error.
func PeerOf(s tls.ConnectionState) (Peer, error) {
	if len(s.VerifiedChains) == 0 || len(s.VerifiedChains[0]) == 0 {
		return Peer{}, fmt.Errorf("%w: no verified certificate", ErrNotNode)
	}
	return peerOf(s.VerifiedChains[0][0])
}

func peerOf(leaf *x509.Certificate) (Peer, error) {
	if len(leaf.URIs) != 1 {
		return Peer{}, fmt.Errorf("%w: its certificate has %d URIs, a node's has one", ErrNotNode, len(leaf.URIs))
	}
	p, err := parseURI(leaf.URIs[0])
	if err != nil {
		return Peer{}, fmt.Errorf("%w: %w", ErrNotNode, err)
	}
	if id := idOf(leaf.RawSubjectPublicKeyInfo); id != p.ID {
		return Peer{}, fmt.Errorf("%w: its certificate is for %s, its key is of %s", ErrNotNode, p.ID, id)
	}
	return p, nil
}

func nodeURI(p Peer) *url.URL {
	return &url.URL{Scheme: uriScheme, Host: p.Authority, Path: "/" + p.Role + "/" + string(p.ID)}
}

// parseURI reads symbio://<authority>/<role>/<id>, and nothing that is only nearly so.
func parseURI(u *url.URL) (Peer, error) {
	parts := strings.Split(u.Path, "/")
	if u.Scheme != uriScheme || len(parts) != 3 || parts[0] != "" {
		return Peer{}, errors.New("its URI is not symbio://authority/role/id")
	}
	id, err := ParseNodeID(parts[2])
	if err != nil {
		return Peer{}, err
	}
	p := Peer{ID: id, Authority: u.Host, Role: parts[1]}
	if !label(p.Authority) || !label(p.Role) {
		return Peer{}, errors.New("its URI has an authority or a role that is no plain lower-case name")
	}
	if *u != *nodeURI(p) { // a user, a query, a fragment, an escape
		return Peer{}, errors.New("its URI has more than an authority, a role and an id")
	}
	return p, nil
}

// dnsName is the name by which a dialler expects node id, or any node when id is "".
func dnsName(id NodeID, authority string) string {
	if id == "" {
		id = "any"
	}
	return string(id) + "." + authority + "." + uriScheme
}

// label reports whether s can stand in a URI and a DNS name as it is.
func label(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
