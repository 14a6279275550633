package grpcpeer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// renewal keeps connections and certificates in step: it renews this node's certificate, presents
// it on open links, and closes the connections of nodes that were removed or whose certificates
// have ended. Two goroutines of Run belong to it: run and enforceRemovals.
type renewal struct {
	*local
	conns   *connTable
	members *membership
	// standings says how far other nodes are in a rotation of the authority. woken gets a value when one is new.
	standings sync.Map // community.NodeID -> *pb.Standing
	woken     chan struct{}
}

// addRevocations merges lists of removed nodes from another node. Only lists signed by the
// cluster's authority have an effect, so from is for the log only. It is safe for concurrent use.
func (n *renewal) addRevocations(from community.NodeID, lists ...*pb.Revocations) {
	for _, list := range lists[:min(len(lists), maxLists)] {
		if _, err := n.cfg.Identity.Revocations().Update(list); err != nil {
			n.cfg.Logger.Warn("list of removed nodes", "from", from, "err", err)
		}
	}
}

// maxLists is how many lists one message may bring: more than a node keeps.
const maxLists = 16

// revocationLists returns the lists that this node knows, the newest one apart: the first field of
// the wire format had room for one.
func revocationLists(id *identity.Identity) (newest *pb.Revocations, more []*pb.Revocations) {
	all, _ := id.Revocations().Lists()
	if len(all) == 0 {
		return nil, nil
	}
	return all[0], all[1:]
}

// clusterFeed computes what one watcher is told about the cluster: new lists of removed nodes, how far
// this node is in a rotation of the authority, and that it holds that. It is used by the goroutine of one Watch stream.
type clusterFeed struct {
	identity *identity.Identity
	sent     map[string]bool // by listKey
	holds    bool            // this node holds the authority, and the watcher knows
	standing *pb.Standing    // in a rotation of the authority
}

// events returns the events that were not sent before, and a context that ends when there may be
// more.
func (b *clusterFeed) events() (events []*pb.CatalogEvent, changed context.Context) {
	lists, changed := b.identity.Revocations().Lists()
	if !b.holds && b.identity.Cluster() != nil {
		b.holds = true
		events = append(events, &pb.CatalogEvent{Event: &pb.CatalogEvent_HoldsAuthority{HoldsAuthority: true}})
	}
	if s := b.identity.Rotation().Standing(); s != nil && !proto.Equal(s, b.standing) {
		b.standing = s
		events = append(events, &pb.CatalogEvent{Event: &pb.CatalogEvent_Standing{Standing: s}})
	}
	now := map[string]bool{}
	for _, list := range lists {
		now[listKey(list)] = true
		if !b.sent[listKey(list)] {
			events = append(events, &pb.CatalogEvent{Event: &pb.CatalogEvent_Revocations{Revocations: list}})
		}
	}
	b.sent = now
	return events, changed
}

// listKey tells lists apart. Another node may have passed on a list without all of its assignments, which have signatures of their own.
func listKey(list *pb.Revocations) string {
	return string(list.GetSignature()) + strconv.Itoa(len(list.GetAssignments()))
}

// enforceRemovals closes the connections of nodes as they are removed from the cluster, until ctx
// ends. New handshakes check the list themselves; this is for connections that were open before.
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
		if revoked.Has(identity.NodeID(n.self())) && !reported {
			reported = true
			n.records.add(Event{Kind: Refused, Node: n.self(), Name: n.cfg.Name, Why: fmt.Sprintf(
				"this node itself was removed from cluster %s: no other node talks to it any more", n.cfg.Identity.Authority())})
		}
		select {
		case <-changed.Done():
		case <-ctx.Done():
			return
		}
	}
}

// closeIfRemoved aborts the link when its node was removed. The flag makes the reason known to
// endReason, and the abort happen once.
func (l *link) closeIfRemoved(revoked *identity.Revocations) {
	if revoked.Has(identity.NodeID(l.peer.ID)) && !l.reason.removed.Swap(true) {
		l.abort()
	}
}

// abort closes the TCP connection. The Watch stream then fails, which ends the lease and the calls.
func (l *link) abort() {
	l.closed.Store(true)
	l.wire.raw.Close()
}

const (
	renewCheck   = time.Minute // also after a sleep of the machine, which stops timers
	renewTimeout = 10 * time.Second
	renewWarn    = time.Hour // between two warnings
)

var errNoAuthority = errors.New("no node that holds the cluster's authority is connected; start one, or check the network to it")

// run renews this node's certificate once half of its life is over, presents it on open links,
// closes connections whose certificates have ended, and goes on with a rotation of the authority, every renewCheck and when
// there is news of a rotation, until ctx ends. A failed
// renewal is tried again each minute and logged once an hour: half of a certificate's life is left
// for it.
func (n *renewal) run(ctx context.Context) {
	check := time.NewTicker(renewCheck)
	defer check.Stop()
	var warned time.Time
	for {
		_, changed := n.cfg.Identity.Revocations().Current() // also ends with a stage of a rotation
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
		n.rotate(ctx)
		select {
		case <-check.C:
		case <-n.woken:
		case <-changed.Done():
		case <-ctx.Done():
			return
		}
	}
}

// renewNow renews from the first connected node that holds the authority, or by itself when this
// node does. It returns errNoAuthority when no such node is connected, else the last error.
func (n *renewal) renewNow(ctx context.Context) error {
	if local, err := n.cfg.Identity.RenewHere(); local {
		return err
	}
	err := errNoAuthority
	if !n.hasHolder() {
		n.connectHolder(ctx)
	}
	for l := range n.links.all() {
		if !l.about.authority.Load() {
			continue
		}
		if err = n.renewFrom(ctx, l); err == nil {
			return nil
		}
		err = fmt.Errorf("node %s: %w", l.peer.ID, err)
	}
	return err
}

// hasHolder reports whether there is a link to a node that holds the authority.
func (n *renewal) hasHolder() bool {
	for l := range n.links.all() {
		if l.about.authority.Load() {
			return true
		}
	}
	return false
}

// connectHolder makes a link to one node that holds the authority, if such nodes are members without one.
func (n *renewal) connectHolder(ctx context.Context) {
	for _, id := range n.members.holders() {
		ctx, cancel := context.WithTimeout(ctx, renewTimeout)
		_, err := n.members.connect(ctx, id, n.members.addrs(id))
		cancel()
		if err == nil {
			return
		}
	}
}

// renewFrom asks the node of l for the next certificate and stores it.
func (n *renewal) renewFrom(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	request, err := n.cfg.Identity.RenewRequest()
	if err != nil {
		return err
	}
	reply, err := pb.NewJoinClient(l.wire.grpc).Renew(ctx, request, grpc.MaxCallRecvMsgSize(maxJoinMessage))
	if err != nil {
		return joinError(err)
	}
	return n.cfg.Identity.Renewed(reply)
}

// renewAt renews this node's certificate at an endpoint after it has ended. Other nodes accept only this
// request from an ended certificate, on a connection with the ALPN of joins. expect is the node
// that should be there; "" is any node of the cluster.
func (n *renewal) renewAt(at endpoint, expect community.NodeID) error {
	raw, err := n.connect(at)
	if err != nil {
		return err
	}
	defer raw.Close()
	ctx, cancel := context.WithTimeout(n.life.search, renewTimeout)
	defer cancel()
	conn := tls.Client(raw, n.cfg.Identity.ProtocolClientTLS(identity.JoinProtocol, expect))
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
