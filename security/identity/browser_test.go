package identity_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"

	"symbio/security/identity"
)

// Browsers know no Ed25519: they are shown a certificate that they can check, and nodes the one of the node.
func TestBrowserIsShownACertificateThatItKnows(t *testing.T) {
	own, err := identity.BrowserCertificate(net.IPv4(10, 0, 0, 7))
	if err != nil {
		t.Fatal(err)
	}
	node, _ := found(t, "home").join(t, "node")
	c := identity.BrowserTLS(node, own)
	for name, test := range map[string]struct {
		knows tls.SignatureScheme
		want  x509.PublicKeyAlgorithm
	}{
		"browser": {tls.ECDSAWithP256AndSHA256, x509.ECDSA},
		"node":    {tls.Ed25519, x509.Ed25519},
	} {
		shown, err := c.GetCertificate(&tls.ClientHelloInfo{SignatureSchemes: []tls.SignatureScheme{test.knows}})
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(shown.Certificate[0])
		if err != nil || leaf.PublicKeyAlgorithm != test.want {
			t.Errorf("%s is shown %v, %v, want %v", name, leaf.PublicKeyAlgorithm, err, test.want)
		}
		if name == "browser" {
			if err := leaf.VerifyHostname("10.0.0.7"); err != nil {
				t.Error(err)
			}
		}
	}
}
