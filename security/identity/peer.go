package identity

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Peer is the node at the other end of a connection, as proven by its certificate. Two values are
// equal if id, authority, role and labels are.
type Peer struct {
	ID NodeID
	// Authority is the name of the authority that signed the certificate: Local, or the name of a
	// cluster.
	Authority string
	// Role is the role that the node's token gave it, "node" if it gave none.
	Role string
	// Labels are those that the node's token gave it.
	Labels Labels
}

// uriScheme is the scheme of the URI in a certificate, and the last label of the DNS names in it.
const uriScheme = "symbio"

// PeerOf returns the peer of a connection made with ServerTLS or ClientTLS. It returns ErrNotNode
// for a connection without a verified certificate, or with one that is not a node's.
func PeerOf(s tls.ConnectionState) (Peer, error) {
	if len(s.VerifiedChains) == 0 || len(s.VerifiedChains[0]) == 0 {
		return Peer{}, fmt.Errorf("%w: no verified certificate", ErrNotNode)
	}
	return peerOf(s.VerifiedChains[0][0])
}

// peerOf returns the node that a certificate names, ErrNotNode if its only URI is not
// symbio://authority/role/id, if the id is not the hash of its key, or if an organizational unit is no label. The caller has verified the
// signature.
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
	if p.Labels, err = ParseLabels(leaf.Subject.OrganizationalUnit); err != nil {
		return Peer{}, fmt.Errorf("%w: its certificate: %w", ErrNotNode, err)
	}
	return p, nil
}

// nodeURI returns the URI by which a certificate names the node.
func nodeURI(p Peer) *url.URL {
	return &url.URL{Scheme: uriScheme, Host: p.Authority, Path: "/" + p.Role + "/" + string(p.ID)}
}

// parseURI reads symbio://AUTHORITY/ROLE/ID. Anything beside these three parts, such as a port, a
// query or an escaped letter, is an error, so that a node has one spelling only.
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

// dnsName returns the DNS name that a dialler expects in the certificate: ID.AUTHORITY.symbio, or
// any.AUTHORITY.symbio if any node of the authority will do. crypto/tls compares it. It is never
// looked up in the DNS.
func dnsName(id NodeID, authority string) string {
	id = cmp.Or(id, "any")
	return string(id) + "." + authority + "." + uriScheme
}

// label reports whether s can stand in a URI and in a DNS name unchanged: 1 to 63 lower-case
// letters, digits and hyphens, no hyphen at an end (RFC 1035, 2.3.1).
func label(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool { return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') })
}
