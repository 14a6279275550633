package identity

import (
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
	cred credential
	// revoked is nil for the local authority, which removes no nodes.
	revoked *Revocations
	// cluster is set once the authority is on this machine; see Cluster.
	cluster atomic.Pointer[Cluster]
	// taking is held while the authority or its successor changes.
	taking sync.Mutex
}

// Issue returns an identity for the node with key k under this authority. Its certificate is
// good for 7 days and is issued again at half its life, whenever a connection needs it, so
// that a node may run for years. It returns an error if k or the authority's key is missing.
func (a *Authority) Issue(k *Key) (*Identity, error) {
	if a == nil || k == nil || k.private == nil {
		return nil, errors.New("issue an identity: no key or no authority")
	}
	i := &Identity{cred: credential{key: k, authority: a, as: Peer{ID: k.id, Authority: a.name, Role: roleNode}}}
	if _, err := i.cred.fresh(); err != nil {
		return nil, err
	}
	return i, nil
}

// ID returns the node's id.
func (i *Identity) ID() NodeID { return i.cred.key.id }

// Authority returns the name of the node's authority: Local, or the name of its cluster.
func (i *Identity) Authority() string { return i.cred.authority.name }

// Tag is the authority's tag; see Authority.Tag.
func (i *Identity) Tag() string { return i.cred.authority.tag }

// Cluster returns the cluster whose authority is held on this machine, or nil: then other
// nodes renew this node's certificate, or the authority is the local one. It may change
// while the node runs.
func (i *Identity) Cluster() *Cluster { return i.cluster.Load() }

// Revocations returns the list of nodes that were removed from the cluster, as far as this
// node knows. It is nil for the local authority; a nil list contains no node.
func (i *Identity) Revocations() *Revocations { return i.revoked }

// NotAfter returns when the current certificate ends, unless it is renewed before.
func (i *Identity) NotAfter() time.Time { return i.cred.leaf().NotAfter }

func (i *Identity) String() string {
	return "node " + string(i.cred.key.id) + " of authority " + i.cred.authority.name
}

// Format writes the same as String for every verb, so that none shows a key.
func (i *Identity) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, i.String()) }

// LogValue keeps keys out of logs.
func (i *Identity) LogValue() slog.Value { return slog.StringValue(i.String()) }
