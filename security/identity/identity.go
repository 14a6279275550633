package identity

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"sync"
	"time"
)

// roleNode is the only role until clusters give others.
const roleNode = "node"

// Identity is a node's key with a certificate that is kept fresh.
type Identity struct {
	key       *Key
	authority *Authority
	roots     *x509.CertPool

	mu      sync.Mutex
	current *tls.Certificate // guarded by mu
}

// Issue gives the node of key k an identity under this authority: a certificate for 7 days that is
// issued again at half its life whenever a connection needs it, so that a node may run for ever.
func (a *Authority) Issue(k *Key) (*Identity, error) {
	if a == nil || k == nil || k.private == nil {
		return nil, errors.New("issue an identity: no key or no authority")
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	i := &Identity{key: k, authority: a, roots: roots}
	if _, err := i.fresh(); err != nil {
		return nil, err
	}
	return i, nil
}

// ID is the node's id.
func (i *Identity) ID() NodeID { return i.key.id }

// Authority is the name of who vouches for the node.
func (i *Identity) Authority() string { return i.authority.name }

// Tag is the authority's tag; see Authority.Tag.
func (i *Identity) Tag() string { return i.authority.tag }

// NotAfter is when the certificate in use ends, unless it is renewed before.
func (i *Identity) NotAfter() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.current.Leaf.NotAfter
}

func (i *Identity) String() string {
	return "node " + string(i.key.id) + " of authority " + i.authority.name
}

// Format writes the same as String for every verb, so that none shows a key.
func (i *Identity) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, i.String()) }

// LogValue keeps keys out of logs.
func (i *Identity) LogValue() slog.Value { return slog.StringValue(i.String()) }

// fresh returns the certificate to show now.
func (i *Identity) fresh() (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	if c := i.current; c != nil {
		half := c.Leaf.NotBefore.Add(c.Leaf.NotAfter.Sub(c.Leaf.NotBefore) / 2)
		if now.Before(half) && now.After(c.Leaf.NotBefore) { // not before: the clock was set back
			return c, nil
		}
	}
	c, err := i.authority.sign(i.key, roleNode, now)
	if err != nil {
		return nil, err
	}
	i.current = c
	return c, nil
}

// sign makes the certificate of key k. Names come from the authority, never from a request.
func (a *Authority) sign(k *Key, role string, now time.Time) (*tls.Certificate, error) {
	if now.After(a.certificate.NotAfter) {
		return nil, fmt.Errorf("%s ended on %s: make a new one and restart", a, a.certificate.NotAfter.Format(time.DateOnly))
	}
	template := &x509.Certificate{
		SerialNumber: newSerial(),
		Subject:      pkix.Name{CommonName: string(k.id)},
		URIs:         []*url.URL{nodeURI(Peer{ID: k.id, Authority: a.name, Role: role})},
		DNSNames:     []string{dnsName(k.id, a.name), dnsName("", a.name)},
		NotBefore:    now.Add(-skew),
		NotAfter:     now.Add(nodeLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if template.NotAfter.After(a.certificate.NotAfter) {
		template.NotAfter = a.certificate.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, k.private().Public(), a.private())
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of node %s: %w", k.id, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the new certificate of node %s: %w", k.id, err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: k.private(), Leaf: leaf}, nil
}
