package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// browserLife is how long the certificate for browsers lasts. It ends with the process of the node in any case.
const browserLife = 397 * 24 * time.Hour

// BrowserCertificate returns a new certificate of its own for browsers at that IP address: they know no Ed25519, with which nodes
// sign. Nobody vouches for it, so a person compares its fingerprint.
func BrowserCertificate(host net.IP) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "symbio dashboard"}, IPAddresses: []net.IP{host},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(browserLife), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}, &x509.Certificate{Subject: pkix.Name{CommonName: "symbio dashboard"}}, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("the certificate for browsers: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, nil
}

// BrowserTLS returns the configuration of a listener for browsers, which speak HTTP. A client
// may come without a certificate; one that it shows must be of a node that ServerTLS would accept. Who knows Ed25519 is shown the
// node's certificate, and others are shown own.
func BrowserTLS(i *Identity, own *tls.Certificate) *tls.Config {
	h := handshake{i, "h2"}
	c := h.server()
	verify, forNode := c.VerifyConnection, c.GetCertificate
	c.ClientAuth = tls.VerifyClientCertIfGiven
	c.NextProtos = []string{"h2", "http/1.1"}
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if slices.Contains(hello.SignatureSchemes, tls.Ed25519) {
			return forNode(hello)
		}
		return own, nil
	}
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := c.Clone()
		now.ClientCAs = i.cred.authority.all().trusted().roots()
		return now, nil
	}
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return nil
		}
		s.NegotiatedProtocol = h.protocol // net/http checks what was negotiated
		return verify(s)
	}
	return c
}
