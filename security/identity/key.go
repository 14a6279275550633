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

// Key is a node's private key. It prints as its id, in every format.
type Key struct {
	id      NodeID
	private secret
}

// secret gives a private key to who calls it. A function prints as an address in every format, also
// inside a struct, where fmt and slog do not find the methods below.
type secret func() ed25519.PrivateKey

func seal(private ed25519.PrivateKey) secret { return func() ed25519.PrivateKey { return private } }

// LoadOrCreateKey returns the node key in file (PEM, PKCS #8, Ed25519), and makes one when there is
// no such file: mode 0600, its folder 0700. A file that others may read, or that is not a key, is an
// error that says what to do; it is never overwritten.
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

func newKey(private ed25519.PrivateKey) (*Key, error) {
	spki, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		return nil, err
	}
	return &Key{id: idOf(spki), private: seal(private)}, nil
}

const (
	keyBlock         = "PRIVATE KEY"
	certificateBlock = "CERTIFICATE"
)

func encodeKey(private ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

var errNotKey = errors.New("holds no Ed25519 private key in PEM (PKCS #8)")

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

// takeKey decodes the key at the start of data. Errors hold nothing of the file's content.
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
