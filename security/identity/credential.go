package identity

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// credential is a key with the current certificate for it. It is safe for concurrent use.
type credential struct {
	key       *Key
	authority *Authority
	as        Peer // what its certificates say

	mu      sync.Mutex
	current *tls.Certificate // guarded by mu
	// file is the member file, where replace stores the certificate; "" for an identity made by Issue. Guarded by mu.
	file string
}

// isStored reports whether others renew the certificate, and a member file has it.
func (c *credential) isStored() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.file != ""
}

// leaf returns the current certificate as it is.
func (c *credential) leaf() *x509.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.Leaf
}

// fresh returns the certificate to present now, renewed first if its key is here and half its
// life is over. A member whose certificate has ended still presents it, so that the other side
// can name the reason in its error.
func (c *credential) fresh() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.current != nil && (!c.authority.canSign() || !aged(c.current.Leaf, now)) {
		return c.current, nil
	}
	leaf, err := c.authority.certify(c.key.public(), c.as, now)
	if err != nil {
		return nil, err
	}
	c.current = withKey(c.key, leaf)
	return c.current, nil
}

// replace uses the next certificate from now on, and stores it. It returns an error, and changes
// nothing, if the certificate is not the next one of this node.
func (c *credential) replace(p Peer, leaf *x509.Certificate) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p != c.as || !leaf.NotAfter.After(c.current.Leaf.NotAfter) {
		return fmt.Errorf("the new certificate: %w: it is not the next one of this node", ErrNotNode)
	}
	c.current = withKey(c.key, leaf)
	if c.file == "" {
		return nil
	}
	return saveMember(filepath.Dir(c.file), leaf, c.authority)
}

// withKey returns a certificate of k's node as crypto/tls needs it.
func withKey(k *Key, leaf *x509.Certificate) *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: k.private(), Leaf: leaf}
}

// aged reports whether a certificate has passed half its life, or the clock was set back to
// before it began.
func aged(leaf *x509.Certificate, now time.Time) bool {
	half := leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2)
	return !now.Before(half) || !now.After(leaf.NotBefore)
}
