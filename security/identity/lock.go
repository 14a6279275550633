package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"time"

	"symbio/internal/security/passphrase"
	"symbio/internal/security/private"
)

// ErrLocked means that a cluster's authority is on this machine, but its key is encrypted, and this
// process has not got it.
var ErrLocked = errors.New("the cluster's authority is locked on this machine, so no node is let in, renewed or removed here: symbio cluster unlock")

// lockedBlock is the PEM type of the age format, in which an authority file holds a locked key.
const lockedBlock = "AGE ENCRYPTED FILE"

// signingKey is the key of an authority on this machine: nil while it is locked. All processes read
// the same file, but each is unlocked for itself. It may be used from many goroutines.
type signingKey struct{ open atomic.Pointer[secret] }

// unlocked returns the signingKey of a key that is not locked.
func unlocked(key ed25519.PrivateKey) *signingKey {
	k := new(signingKey)
	k.set(key)
	return k
}

func (k *signingKey) set(key ed25519.PrivateKey) {
	s := seal(key)
	k.open.Store(&s)
}

// signer returns the key to sign with. It returns ErrLocked, or an error that says that the key is
// elsewhere.
func (a *Authority) signer() (ed25519.PrivateKey, error) {
	if a.key == nil {
		return nil, fmt.Errorf("%s: its key is not on this machine", a)
	}
	if s := a.key.open.Load(); s != nil {
		return (*s)(), nil
	}
	return nil, ErrLocked
}

// canSign reports whether signer returns a key.
func (a *Authority) canSign() bool { return a.key != nil && a.key.open.Load() != nil }

// takeSigningKey decodes the key at the start of an authority file, locked or not, and returns what
// follows it.
func takeSigningKey(data []byte) (*signingKey, []byte, error) {
	if block, rest := pem.Decode(data); block != nil && block.Type == lockedBlock && bytes.HasPrefix(data, []byte("-----BEGIN")) {
		return new(signingKey), rest, nil
	}
	key, rest, err := takeKey(data)
	if err != nil {
		return nil, nil, err
	}
	return unlocked(key), rest, nil
}

// AuthorityKey is the private key of a cluster's authority on this machine: on the disk, encrypted or
// not, and in this process. It may be used from many goroutines.
type AuthorityKey struct {
	authority *Authority
	dir       string
}

// Key returns the key of the cluster's authority.
func (c *Cluster) Key() AuthorityKey { return AuthorityKey{c.authority.all().latest(), c.dir} }

// Locked reports whether this process lacks the authority's key. It can still list nodes and make
// tokens.
func (k AuthorityKey) Locked() bool { return !k.authority.canSign() }

// Lock encrypts the authority's key on the disk with a passphrase, and forgets it here; other
// processes that have it keep it until Forget. Without the passphrase, or another holder, the key is lost. It
// returns ErrLocked if it is locked already, and ErrRotating.
func (k AuthorityKey) Lock(secret string) error {
	if k.authority.succession.Load() != nil {
		return ErrRotating
	}
	key, err := k.authority.signer()
	if err != nil {
		return err
	}
	plain, err := encodeKey(key)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	w, err := passphrase.Encrypt(&out, secret)
	if err != nil {
		return err
	}
	_, err = w.Write(plain)
	if err := errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("encrypt the authority: %w", err)
	}
	if err := k.keep(pem.EncodeToMemory(&pem.Block{Type: lockedBlock, Bytes: out.Bytes()})); err != nil {
		return err
	}
	k.Forget()
	return nil
}

// Forget drops the authority's key from this process's memory, as after a restart, if the key on the disk is
// locked.
func (k AuthorityKey) Forget() {
	if _, locked, err := k.sealed(); err == nil && locked {
		k.authority.key.open.Store(nil)
	}
}

// Unlock returns the authority's key, as Use takes it, from the locked one on the disk. It returns
// passphrase.ErrWrong for another passphrase, and fs.ErrNotExist if the key is not locked. It takes
// about a second.
func (k AuthorityKey) Unlock(secret string) ([]byte, error) {
	data, locked, err := k.sealed()
	if err == nil && !locked {
		err = fmt.Errorf("the lock of the authority: %w", fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	r, err := passphrase.Decrypt(bytes.NewReader(data), secret)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, secretSize))
}

// Use takes the authority's key into this process, until that ends. It returns an error unless it is
// the key of the authority's certificate.
func (k AuthorityKey) Use(key []byte) error {
	private, rest, err := takeKey(key)
	if err != nil || len(rest) > 0 || !private.Public().(ed25519.PublicKey).Equal(k.authority.certificate.PublicKey) {
		return errors.New("that is not the key of the cluster's authority")
	}
	k.authority.key.set(private)
	return nil
}

// RemoveLock stores the key of Unlock on the disk as it is, readable for its user only.
func (k AuthorityKey) RemoveLock(key []byte) error {
	if err := k.Use(key); err != nil {
		return err
	}
	return k.keep(key)
}

// sealed returns the encrypted key on the disk; locked is false if it is not encrypted.
func (k AuthorityKey) sealed() (sealed []byte, locked bool, err error) {
	data, err := readSecret(filepath.Join(k.dir, authorityFile))
	if err != nil {
		return nil, false, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != lockedBlock {
		return nil, false, nil
	}
	return block.Bytes, true, nil
}

// keep replaces the authority's file by a key, in PEM, and the certificate.
func (k AuthorityKey) keep(key []byte) error {
	data := append(key, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: k.authority.certificate.Raw})...)
	if err := private.Replace(filepath.Join(k.dir, authorityFile), data); err != nil {
		return fmt.Errorf("keep the authority: %w", err)
	}
	return nil
}

// Enlist stores a certificate for a node of this machine in dir, so that it needs no signature at its next
// start. A node that has one there keeps it. The process that runs the node takes it up with Enlisted.
func (c *Cluster) Enlist(k *Key, name, dir string) error {
	if _, err := MemberOf(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if c.revoked.Has(k.id) {
		return removedHere(c.authority.name)
	}
	leaf, err := c.authority.certify(k.public(), Peer{Role: roleNode}, time.Now())
	if err != nil {
		return err
	}
	if err := saveMember(dir, leaf, c.authority); err != nil {
		return err
	}
	return c.record(leaf, name)
}

// Enlisted makes the identity that Issue returned a member, with the certificate that Enlist has stored in dir, so
// that other holders of the authority can renew it. It does nothing in a process where Issue was not called.
func (c *Cluster) Enlisted(dir string) error {
	own := c.issued.Load()
	if own == nil || own.isStored() {
		return nil
	}
	m, err := OpenMember(dir, own.key)
	if err != nil {
		return err
	}
	if !m.cred.authority.all().meets(c.authority.all()) || m.cred.as != own.as {
		return ErrOtherAuthority
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	own.file, own.current = m.cred.file, m.cred.current
	return nil
}

// checkUnlocked returns ErrLocked if the authority's key is encrypted on the disk.
func (k AuthorityKey) checkUnlocked() error {
	_, locked, err := k.sealed()
	if locked {
		err = fmt.Errorf("%w --permanent; after the rotation, lock it again", ErrLocked)
	}
	return err
}
