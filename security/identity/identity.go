package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// roleNode is the role of a node whose token names no other.
const roleNode = "node"

// Identity is a node's key with a current certificate. An identity made by Issue renews its
// certificate when a connection needs it. One made by OpenMember is renewed by others, or by
// RenewHere on a machine that holds the authority; the reply is passed to Renewed. All methods may
// be called from many goroutines.
type Identity struct {
	key       *Key
	authority *Authority
	roots     *x509.CertPool
	role      string
	// revoked is nil for the local authority, which removes no nodes.
	revoked *Revocations
	// file is the member file; "" for an identity made by Issue.
	file string
	// cluster is set once the authority is on this machine; see Cluster.
	cluster atomic.Pointer[Cluster]

	mu      sync.Mutex
	current *tls.Certificate // guarded by mu
}

// Issue returns an identity for the node with key k under this authority. Its certificate is
// good for 7 days and is issued again at half its life, whenever a connection needs it, so
// that a node may run for years. It returns an error if k or the authority's key is missing.
func (a *Authority) Issue(k *Key) (*Identity, error) {
	if a == nil || k == nil || k.private == nil {
		return nil, errors.New("issue an identity: no key or no authority")
	}
	i := &Identity{key: k, authority: a, roots: a.roots(), role: roleNode}
	if _, err := i.fresh(); err != nil {
		return nil, err
	}
	return i, nil
}

// ID returns the node's id.
func (i *Identity) ID() NodeID { return i.key.id }

// Authority returns the name of the node's authority: Local, or the name of its cluster.
func (i *Identity) Authority() string { return i.authority.name }

// Tag is the authority's tag; see Authority.Tag.
func (i *Identity) Tag() string { return i.authority.tag }

// Cluster returns the cluster whose authority is held on this machine, or nil: then other
// nodes renew this node's certificate, or the authority is the local one. It may change from
// nil while the node runs.
func (i *Identity) Cluster() *Cluster { return i.cluster.Load() }

// Revocations returns the list of nodes that were removed from the cluster, as far as this
// node knows. It is nil for the local authority; a nil list contains no node.
func (i *Identity) Revocations() *Revocations { return i.revoked }

// NotAfter returns when the current certificate ends, unless it is renewed before.
func (i *Identity) NotAfter() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.current.Leaf.NotAfter
}

func (i *Identity) String() string {
	return "node " + string(i.key.id) + " of authority " + i.authority.name
}

// Format writes the same as String for every verb, so that none shows a key.
func (i *Identity) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, i.String()) }

// LogValue keeps keys out of logs.
func (i *Identity) LogValue() slog.Value { return slog.StringValue(i.String()) }

// fresh returns the certificate to present now, renewed first if its key is here and half its
// life is over. A member whose certificate has ended still presents it, so that the other side
// can name the reason in its error.
func (i *Identity) fresh() (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	if c := i.current; c != nil && (i.authority.private == nil || !aged(c.Leaf, now)) {
		return c, nil
	}
	leaf, err := i.authority.certify(i.key.public(), i.role, now)
	if err != nil {
		return nil, err
	}
	i.current = withKey(i.key, leaf)
	return i.current, nil
}

// withKey returns a certificate of k's node as crypto/tls needs it.
func withKey(k *Key, leaf *x509.Certificate) *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: k.private(), Leaf: leaf}
}

// aged reports whether a certificate has passed half its life, or the clock was set back to
// before it began.
func aged(leaf *x509.Certificate, now time.Time) bool {
	half := leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2)
	return !now.Before(half) || !now.After(leaf.NotBefore)
}
