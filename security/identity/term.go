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

// CertificateProof is what a verified certificate proves.
type CertificateProof struct {
	Peer
	// NotAfter is when the certificate ends.
	NotAfter time.Time

	public []byte
}

// VerifyCertificate verifies a certificate (DER) of another node, by whatever way it came: it must be of this identity's
// authority. It returns ErrRemoved for a removed node, and otherwise the error of verification. It does not prove that who sent
// it has its key.
func (i *Identity) VerifyCertificate(der []byte) (CertificateProof, error) {
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return CertificateProof{}, fmt.Errorf("%w: %w", ErrNotNode, err)
	}
	p, err := i.cred.authority.verify(leaf, time.Now())
	if err == nil && i.revoked.Has(p.ID) {
		err = fmt.Errorf("%w: node %s", ErrRemoved, p.ID)
	}
	return CertificateProof{p, leaf.NotAfter, leaf.RawSubjectPublicKeyInfo}, err
}

// Signed reports whether the certificate's key has signed text (Identity.Sign).
func (c CertificateProof) Signed(text, signature []byte) bool {
	return Signed(c.ID, c.public, text, signature)
}

// Lapsed reports whether a connection whose certificate is valid until end has to be closed at now.
// It allows for clocks that differ by up to skew, as verify does.
func Lapsed(end, now time.Time) bool { return now.After(end.Add(skew)) }
