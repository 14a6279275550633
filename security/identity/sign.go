package identity

import (
	"crypto/ed25519"
	"crypto/x509"
)

// Sign signs text with the node's key, and returns the public key (SubjectPublicKeyInfo) for
// Signed. The text must begin with a line that names its purpose, so that a signature made for
// one purpose serves no other.
func (i *Identity) Sign(text []byte) (public, signature []byte, err error) {
	public, err = x509.MarshalPKIXPublicKey(i.cred.key.public())
	return public, ed25519.Sign(i.cred.key.private(), text), err
}

// Signed reports whether the node with that id has signed text. public comes with the signature and
// proves itself: the id is the hash of it. Signed knows nothing of authorities; a removed node's
// signature is valid, too.
func Signed(id NodeID, public, text, signature []byte) bool {
	parsed, err := x509.ParsePKIXPublicKey(public)
	key, ok := parsed.(ed25519.PublicKey)
	return err == nil && ok && idOf(public) == id && ed25519.Verify(key, text, signature)
}
