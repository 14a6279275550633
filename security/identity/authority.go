package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"time"
)

// Local is the name of the authority that a user has on each machine for their own nodes.
// Nodes under it trust each other without set-up. Its key never leaves the machine, so no node
// elsewhere can have a certificate of it.
const Local = "local"

const (
	// authorityFile holds the key and then the certificate, both in PEM, mode 0600.
	authorityFile = "authority.pem"
	// authorityLife is long because nothing renews an authority: its key never leaves the machine,
	// or only sealed.
	authorityLife = 10 * 365 * 24 * time.Hour
	// nodeLife is how long a node's certificate lasts; it is renewed at half of that.
	nodeLife = 7 * 24 * time.Hour
	// skew is how far behind another clock may be and still find a new certificate valid.
	skew = 5 * time.Minute
)

// Authority signs the certificates of nodes where its key is, and verifies them everywhere
// else. Its key can change, by a lock, and it can get a successor; many goroutines may use it. Methods are of this one alone
// unless they say otherwise.
type Authority struct {
	// name is Local or the cluster's name, tag the first 8 bytes in hex of the hash of the public key that the cluster's first
	// authority had.
	name string
	tag  string
	// certificate is signed by its own key; tokens and lists name it by its hash.
	certificate *x509.Certificate
	// key is nil where this node only trusts the authority.
	key *signingKey
	// succession is nil as long as there is no successor. It changes until its stage is StageDone.
	succession atomic.Pointer[succession]
}

// OpenLocalAuthority returns the local authority kept in dir, one per user and machine, and
// makes it if there is none: one file with key and certificate, mode 0600. Processes that
// start at the same instant get the same one, since the file can be created only once. A
// damaged or expired file is an error that says what to do.
func OpenLocalAuthority(dir string) (*Authority, error) {
	file := filepath.Join(dir, authorityFile)
	data, err := readOrCreate(file, func() ([]byte, error) { return newAuthority(Local, "") })
	if err != nil {
		return nil, fmt.Errorf("local authority: %w", err)
	}
	a, err := parseAuthority(data)
	if err == nil && a.name != Local {
		err = fmt.Errorf("is of cluster %s", a.name)
	}
	if err != nil {
		return nil, fmt.Errorf("local authority: %s %w; move it away to get a new one, then restart this user's nodes on this machine", file, err)
	}
	return a, nil
}

// Name returns Local, or the cluster's name.
func (a *Authority) Name() string { return a.name }

// Tag returns the first 16 hex digits of SHA-256 over the public key of the cluster's first authority. Those after it have the
// same one. Nodes ignore announcements with another tag. It proves nothing and is no secret.
func (a *Authority) Tag() string { return a.tag }

func (a *Authority) String() string { return "authority " + a.name + " " + a.tag }

// Format writes the same as String for every verb, so that none shows the key.
func (a *Authority) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, a.String()) }

// LogValue keeps the key out of logs.
func (a *Authority) LogValue() slog.Value { return slog.StringValue(a.String()) }

// newAuthority returns a new key and a self-signed certificate as PEM. The key is Ed25519,
// like the keys of nodes: one algorithm to read and check, and its signatures need no randomness,
// which a machine that just started might lack.
//
// The certificate may sign nodes only (path length 0), and a cluster's only names of that
// cluster (name constraints). tag is the tag of the authority before it, "" for the first one.
func newAuthority(name, tag string) ([]byte, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	spki, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          newSerial(),
		Subject:               pkix.Name{CommonName: "symbio " + name + " " + tagOf(spki), SerialNumber: tag},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(authorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true, // it signs nodes, never another authority
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if name != Local {
		template.URIs = []*url.URL{{Scheme: uriScheme, Host: name}}
		template.PermittedDNSDomains = []string{name + "." + uriScheme} // it vouches for its own nodes only
		template.PermittedDNSDomainsCritical = true
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, fmt.Errorf("sign the authority's certificate: %w", err)
	}
	return encodeAuthority(private, der)
}

// encodeAuthority returns the text that parseAuthority reads: the key and the certificate.
func encodeAuthority(private ed25519.PrivateKey, der []byte) ([]byte, error) {
	key, err := encodeKey(private)
	return append(key, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der})...), err
}

