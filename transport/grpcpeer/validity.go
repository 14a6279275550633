package grpcpeer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// A connection is closed when a certificate that it rests on has ended. Nodes renew theirs long before, and show
// them to each other over the connections that are open, so that a connection lasts.

var errExpired = errors.New("its certificate ended while it was connected")

// validity is until when a certificate that a connection rests on is good. It only grows.
type validity struct{ seconds atomic.Int64 }

// extend moves the end to a later time; an earlier one is ignored. It may be called concurrently,
// hence the compare-and-swap loop.
func (v *validity) extend(end time.Time) {
	for was := v.seconds.Load(); end.Unix() > was && !v.seconds.CompareAndSwap(was, end.Unix()); {
		was = v.seconds.Load()
	}
}

// end returns the end in whole seconds, which is the precision of certificates.
func (v *validity) end() time.Time { return time.Unix(v.seconds.Load(), 0) }

// certificateTerms are until when the certificates are good that each end of a link has shown; halfLife is half
// the life of the node's.
type certificateTerms struct {
	theirs, ours validity
	halfLife     time.Duration
}

// showAll presents this node's current certificate on each link whose other end has seen an older
// one, and asks for the other end's certificate once half of its lifetime is over. Links that are
// up to date cost nothing. Failures are logged at Debug: the next round tries again, after
// renewCheck.
func (n *renewal) showAll(ctx context.Context) {
	der, err := n.cfg.Identity.Certificate()
	if err != nil {
		n.cfg.Logger.Warn("no certificate to show", "err", err)
		return
	}
	ours := n.cfg.Identity.NotAfter()
	for l := range n.links.all() {
		if ctx.Err() != nil || !ours.After(l.certs.ours.end().Add(time.Second)) && time.Until(l.certs.theirs.end()) > l.certs.halfLife {
			continue
		}
		if err := n.show(ctx, l, der, ours); err != nil {
			n.cfg.Logger.Debug("certificate not shown", "node", l.peer.ID, "err", err)
		}
	}
}

// show exchanges certificates with the node of l and extends both validities. The new certificate
// must be of the same node and authority (newEnd).
func (n *renewal) show(ctx context.Context, l *link, der []byte, ours time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	reply, err := pb.NewTrustClient(l.wire.grpc).Show(ctx, &pb.ShowRequest{Certificate: der}, grpc.MaxCallRecvMsgSize(maxJoinMessage))
	if err != nil {
		return joinError(err)
	}
	l.certs.ours.extend(ours)
	end, err := newEnd(n.cfg.Identity, identity.Peer{ID: l.peer.ID, Authority: l.peer.Authority, Role: l.peer.Role, Labels: l.peer.Labels}, reply.GetCertificate())
	if err != nil {
		return err
	}
	l.certs.theirs.extend(end)
	return nil
}

// Show takes the caller's newer certificate, which extends the life of the caller's connection, and
// returns this node's own.
func (d *trustService) Show(ctx context.Context, r *pb.ShowRequest) (*pb.ShowReply, error) {
	remote, ok := callerOf(ctx)
	if !ok {
		return nil, joinStatus(identity.ErrBadRequest)
	}
	end, err := newEnd(d.cfg.Identity, remote.Peer, r.GetCertificate())
	if err != nil {
		return nil, joinStatus(fmt.Errorf("%w: %w", identity.ErrBadRequest, err))
	}
	remote.validity.extend(end)
	der, err := d.cfg.Identity.Certificate()
	if err != nil {
		return nil, joinStatus(err)
	}
	return &pb.ShowReply{Certificate: der}, nil
}

// newEnd returns until when an open connection with a peer that the handshake has proven may stay open by a newer certificate
// that the peer shows. A copied certificate extends nothing, since the connection has proven the key.
func newEnd(own *identity.Identity, who identity.Peer, der []byte) (time.Time, error) {
	c, err := own.VerifyCertificate(der)
	if err == nil && c.Peer != who {
		err = identity.ErrWrongNode
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("the newer certificate of node %s: %w", who.ID, err)
	}
	return c.NotAfter, nil
}

// closeExpired closes every connection, outgoing or incoming, whose other end's certificate has
// ended. TLS checks certificates at the handshake only, and connections last for weeks.
func (n *renewal) closeExpired(now time.Time) {
	for l := range n.links.all() {
		if identity.Lapsed(l.certs.theirs.end(), now) && !l.reason.expired.Swap(true) {
			l.abort()
		}
	}
	ended := func(_ identity.NodeID, g *slotConn) bool {
		return g.validity.seconds.Load() > 0 && identity.Lapsed(g.validity.end(), now)
	}
	for _, g := range n.conns.all(ended) {
		n.refuseConnection(g.RemoteAddr(), errExpired)
		g.abort()
	}
}
