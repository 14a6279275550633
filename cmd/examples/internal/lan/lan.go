// Package lan starts a few real nodes for an example: each has its own key and certificate, and
// they talk over gRPC and mutual TLS on the loopback interface, all in one process.
//
// An example says what nodes do, not how they are made. The nodes know each other's addresses, so
// there is no discovery. All of them may call each other. When Run returns, nothing is left on the
// disk.
package lan

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"symbio/community"
	"symbio/discovery"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

// Node is one node of an example.
type Node struct {
	*community.Community
	// ID is the fingerprint of the node's key, which the node makes at each run of the example.
	ID community.NodeID
	// Stop makes the node leave and waits until it has. Further calls return at once. Several
	// goroutines may call it.
	Stop func()

	// network is the transport of the Community. meet reads its address and gives it the addresses of the
	// others.
	network *grpcpeer.Network
	// err is the result of Community.Run. The goroutine of start writes it; Stop must return before
	// it is read.
	err error
}

// Run starts a node for each name, waits until all see each other, calls work, and stops them. It
// returns the error of work, or of a node that failed. It blocks until all nodes have ended and
// their files are removed. names must differ: each is a directory for the keys of one node. work
// may stop single nodes by itself.
func Run(ctx context.Context, work func(ctx context.Context, nodes map[string]*Node) error, names ...string) (err error) {
	dir, err := os.MkdirTemp("", "symbio-example-")
	if err != nil {
		return err
	}
	// The keys must not stay on the disk. This call is deferred first and so runs last, after the
	// nodes have ended.
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	authority, err := identity.OpenLocalAuthority(filepath.Join(dir, "authority"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nodes := map[string]*Node{}
	defer func() {
		for name, n := range nodes {
			if n.Stop(); n.err != nil {
				err = errors.Join(err, fmt.Errorf("node %s: %w", name, n.err))
			}
		}
	}()
	for _, name := range names {
		if nodes[name], err = start(ctx, authority, filepath.Join(dir, name), name); err != nil {
			// A node that did not start is nil and must not be stopped.
			delete(nodes, name)
			return fmt.Errorf("node %s: %w", name, err)
		}
	}
	for _, n := range nodes {
		if err := n.meet(ctx, nodes); err != nil {
			return err
		}
	}
	return work(ctx, nodes)
}

// start makes the key and certificate of one node and runs it in a goroutine, which Stop waits for.
// Its context ends with Run's, so no node outlives Run.
func start(ctx context.Context, authority *identity.Authority, dir, name string) (*Node, error) {
	key, err := identity.LoadOrCreateKey(filepath.Join(dir, "key.pem"))
	if err != nil {
		return nil, err
	}
	self, err := authority.Issue(key)
	if err != nil {
		return nil, err
	}
	network, err := grpcpeer.New(grpcpeer.Config{Identity: self, Name: name})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	n := &Node{ID: self.ID(), network: network}
	// Every node of the example belongs to the same local authority, and no call is denied. A real
	// node has rules for that; see the key authorize of the configuration.
	n.Community = community.New(community.Config{Node: n.ID, Name: name, Network: network,
		Authorize: func(community.Peer, community.Call) error { return nil }})
	var running sync.WaitGroup
	running.Go(func() { n.err = n.Community.Run(ctx) })
	n.Stop = func() { stop(); running.Wait() }
	return n, nil
}

// meet tells a node the addresses of the others, and waits until it sees them. It subscribes first,
// so that no change is missed. Each node of a pair gets the address of the other one,
// because a node dials for its own calls. meet returns the cause of ctx when that ends first.
func (n *Node) meet(ctx context.Context, all map[string]*Node) error {
	changes := n.Subscribe()
	defer changes.Close()
	for _, other := range all {
		if other == n {
			continue
		}
		at, err := netip.ParseAddrPort(other.network.Addr().String())
		if err != nil {
			return err
		}
		n.network.AddHint(discovery.Candidate{Key: string(other.ID), Node: string(other.ID), Addrs: []netip.AddrPort{at}})
		// Any change can be the one that matters, so the members are looked at again after each.
		for !n.sees(other.ID) {
			if _, err := changes.Next(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// sees reports whether the node with that id is available.
func (n *Node) sees(id community.NodeID) bool {
	return slices.ContainsFunc(n.Members(), func(m community.Member) bool { return m.ID == community.MemberID(id) && m.Available })
}

// Provided waits until at least by members provide a capability. It returns the cause of ctx when
// that ends first. Capabilities of other nodes arrive some time after the nodes see each other.
func (n *Node) Provided(ctx context.Context, capability string, by int) error {
	changes := n.Subscribe()
	defer changes.Close()
	for len(n.WhoProvides(capability)) < by {
		if _, err := changes.Next(ctx); err != nil {
			return err
		}
	}
	return nil
}