// parseAuthority reads the file of an authority. Its errors begin with a verb, as in "ended on
// 2030-01-02", for use behind the file's name.
func parseAuthority(data []byte) (*Authority, error) {
	key, rest, err := takeSigningKey(data)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(rest)
	if block == nil || block.Type != certificateBlock || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("does not hold exactly one key and one certificate")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("holds a broken certificate: %w", err)
	}
	a, err := trust(certificate)
	if err != nil {
		return nil, err
	}
	a.key = key
	private, locked := a.signer()
	switch now := time.Now(); {
	case locked == nil && !private.Public().(ed25519.PublicKey).Equal(certificate.PublicKey):
		return nil, errors.New("holds a certificate that is not of its key")
	case now.After(certificate.NotAfter):
		return nil, fmt.Errorf("ended on %s", certificate.NotAfter.Format(time.DateOnly))
	case now.Before(certificate.NotBefore):
		return nil, fmt.Errorf("begins on %s, and this machine's clock says %s: check the clock",
			certificate.NotBefore.Format(time.RFC3339), now.Format(time.RFC3339))
	}
	return a, nil
}

// trust returns an authority without its key, from its certificate alone. It returns an error
// unless the certificate is an Ed25519 authority that names at most one cluster.
func trust(certificate *x509.Certificate) (*Authority, error) {
	if _, ok := certificate.PublicKey.(ed25519.PublicKey); !ok || !certificate.IsCA {
		return nil, errors.New("holds a certificate that is not of an authority")
	}
	name := Local
	if len(certificate.URIs) > 0 {
		u := certificate.URIs[0]
		name = u.Host
		if len(certificate.URIs) > 1 || *u != (url.URL{Scheme: uriScheme, Host: name}) || !label(name) || name == Local {
			return nil, errors.New("holds a certificate that names no cluster")
		}
	}
	tag := certificate.Subject.SerialNumber
	if _, err := hex.DecodeString(tag); len(tag) != tagSize || err != nil {
		tag = tagOf(certificate.RawSubjectPublicKeyInfo)
	}
	return &Authority{name: name, tag: tag, certificate: certificate}, nil
}

// public returns the authority's key; trust has checked its kind.
func (a *Authority) public() ed25519.PublicKey { return a.certificate.PublicKey.(ed25519.PublicKey) }

// roots returns the pool that certificates are verified against.
func (l lineage) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, a := range l {
		pool.AddCert(a.certificate)
	}
	return pool
}

// hash returns the SHA-256 of the certificate, by which a token names the authority.
func (a *Authority) hash() [sha256.Size]byte { return sha256.Sum256(a.certificate.Raw) }

// certify returns a new certificate for a node's public key, with the role and labels of as, by the authority or its successor.
// The name in it is computed from the key and the authority, never taken from a request. The error says if the key is
// elsewhere or the authority has ended.
func (a *Authority) certify(public ed25519.PublicKey, as Peer, now time.Time) (*x509.Certificate, error) {
	a = a.all().issuer()
	if _, err := a.signer(); err != nil {
		return nil, err
	}
	if now.After(a.certificate.NotAfter) {
		return nil, fmt.Errorf("%s ended on %s: make a new one and restart", a, a.certificate.NotAfter.Format(time.DateOnly))
	}
	spki, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	as.ID, as.Authority = idOf(spki), a.name
	return a.certifyAs(as, public, now, nodeLife)
}

// certifyAs is certify with id and authority given, too, apart so that tests can make false certificates. A
// certificate never outlives its authority.
func (a *Authority) certifyAs(as Peer, public ed25519.PublicKey, now time.Time, life time.Duration) (*x509.Certificate, error) {
	signer, err := a.signer()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: newSerial(),
		Subject:      pkix.Name{CommonName: string(as.ID), OrganizationalUnit: as.Labels.List()},
		URIs:         []*url.URL{nodeURI(as)},
		DNSNames:     []string{dnsName(as.ID, a.name), dnsName("", a.name)},
		NotBefore:    now.Add(-skew),
		NotAfter:     now.Add(life),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if template.NotAfter.After(a.certificate.NotAfter) {
		template.NotAfter = a.certificate.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, public, signer)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of node %s: %w", as.ID, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the new certificate of node %s: %w", as.ID, err)
	}
	return leaf, nil
}

// tagSize is how long a tag is.
const tagSize = 16

// tagOf returns the tag for a public key in SubjectPublicKeyInfo form.
func tagOf(spki []byte) string {
	sum := sha256.Sum256(spki)
	return hex.EncodeToString(sum[:8])
}

// newSerial returns a random serial number of 127 bits; the top bit is cleared because serial
// numbers must be positive (RFC 5280, 4.1.2.2).
func newSerial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}
