package identity

import (
	"crypto/x509"
	"fmt"
	"time"
)

// Certificate is the node's newest certificate, in DER.
func (i *Identity) Certificate() ([]byte, error) {
	c, err := i.fresh()
	if err != nil {
		return nil, err
	}
	return c.Leaf.Raw, nil
}

// Extend says until when a connection that was made with who may stay open, by a newer certificate that it
// shows: one of the same authority for the same key, in the same role. The connection has proven the key.
func (i *Identity) Extend(who Peer, der []byte) (time.Time, error) {
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return time.Time{}, fmt.Errorf("the newer certificate of node %s: %w", who.ID, err)
	}
	p, err := i.authority.verify(leaf, time.Now())
	if err == nil && p != who {
		err = ErrWrongNode
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("the newer certificate of node %s: %w", who.ID, err)
	}
	return leaf.NotAfter, nil
}

// Lapsed reports whether a connection whose certificate is good until end has to be closed: the tolerance
// for clocks that are somewhat wrong is over too.
func Lapsed(end, now time.Time) bool { return now.After(end.Add(skew)) }
