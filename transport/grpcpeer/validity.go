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

// A connection is no better than its certificates: it is closed when one of them has ended. Nodes renew
// theirs long before, and show them to each other over the connections that are open, so that nobody
// notices who is renewed in time.

var errLapsed = errors.New("its certificate ended while it was connected")

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
func (n *Network) showAll(ctx context.Context) {
	der, err := n.cfg.Identity.Certificate()
	if err != nil {
		n.cfg.Logger.Warn("no certificate to show", "err", err)
		return
	}
	ours := n.cfg.Identity.NotAfter()
	n.links.Range(func(_, v any) bool {
		l := v.(*link)
		if !ours.After(l.ours.end().Add(time.Second)) && time.Until(l.theirs.end()) > l.half {
			return true
		}
		if err := n.show(ctx, l, der, ours); err != nil {
			n.cfg.Logger.Debug("certificate not shown", "node", l.peer.ID, "err", err)
		}
		return ctx.Err() == nil
	})
}

func (n *Network) show(ctx context.Context, l *link, der []byte, ours time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	reply, err := pb.NewTrustClient(l.grpc).Show(ctx, &pb.ShowRequest{Certificate: der}, grpc.MaxCallRecvMsgSize(joinSize))
	if err != nil {
		return joinRefused(err)
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
func (d *trustDesk) Show(ctx context.Context, r *pb.ShowRequest) (*pb.ShowReply, error) {
	who, ok := callerOf(ctx)
	if !ok {
		return nil, joinRefusal(identity.ErrBadRequest)
	}
	end, err := d.cfg.Identity.Extend(who.Peer, r.GetCertificate())
	if err != nil {
		return nil, joinRefusal(fmt.Errorf("%w: %w", identity.ErrBadRequest, err))
	}
	who.term.extend(end)
	der, err := d.cfg.Identity.Certificate()
	if err != nil {
		return nil, joinRefusal(err)
	}
	return &pb.ShowReply{Certificate: der}, nil
}

// closeLapsed closes the connections, in both directions, whose other end has a certificate that ended.
func (n *Network) closeLapsed(now time.Time) {
	n.links.Range(func(_, v any) bool {
		if l := v.(*link); identity.Lapsed(l.theirs.end(), now) && !l.lapsed.Swap(true) {
			l.closed.Store(true)
			l.raw.Close() // the stream that is watched fails, and with it the lease and the calls
		}
		return true
	})
	for _, who := range n.doors.crowd.lapsed(now) {
		n.turnedAway(who.RemoteAddr(), errLapsed)
		who.cut()
	}
}

// lapsed are the connections that rest on a certificate that has ended.
func (c *crowd) lapsed(now time.Time) (out []*guest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, all := range c.of {
		for _, g := range all {
			if g.term.seconds.Load() > 0 && identity.Lapsed(g.term.end(), now) {
				out = append(out, g)
			}
		}
	}
	return out
}
