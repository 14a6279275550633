package content

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"symbio/internal/security/visible"
)

// Hash is the SHA-256 of a content.
type Hash [sha256.Size]byte

// Sum returns the hash of data.
func Sum(data []byte) Hash { return sha256.Sum256(data) }

// ParseHash reads what String writes: 64 hexadecimal digits in lower case, so that a content has one
// name.
func ParseHash(s string) (h Hash, err error) {
	if len(s) == hex.EncodedLen(len(h)) {
		_, err = hex.Decode(h[:], []byte(s))
	}
	if err != nil || h.String() != s {
		return Hash{}, fmt.Errorf("%q is not a SHA-256: want 64 of 0-9 and a-f", visible.Truncate(s, 80))
	}
	return h, nil
}

// String returns h in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText is String, for JSON.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText is ParseHash, for JSON.
func (h *Hash) UnmarshalText(text []byte) (err error) {
	*h, err = ParseHash(string(text))
	return err
}
