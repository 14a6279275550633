package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// Key is a node's private key. It prints as its id, in every format. It does not change, and may be
// used from many goroutines.
type Key struct {
	id      NodeID
	private secret
}

// secret returns a private key. It is a function because fmt and slog print one as an address, also
// inside a struct, where they do not find the methods below.
type secret func() ed25519.PrivateKey

// seal wraps a private key.
func seal(private ed25519.PrivateKey) secret { return func() ed25519.PrivateKey { return private } }

// LoadOrCreateKey returns the node key in file (PEM, PKCS #8, Ed25519). If there is no such file it
// makes one with mode 0600, in a directory with mode 0700. A file that other users may read, or
// that is not a key, is an error that says what to do; the file is never overwritten.
func LoadOrCreateKey(file string) (*Key, error) {
	data, err := readOrCreate(file, func() ([]byte, error) {
		_, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			return nil, fmt.Errorf("make a node key: %w", err)
		}
		return encodeKey(private)
	})
	if err != nil {
		return nil, fmt.Errorf("node key: %w", err)
	}
	k, err := parseKey(data)
	if err != nil {
		return nil, fmt.Errorf("node key: %s %w; restore it from a copy, or move it away and the node gets a new key and so a new id", file, err)
	}
	return k, nil
}

// ID is the hash of the public key.
func (k Key) ID() NodeID { return k.id }

func (k Key) String() string { return "node key " + string(k.id) }

// Format writes the same as String for every verb, so that none shows the key.
func (k Key) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, k.String()) }

// LogValue keeps the key out of logs.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

func (k *Key) public() ed25519.PublicKey { return k.private().Public().(ed25519.PublicKey) }

// newKey returns the key with its id.
func newKey(private ed25519.PrivateKey) (*Key, error) {
	spki, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		return nil, err
	}
	return &Key{id: idOf(spki), private: seal(private)}, nil
}

const (
	// keyBlock and certificateBlock are the PEM types of PKCS #8 and X.509 (RFC 7468).
	keyBlock         = "PRIVATE KEY"
	certificateBlock = "CERTIFICATE"
)

// encodeKey returns the key as the files hold it.
func encodeKey(private ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

// errNotKey completes the sentence "FILE …", as all errors of parseKey do.
var errNotKey = errors.New("holds no Ed25519 private key in PEM (PKCS #8)")

// parseKey reads a file that holds one key and nothing else.
func parseKey(data []byte) (*Key, error) {
	private, rest, err := takeKey(data)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("holds more than one key")
	}
	return newKey(private)
}

// takeKey decodes the key at the start of data and returns what follows it. Text before the key and
// PEM headers are errors. The errors contain nothing of the file's content.
func takeKey(data []byte) (ed25519.PrivateKey, []byte, error) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != keyBlock || len(block.Headers) > 0 || !bytes.HasPrefix(data, []byte("-----BEGIN")) {
		return nil, nil, errNotKey
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, nil, errNotKey
	}
	return private, rest, nil
}
