package gossip

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
)

// A packet is encrypted with AES-256 in GCM: 4 bytes that name the key, a nonce of 12 bytes, the text, a tag of 16 bytes.
//
// Each node begins with a key of its own. On each stream both ends show theirs, and both go on with the one of the higher
// generation, or the smaller one of the same generation: so all nodes come to the same key. A node that holds the
// authority makes a key of the next generation when a node was removed, which no stream gives to the removed one.
const (
	keySize    = 32
	nonceSize  = 12
	packetRoom = 4 + nonceSize + 16
	// oldKeys are how many earlier keys are still accepted: packets of nodes that have not heard of the newest.
	oldKeys = 3
	// maxGenerations is by how much a generation may grow at once, so that one node cannot use them up.
	maxGenerations = 1 << 20
)

// errUnknownKey is the error of a packet that is encrypted with a key that this node does not have.
var errUnknownKey = errors.New("the packet is encrypted with another key")

// packetKey is one key. It does not change.
type packetKey struct {
	generation uint64
	secret     []byte
	aead       cipher.AEAD
	name       [4]byte
}

func newPacketKey(generation uint64, secret []byte) (*packetKey, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	sum := sha256.Sum256(secret)
	k := &packetKey{generation: generation, secret: bytes.Clone(secret), aead: aead}
	copy(k.name[:], sum[:])
	return k, err
}

// keys are the keys of packets. All methods may be called concurrently.
type keys struct {
	mu  sync.RWMutex
	all []*packetKey // the current one first; guarded by mu
}

// newKeys returns keys with a random one of generation 0.
func newKeys() (*keys, error) {
	k := &keys{}
	return k, k.add(0, randomKey())
}

func randomKey() []byte {
	b := make([]byte, keySize)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return b
}

// current returns the key with which packets are encrypted.
func (k *keys) current() *packetKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.all[0]
}

// rotate makes a key of the next generation the current one.
func (k *keys) rotate() error { return k.add(k.current().generation+1, randomKey()) }

// add makes a key the current one if it comes before the present one in the order of all nodes; else it is only accepted
// for packets that come in. It returns an error for what is no key.
func (k *keys) add(generation uint64, secret []byte) error {
	if len(secret) != keySize {
		return errors.New("not a key for packets")
	}
	one, err := newPacketKey(generation, secret)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.all) == 0 {
		k.all = []*packetKey{one}
		return nil
	}
	now := k.all[0]
	switch {
	case generation > now.generation+maxGenerations:
		return errors.New("a key of a generation that is far ahead")
	case one.name == now.name:
	case generation > now.generation, generation == now.generation && bytes.Compare(secret, now.secret) < 0:
		k.all = append([]*packetKey{one}, k.all[:min(len(k.all), oldKeys)]...)
	case generation == now.generation:
		k.all = append([]*packetKey{now, one}, k.all[1:min(len(k.all), oldKeys)]...)
	}
	return nil
}

// seal returns text encrypted.
func (k *keys) seal(text []byte) []byte {
	one := k.current()
	out := make([]byte, 4+nonceSize, len(text)+packetRoom)
	copy(out, one.name[:])
	_, _ = rand.Read(out[4:])
	return one.aead.Seal(out, out[4:4+nonceSize], text, nil)
}

// open decrypts a packet. It returns errUnknownKey where another key would be needed.
func (k *keys) open(packet []byte) ([]byte, error) {
	if len(packet) < packetRoom {
		return nil, errors.New("not a packet")
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, one := range k.all {
		if binary.BigEndian.Uint32(packet) == binary.BigEndian.Uint32(one.name[:]) {
			return one.aead.Open(nil, packet[4:4+nonceSize], packet[4+nonceSize:], nil)
		}
	}
	return nil, errUnknownKey
}
