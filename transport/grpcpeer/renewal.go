package grpcpeer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/grpc"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// renewal keeps the certificates that the connections rest on: it renews this node's own, shows it to the nodes
// that are linked, and closes the connections of nodes that were removed or whose certificates have ended.
type renewal struct {
	*local
	conns *connTable
}

// addRevocations takes lists of removed nodes from another node. A list that is not signed by the authority changes
// nothing.
func (n *renewal) addRevocations(from community.NodeID, lists ...*pb.Revocations) {
	for _, list := range lists[:min(len(lists), maxLists)] {
		if _, err := n.cfg.Identity.Revocations().Update(list); err != nil {
			n.cfg.Logger.Warn("list of removed nodes", "from", from, "err", err)
		}
	}
}

// maxLists is how many lists one message may bring: more than a node keeps.
const maxLists = 16

// revocationLists returns the valid lists of removed nodes, the newest apart from the others.
func revocationLists(id *identity.Identity) (newest *pb.Revocations, more []*pb.Revocations) {
	all, _ := id.Revocations().Lists()
	if len(all) == 0 {
		return nil, nil
	}
	return all[0], all[1:]
}

// clusterFeed is what one watcher is told of the cluster.
type clusterFeed struct {
	identity *identity.Identity
	sent     map[string]bool // signatures of lists
	holds    bool            // this node holds the authority, and the watcher knows
}

// events returns the events that were not sent before, and a context that ends with the next list.
func (b *clusterFeed) events() (events []*pb.CatalogEvent, changed context.Context) {
	lists, changed := b.identity.Revocations().Lists()
	if !b.holds && b.identity.Cluster() != nil {
		b.holds = true
		events = append(events, &pb.CatalogEvent{Event: &pb.CatalogEvent_HoldsAuthority{HoldsAuthority: true}})
	}
	now := map[string]bool{}
	for _, list := range lists {
		now[string(list.GetSignature())] = true
		if !b.sent[string(list.GetSignature())] {
			events = append(events, &pb.CatalogEvent{Event: &pb.CatalogEvent_Revocations{Revocations: list}})
		}
	}
	b.sent = now
	return events, changed
}

// enforceRemovals closes the connections of nodes as they are removed, until ctx ends. Handshakes look at the list
// by themselves.
func (n *renewal) enforceRemovals(ctx context.Context) {
	reported := false
	for {
		revoked := n.cfg.Identity.Revocations()
		_, changed := revoked.Current()
		for _, g := range n.conns.all(func(id identity.NodeID, _ *slotConn) bool { return revoked.Has(id) }) {
			g.abort()
		}
		for l := range n.links.all() {
			l.closeIfRemoved(revoked)
		}
		if revoked.Has(identity.NodeID(n.self)) && !reported {
			reported = true
			n.records.add(Event{Kind: Refused, Node: n.self, Name: n.cfg.Name, Why: fmt.Sprintf(
				"this node itself was removed from cluster %s: no other node talks to it any more", n.cfg.Identity.Authority())})
		}
		select {
		case <-changed.Done():
		case <-ctx.Done():
			return
		}
	}
}

// closeIfRemoved ends the link when its node was removed.
func (l *link) closeIfRemoved(revoked *identity.Revocations) {
	if revoked.Has(identity.NodeID(l.peer.ID)) && !l.removed.Swap(true) {
		l.abort()
	}
}

// abort ends the link at once: its Watch stream fails, and with it the lease and the calls.
func (l *link) abort() {
	l.closed.Store(true)
	l.raw.Close()
}

const (
	renewCheck   = time.Minute // also after a sleep of the machine, which stops timers
	renewTimeout = 10 * time.Second
	renewWarn    = time.Hour // between two warnings
)

var errNoAuthority = errors.New("no node that holds the cluster's authority is connected; start one, or check the network to it")

// run asks the authority for the next certificate when half the life of the one in use is over, shows it over the
// connections that are open, and closes those whose certificate has ended, until ctx ends.
func (n *renewal) run(ctx context.Context) {
	check := time.NewTicker(renewCheck)
	defer check.Stop()
	var warned time.Time
	for {
		if n.cfg.Identity.Due() {
			err := n.renewNow(ctx)
			switch {
			case err == nil:
				n.cfg.Logger.Info("certificate renewed", "until", n.cfg.Identity.NotAfter())
			case ctx.Err() == nil && time.Since(warned) >= renewWarn:
				warned = time.Now()
				n.cfg.Logger.Warn("certificate not renewed yet", "until", n.cfg.Identity.NotAfter(), "err", err)
			}
		}
		n.showAll(ctx)
		n.closeExpired(time.Now())
		select {
		case <-check.C:
		case <-ctx.Done():
			return
		}
	}
}

// renewNow asks each connected node that holds the authority, until one answers. A node that holds it signs its
// own certificate.
func (n *renewal) renewNow(ctx context.Context) error {
	if local, err := n.cfg.Identity.RenewHere(); local {
		return err
	}
	err := errNoAuthority
	for l := range n.links.all() {
		if !l.authority.Load() {
			continue
		}
		if err = n.renewFrom(ctx, l); err == nil {
			return nil
		}
		err = fmt.Errorf("node %s: %w", l.peer.ID, err)
	}
	return err
}

func (n *renewal) renewFrom(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	request, err := n.cfg.Identity.RenewRequest()
	if err != nil {
		return err
	}
	reply, err := pb.NewJoinClient(l.grpc).Renew(ctx, request, grpc.MaxCallRecvMsgSize(maxJoinMessage))
	if err != nil {
		return joinError(err)
	}
	return n.cfg.Identity.Renewed(reply)
}

// renewAt asks the node at an address for the next certificate after this node's has ended: no node takes any
// other call from it then.
func (n *renewal) renewAt(addr netip.AddrPort, expect community.NodeID) error {
	raw, err := n.connect(addr)
	if err != nil {
		return err
	}
	defer raw.Close()
	ctx, cancel := context.WithTimeout(n.search, renewTimeout)
	defer cancel()
	conn := tls.Client(raw, n.cfg.Identity.RenewTLS(expect))
	if err := conn.HandshakeContext(ctx); err != nil {
		return n.cfg.Identity.Explain(err)
	}
	l, err := newLink(conn, establishedCredentials{conn.ConnectionState()}, expect, n.cfg.Limits)
	if err != nil {
		return err
	}
	defer l.close()
	return n.renewFrom(ctx, l)
}
