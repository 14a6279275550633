package identity

import (
	"crypto/x509"
	"fmt"
	"time"
)

// Certificate returns the certificate that the node presents now, in DER, renewed first if it is
// due and this identity can sign its own. A peer extends an open connection by it.
func (i *Identity) Certificate() ([]byte, error) {
	c, err := i.cred.fresh()
	if err != nil {
		return nil, err
	}
	return c.Leaf.Raw, nil
}

// Extend returns until when an open connection with a peer may stay open, by a newer certificate
// that the peer shows. who is the peer as the handshake has proven it. The certificate must be of
// the same authority, for the same key and in the same role; otherwise the error is ErrWrongNode or
// the time of verification. A copied certificate extends nothing, since the connection has proven the
// key.
func (i *Identity) Extend(who Peer, der []byte) (time.Time, error) {
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return time.Time{}, fmt.Errorf("the newer certificate of node %s: %w", who.ID, err)
	}
	p, err := i.cred.authority.verify(leaf, time.Now())
	if err == nil && p != who {
		err = ErrWrongNode
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("the newer certificate of node %s: %w", who.ID, err)
	}
	return leaf.NotAfter, nil
}

// Lapsed reports whether a connection whose certificate is valid until end has to be closed at now.
// It allows for clocks that differ by up to skew, as verify does.
func Lapsed(end, now time.Time) bool { return now.After(end.Add(skew)) }
