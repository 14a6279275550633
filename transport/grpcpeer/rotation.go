package grpcpeer

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// The authority of a cluster is replaced in stages (identity.Rotation). A message says which; it comes with everything that
// nodes tell each other of themselves, and each node that takes it tells the others so. A holder of the authority begins the
// next stage when all nodes are ready for it.

const (
	// maxStanding is the longest Standing of another node, in bytes.
	maxStanding = 4 << 10
	// stageTime is for how long a stage waits for nodes that are not ready: by then their certificates have ended.
	stageTime = 7 * 24 * time.Hour
)

// takeStanding takes what a node says of its part in a rotation. Only what the authority has signed has an effect on trust.
func (n *renewal) takeStanding(from community.NodeID, s *pb.Standing) {
	if s == nil || proto.Size(s) > maxStanding {
		return
	}
	if took, err := n.cfg.Identity.Rotation().Take(s.GetSuccession()); err != nil {
		n.cfg.Logger.Warn("new authority of the cluster", "from", from, "taken", took, "err", err)
	} else if took {
		n.cfg.Logger.Info("the cluster gets another authority", "stage", s.GetSuccession().GetStage(), "from", from)
	}
	n.standings.Store(from, s)
	select {
	case n.woken <- struct{}{}:
	default:
	}
}

// standing returns the latest Standing of a node, nil if it has sent none.
func (n *renewal) standing(id community.NodeID) *pb.Standing {
	s, _ := n.standings.Load(id)
	standing, _ := s.(*pb.Standing)
	return standing
}

// rotate goes on with a rotation if this node has both keys: other holders get the new key, and the next stage begins when no
// node is waited for, or for long enough.
func (n *renewal) rotate(ctx context.Context) {
	r := n.cfg.Identity.Rotation()
	state, c := r.State(), n.cfg.Identity.Cluster()
	if c == nil || state.Stage == identity.StageNone || state.Stage == identity.StageDone || !r.Standing().GetHasKey() {
		return
	}
	for _, id := range n.members.holders() {
		if state.Stage == identity.StageTrust && !n.standing(id).GetHasKey() {
			_, _ = n.members.connect(ctx, id, n.members.addrs(id)) // tried again in a minute
		}
	}
	for l := range n.links.all() {
		s := n.standing(l.peer.ID)
		if state.Stage != identity.StageTrust || !l.about.authority.Load() || r.Progress(s) != identity.ProgressTrusts || s.GetHasKey() {
			continue
		}
		if err := n.entrust(ctx, l, c); err != nil {
			n.cfg.Logger.Warn("the new authority was not sent to another holder", "node", l.peer.ID, "err", err)
		}
	}
	waiting, err := n.waiting(false)
	if err == nil && (len(waiting) == 0 || time.Since(state.Since) > stageTime) {
		err = r.Advance(state.Stage)
	}
	if err != nil {
		n.cfg.Logger.Warn("the rotation of the authority does not go on", "err", err)
	}
}

// waiting returns the names of the nodes that are not ready for the stage after the present one; with now, of those that are
// connected. Nodes that are off count as long as their certificate has not ended.
func (n *renewal) waiting(now bool) (names []string, err error) {
	r := n.cfg.Identity.Rotation()
	stage := r.State().Stage
	if stage == identity.StageNone || stage == identity.StageDone {
		return nil, nil
	}
	if stage == identity.StageCertify && !r.Standing().GetCertified() {
		names = append(names, n.cfg.Name)
	}
	connected := map[community.NodeID]bool{n.self(): true}
	add := func(id community.NodeID, name string, holds bool) {
		s := n.standing(id)
		progress := r.Progress(s)
		if progress == identity.ProgressOld || stage == identity.StageCertify && progress != identity.ProgressCertified ||
			stage == identity.StageTrust && holds && !s.GetHasKey() {
			names = append(names, name)
		}
	}
	for l := range n.links.all() {
		connected[l.peer.ID] = true
		add(l.peer.ID, l.peer.Name, l.about.authority.Load())
	}
	for _, s := range n.members.list(connected) {
		add(s.ID, s.Name, s.Authority)
	}
	c := n.cfg.Identity.Cluster()
	if now || c == nil {
		return names, nil
	}
	all, err := c.Nodes()
	for _, one := range all {
		if !one.Removed && !connected[one.ID] && time.Now().Before(one.Expires) {
			add(one.ID, one.Name, one.IsHolder())
		}
	}
	return names, err
}

// Rotate begins to replace the authority of the cluster, if begin is set, and returns the stage, and the names of the nodes
// that it waits for. Nodes go on with it by themselves. With now it waits for connected nodes only, and begins also while
// nodes may come back that were off in an earlier rotation; these are lost. It returns identity.ErrNoAuthority where the authority is not held,
// identity.ErrLocked and identity.ErrRotating.
func (n *Network) Rotate(begin, now bool) (identity.Stage, []string, error) {
	r := n.cfg.Identity.Rotation()
	if n.cfg.Identity.Cluster() == nil {
		return 0, nil, identity.ErrNoAuthority
	}
	if begin {
		if err := r.Begin(now); err != nil {
			return 0, nil, err
		}
	}
	waiting, err := n.server.renewal.waiting(now)
	if err == nil && now && len(waiting) == 0 {
		err = r.Advance(r.State().Stage)
	}
	return r.State().Stage, waiting, err
}

// isReplaced reports whether the other end of a handshake may have refused this node because the authority was replaced while
// this node was off. A node that holds the authority then renews its certificate (renewAt).
func (n *renewal) isReplaced(err error) bool {
	return n.cfg.Identity.Authority() != identity.Local && !errors.Is(err, identity.ErrRemoved) &&
		(errors.Is(err, identity.ErrRejected) || errors.Is(err, identity.ErrOtherAuthority))
}
