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

// hear takes lists of removed nodes from another one. A list that is not signed says something about
// who sent it, and nothing about who is on it.
func (n *Network) hear(from community.NodeID, lists ...*pb.Revocations) {
	for _, list := range lists[:min(len(lists), maxHeard)] {
		if _, err := n.cfg.Identity.Revocations().Update(list); err != nil {
			n.cfg.Logger.Warn("list of removed nodes", "from", from, "err", err)
		}
	}
}

// maxHeard is how many lists one message may bring: more than a node keeps.
const maxHeard = 16

// listsOf are the lists of removed nodes that hold, the newest apart from the others.
func listsOf(id *identity.Identity) (newest *pb.Revocations, more []*pb.Revocations) {
	all, _ := id.Revocations().Lists()
	if len(all) == 0 {
		return nil, nil
	}
	return all[0], all[1:]
}

// bulletin is what a watcher is told of the cluster.
type bulletin struct {
	identity *identity.Identity
	sent     map[string]bool // signatures of lists
	holds    bool            // that this node holds the authority
}

// send tells what is new, if it may speak yet, and returns what ends when there is a new list.
func (b *bulletin) send(stream grpc.ServerStreamingServer[pb.CatalogEvent], may bool) (changed context.Context, err error) {
	lists, changed := b.identity.Revocations().Lists()
	if !may {
		return changed, nil
	}
	if !b.holds && b.identity.Cluster() != nil {
		b.holds = true
		if err := stream.Send(&pb.CatalogEvent{Event: &pb.CatalogEvent_HoldsAuthority{HoldsAuthority: true}}); err != nil {
			return changed, err
		}
	}
	now := map[string]bool{}
	for _, list := range lists {
		now[string(list.GetSignature())] = true
		if b.sent[string(list.GetSignature())] {
			continue
		}
		if err := stream.Send(&pb.CatalogEvent{Event: &pb.CatalogEvent_Revocations{Revocations: list}}); err != nil {
			return changed, err
		}
	}
	b.sent = now
	return changed, nil
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

// renew asks the authority for the next certificate when half the life of the one in use is over, shows it
// over the connections that are open, and closes those whose certificate has ended, until ctx ends.
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
		n.showAll(ctx)
		n.closeLapsed(time.Now())
		select {
		case <-check.C:
		case <-ctx.Done():
			return
		}
	}
}

// renewNow asks each connected node that holds the authority, until one answers. A node that holds it asks
// nobody.
func (n *Network) renewNow(ctx context.Context) error {
	if here, err := n.cfg.Identity.RenewHere(); here {
		return err
	}
	err := errNoAuthority
	n.links.Range(func(_, v any) bool {
		if l := v.(*link); l.authority.Load() {
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
