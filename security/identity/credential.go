package identity

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"symbio/internal/security/private"
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
	// old is the last certificate of an authority that was replaced, on a machine that holds the new one: nodes that know
	// only the old one accept it. Guarded by mu.
	old *tls.Certificate
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

// dir returns the directory of the member file, "" if there is none.
func (c *credential) dir() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == "" {
		return ""
	}
	return filepath.Dir(c.file)
}

// fresh returns the certificate to present now, renewed first if its key is here and half its
// life is over, or its authority was replaced. A member whose certificate has ended still presents it, so that the other side
// can name the reason in its error.
func (c *credential) fresh() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	issuer := c.authority.all().issuer()
	if c.current != nil && (!issuer.canSign() || c.file != "" || !aged(c.current.Leaf, now) && issuer.certified(c.current.Leaf)) {
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
	issuer := c.authority.all().issuer()
	replaced := issuer.certified(leaf) && !issuer.certified(c.current.Leaf)
	if p != c.as || !replaced && !leaf.NotAfter.After(c.current.Leaf.NotAfter) {
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

// oldStart begins the names of the files with last certificates of an old authority; the node's id follows.
const oldStart = "old-"

// keepOld makes the last certificate of the old authority, whose key is here, and stores it in dir. It is good for as long as a
// certificate of the old authority may be renewed. One that is there stays.
func (c *credential) keepOld(old *Authority, dir string) error {
	c.openOld(dir)
	c.mu.Lock()
	there := c.old != nil && old.certified(c.old.Leaf)
	c.mu.Unlock()
	if there || !old.canSign() {
		return nil
	}
	leaf, err := old.certifyAs(c.as, c.key.public(), time.Now(), nodeLife+LateRenewal)
	if err != nil {
		return err
	}
	data := pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: leaf.Raw})
	if err := private.Replace(filepath.Join(dir, oldStart+string(c.key.id)+".pem"), data); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.old = withKey(c.key, leaf)
	return nil
}

// openOld reads what keepOld has stored. Without it, or if it is damaged, nodes that were off have to join again.
func (c *credential) openOld(dir string) {
	data, err := readSecret(filepath.Join(dir, oldStart+string(c.key.id)+".pem"))
	block, _ := pem.Decode(data)
	if err != nil || block == nil {
		return
	}
	if leaf, err := x509.ParseCertificate(block.Bytes); err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.old = withKey(c.key, leaf)
	}
}

// forServer returns the certificate for a node that dials this one: the old one unless it says that it trusts the new
// authority.
func (c *credential) forServer(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	newest, err := c.fresh()
	if old := c.lasting(newest); old != nil && !slices.Contains(hello.SupportedProtos, lineage{c.authority.all().issuer()}.protocol()) {
		return old, nil
	}
	return newest, err
}

// forClient returns the certificate for a node that this one dials: the old one if it accepts no other.
func (c *credential) forClient(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	newest, err := c.fresh()
	if old := c.lasting(newest); old != nil && request.SupportsCertificate(newest) != nil {
		return old, nil
	}
	return newest, err
}

// lasting returns the certificate of the old authority, nil if there is none or it has ended. newest is the one to show else.
func (c *credential) lasting(newest *tls.Certificate) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.old == nil || newest == nil || time.Now().After(c.old.Leaf.NotAfter) || bytes.Equal(newest.Leaf.RawIssuer, c.old.Leaf.RawIssuer) {
		return nil
	}
	return c.old
}
