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
	"path/filepath"
	"time"
)

// Local is the name of the authority that a user has on each machine for their own nodes. Nodes
// under it trust each other with no set-up, and may not be reached from other machines.
const Local = "local"

const (
	authorityFile = "authority.pem"
	// authorityLife: a user's own authority never leaves the machine, so that nothing renews it.
	authorityLife = 10 * 365 * 24 * time.Hour
	nodeLife      = 7 * 24 * time.Hour
	// skew is how far behind another clock may be and still find a new certificate valid.
	skew = 5 * time.Minute
)

// Authority signs the certificates of nodes.
type Authority struct {
	name        string
	tag         string
	certificate *x509.Certificate
	private     secret
}

// OpenLocalAuthority returns the local authority kept in dir, one per user and machine, and makes it
// when there is none: one file with its key and certificate, mode 0600. All processes that start at
// the same instant get the same one.
func OpenLocalAuthority(dir string) (*Authority, error) {
	file := filepath.Join(dir, authorityFile)
	data, err := readOrCreate(file, newAuthority)
	if err != nil {
		return nil, fmt.Errorf("local authority: %w", err)
	}
	a, err := parseAuthority(data)
	if err != nil {
		return nil, fmt.Errorf("local authority: %s %w; move it away to get a new one, then restart this user's nodes on this machine", file, err)
	}
	return a, nil
}

// Name is "local", or the cluster's name.
func (a *Authority) Name() string { return a.name }

// Tag is the first 16 hex digits of SHA-256 over the authority's public key. It lets nodes ignore
// announcements from elsewhere; it proves nothing and is no secret.
func (a *Authority) Tag() string { return a.tag }

func (a *Authority) String() string { return "authority " + a.name + " " + a.tag }

// Format writes the same as String for every verb, so that none shows the key.
func (a *Authority) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, a.String()) }

// LogValue keeps the key out of logs.
func (a *Authority) LogValue() slog.Value { return slog.StringValue(a.String()) }

func newAuthority() ([]byte, error) {
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
		Subject:               pkix.Name{CommonName: "symbio " + Local + " " + tagOf(spki)},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(authorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true, // it signs nodes, never another authority
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, fmt.Errorf("sign the authority's certificate: %w", err)
	}
	key, err := encodeKey(private)
	if err != nil {
		return nil, err
	}
	return append(key, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der})...), nil
}

func parseAuthority(data []byte) (*Authority, error) {
	private, rest, err := takeKey(data)
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
	switch now := time.Now(); {
	case !certificate.IsCA || !private.Public().(ed25519.PublicKey).Equal(certificate.PublicKey):
		return nil, errors.New("holds a certificate that is not of its key")
	case now.After(certificate.NotAfter):
		return nil, fmt.Errorf("ended on %s", certificate.NotAfter.Format(time.DateOnly))
	case now.Before(certificate.NotBefore):
		return nil, fmt.Errorf("begins on %s, and this machine's clock says %s: check the clock",
			certificate.NotBefore.Format(time.RFC3339), now.Format(time.RFC3339))
	}
	return &Authority{name: Local, tag: tagOf(certificate.RawSubjectPublicKeyInfo), certificate: certificate, private: seal(private)}, nil
}

func tagOf(spki []byte) string {
	sum := sha256.Sum256(spki)
	return hex.EncodeToString(sum[:8])
}

func newSerial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}
