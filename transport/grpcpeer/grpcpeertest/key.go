package grpcpeertest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"symbio/community"
	"symbio/security/identity"
)

// privateKey returns the key of the node called name: the same for the same name, so that what
// depends on the order of ids is the same in each run.
func privateKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// ID returns the id of the node called name, which is the same on each LAN. It is computed as
// identity.NodeID says.
func ID(name string) community.NodeID {
	spki, err := x509.MarshalPKIXPublicKey(privateKey(name).Public())
	if err != nil {
		panic(err) // not of an Ed25519 key
	}
	sum := sha256.Sum256(spki)
	return community.NodeID(hex.EncodeToString(sum[:16]))
}

// Key returns the key of the node called name.
func (l *LAN) Key(name string) *identity.Key {
	l.t.Helper()
	file := filepath.Join(l.dir, name, "key.pem")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		der, err := x509.MarshalPKCS8PrivateKey(privateKey(name))
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o700)); err != nil {
			l.t.Fatal(err)
		}
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
	k, err := identity.LoadOrCreateKey(file)
	if err != nil {
		l.t.Fatal(err)
	}
	if k.ID() != ID(name) {
		l.t.Fatalf("the key of %s has the id %s, but ID returns %s", name, k.ID(), ID(name))
	}
	return k
}

// Identity returns a new certificate of the LAN's authority for the node called name.
func (l *LAN) Identity(name string) *identity.Identity {
	l.t.Helper()
	i, err := l.authority.Issue(l.Key(name))
	if err != nil {
		l.t.Fatal(err)
	}
	return i
}
