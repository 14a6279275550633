package grpcpeer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// hear takes a list of removed nodes from another one. A list that is not signed says something about
// who sent it, and nothing about who is on it.
func (n *Network) hear(from community.NodeID, list *pb.Revocations) {
	if _, err := n.cfg.Identity.Revocations().Update(list); err != nil {
		n.cfg.Logger.Warn("list of removed nodes", "from", from, "err", err)
	}
}

// guard closes the connections of nodes as they are removed, until ctx ends. Handshakes look at the list
// by themselves.
func (n *Network) guard(ctx context.Context) {
	told := false
	for {
		revoked := n.cfg.Identity.Revocations()
		_, changed := revoked.Current()
		n.doors.crowd.expel(revoked)
		n.links.Range(func(_, v any) bool {
			v.(*link).expelIf(revoked)
			return true
		})
		if revoked.Has(identity.NodeID(n.self)) && !told {
			told = true
			n.records.tell(Event{Kind: Refused, Node: n.self, Name: n.cfg.Name, Why: fmt.Sprintf(
				"this node itself was removed from cluster %s: no other node talks to it any more", n.cfg.Identity.Authority())})
		}
		select {
		case <-changed.Done():
		case <-ctx.Done():
			return
		}
	}
}

// expelIf ends the link when its node was removed.
func (l *link) expelIf(revoked *identity.Revocations) {
	if revoked.Has(identity.NodeID(l.peer.ID)) && !l.removed.Swap(true) {
		l.closed.Store(true)
		l.raw.Close() // the stream that is watched fails, and with it the lease and the calls
	}
}

const (
	renewCheck   = time.Minute // also after a sleep of the machine, which stops timers
	renewTimeout = 10 * time.Second
	renewGrumble = time.Hour
)

var errNoAuthority = errors.New("no node that holds the cluster's authority is connected")

// renew asks the authority for the next certificate when half the life of the one in use is over, until
// ctx ends.
func (n *Network) renew(ctx context.Context) {
	check := time.NewTicker(renewCheck)
	defer check.Stop()
	var said time.Time
	for {
		if n.cfg.Identity.Due() {
			err := n.renewNow(ctx)
			switch {
			case err == nil:
				n.cfg.Logger.Info("certificate renewed", "until", n.cfg.Identity.NotAfter())
			case ctx.Err() == nil && time.Since(said) >= renewGrumble:
				said = time.Now()
				n.cfg.Logger.Warn("certificate not renewed yet", "until", n.cfg.Identity.NotAfter(), "err", err)
			}
		}
		select {
		case <-check.C:
		case <-ctx.Done():
			return
		}
	}
}

// renewNow asks each connected node that holds the authority, until one answers.
func (n *Network) renewNow(ctx context.Context) error {
	err := errNoAuthority
	n.links.Range(func(_, v any) bool {
		if l := v.(*link); l.authority {
			err = n.renewFrom(ctx, l)
		}
		return err != nil
	})
	return err
}

func (n *Network) renewFrom(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	request, err := n.cfg.Identity.RenewRequest()
	if err != nil {
		return err
	}
	reply, err := pb.NewJoinClient(l.grpc).Renew(ctx, request, grpc.MaxCallRecvMsgSize(joinSize))
	if err != nil {
		return fmt.Errorf("node %s: %w", l.peer.ID, joinRefused(err))
	}
	return n.cfg.Identity.Renewed(reply)
}
