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

func (v *validity) extend(end time.Time) {
	for was := v.seconds.Load(); end.Unix() > was && !v.seconds.CompareAndSwap(was, end.Unix()); {
		was = v.seconds.Load()
	}
}

func (v *validity) end() time.Time { return time.Unix(v.seconds.Load(), 0) }

// showAll shows this node's certificate over each link that rests on an older one, and asks for that of each
// node whose own has passed half its life.
func (n *renewal) showAll(ctx context.Context) {
	der, err := n.cfg.Identity.Certificate()
	if err != nil {
		n.cfg.Logger.Warn("no certificate to show", "err", err)
		return
	}
	ours := n.cfg.Identity.NotAfter()
	for l := range n.links.all() {
		if ctx.Err() != nil || !ours.After(l.ours.end().Add(time.Second)) && time.Until(l.theirs.end()) > l.halfLife {
			continue
		}
		if err := n.show(ctx, l, der, ours); err != nil {
			n.cfg.Logger.Debug("certificate not shown", "node", l.peer.ID, "err", err)
		}
	}
}

func (n *renewal) show(ctx context.Context, l *link, der []byte, ours time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	reply, err := pb.NewTrustClient(l.grpc).Show(ctx, &pb.ShowRequest{Certificate: der}, grpc.MaxCallRecvMsgSize(maxJoinMessage))
	if err != nil {
		return joinError(err)
	}
	l.ours.extend(ours)
	end, err := n.cfg.Identity.Extend(identity.Peer{ID: l.peer.ID, Authority: l.peer.Authority, Role: l.peer.Role}, reply.GetCertificate())
	if err != nil {
		return err
	}
	l.theirs.extend(end)
	return nil
}

// Show answers a node that has renewed its certificate.
func (d *trustService) Show(ctx context.Context, r *pb.ShowRequest) (*pb.ShowReply, error) {
	remote, ok := callerOf(ctx)
	if !ok {
		return nil, joinStatus(identity.ErrBadRequest)
	}
	end, err := d.cfg.Identity.Extend(remote.Peer, r.GetCertificate())
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

// closeExpired closes the connections, in both directions, whose other end has a certificate that ended.
func (n *renewal) closeExpired(now time.Time) {
	for l := range n.links.all() {
		if identity.Lapsed(l.theirs.end(), now) && !l.expired.Swap(true) {
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
