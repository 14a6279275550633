package identity

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	pb "symbio/proto/symbio/v1"
)

// An assignment says, signed by the authority, which role and labels a node has in place of its certificate. It
// travels in the lists of removed nodes. The latest one of a node counts, also when the node joins again with its key.

// Assign gives the node with that id another role and other labels, each KEY=VALUE, in place of all that it has. Nodes learn it
// from each other, and judge calls by it at once. It returns ErrRole or ErrLabel for what is none.
func (l Ledger) Assign(id NodeID, role string, labels []string) error {
	given, err := ParseLabels(labels)
	if err != nil {
		return err
	}
	if !label(role) {
		return fmt.Errorf("role %q: %w: want lower-case letters, digits and - inside", role, ErrRole)
	}
	for {
		// errStale: see Cluster.Remove.
		err := l.cluster.revoked.assign(&pb.Assignment{Node: string(id), Role: role, Labels: given.List()})
		if !errors.Is(err, errStale) {
			return err
		}
		if err := l.cluster.revoked.Reload(); err != nil {
			return err
		}
	}
}

// Assigned returns the node p with the role and labels that the authority has assigned to it; p as it is if it has none. It does
// not read the disk or lock: each call of another node needs it.
func (r *Revocations) Assigned(p Peer) Peer {
	if r == nil {
		return p
	}
	if all := r.assigned.Load(); all != nil {
		if a := (*all)[p.ID]; a != nil {
			p.Role, p.Labels = a.GetRole(), Labels(joinLabels(a.GetLabels()))
		}
	}
	return p
}

// assign signs an assignment for the present instant, and a list that has it.
func (r *Revocations) assign(a *pb.Assignment) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	issuer := r.authority.all().issuer()
	signer, err := issuer.signer()
	if err != nil {
		return err
	}
	a.Since = time.Now().UnixNano()
	all := r.copyAssigned()
	if old := all[NodeID(a.GetNode())]; old != nil {
		a.Since = max(a.Since, old.GetSince()+1) // another holder's clock may be ahead
	}
	all[NodeID(a.GetNode())] = signAssignment(a, issuer.hash(), signer)
	return r.sign(all)
}

// copyAssigned returns the assignments in a map that may be changed.
func (r *Revocations) copyAssigned() map[NodeID]*pb.Assignment {
	all := map[NodeID]*pb.Assignment{}
	if now := r.assigned.Load(); now != nil {
		maps.Copy(all, *now)
	}
	return all
}

// takeAssignments takes over what a list that check has accepted says. The caller holds r.mu.
func (r *Revocations) takeAssignments(list *pb.Revocations) {
	all := r.copyAssigned()
	for _, a := range list.GetAssignments() {
		if follows(a, all[NodeID(a.GetNode())]) {
			all[NodeID(a.GetNode())] = a
		}
	}
	maps.DeleteFunc(all, func(id NodeID, _ *pb.Assignment) bool { _, removed := r.nodes[id]; return removed })
	r.assigned.Store(&all)
}

// follows reports whether a counts in place of b, which may be nil. Of two of one instant all nodes choose the same.
func follows(a, b *pb.Assignment) bool {
	return b == nil || cmp.Or(cmp.Compare(a.GetSince(), b.GetSince()), bytes.Compare(a.GetSignature(), b.GetSignature())) >= 0
}

// coversAssignments reports whether a says as much as b: the same of each node or something later, or that it was removed.
func coversAssignments(a, b *pb.Revocations) bool {
	has := make(map[string]*pb.Assignment, len(a.GetAssignments()))
	for _, one := range a.GetAssignments() {
		has[one.GetNode()] = one
	}
	return !slices.ContainsFunc(b.GetAssignments(), func(one *pb.Assignment) bool {
		known := has[one.GetNode()]
		return (known == nil || !follows(known, one)) && !slices.Contains(a.GetNodes(), one.GetNode())
	})
}

// checkAssignments returns an error unless one of the authorities in by has signed each assignment of a list, and they are sorted
// by node. Those that are known are not verified again. The caller has checked the size of the list, and holds r.mu.
func (r *Revocations) checkAssignments(list *pb.Revocations, by lineage) error {
	known, last := r.copyAssigned(), ""
	for _, a := range list.GetAssignments() {
		_, wrong := ParseLabels(a.GetLabels())
		switch {
		case a.GetNode() <= last || !label(a.GetRole()) || wrong != nil || !slices.IsSorted(a.GetLabels()):
			return fmt.Errorf("a list of removed nodes has an assignment of the wrong form, to %.40q", a.GetNode())
		case !proto.Equal(known[NodeID(a.GetNode())], a) && !slices.ContainsFunc(by, func(one *Authority) bool { return isAssigned(a, one.hash(), one.public()) }):
			return errors.New("an assignment is not signed by the cluster's authority")
		}
		last = a.GetNode()
	}
	return nil
}

// isAssigned reports whether an authority has signed the assignment. hash is of its certificate, public its key.
func isAssigned(s *pb.Assignment, hash [sha256.Size]byte, public ed25519.PublicKey) bool {
	return ed25519.Verify(public, assignmentText(s, hash), s.GetSignature())
}

// signAssignment returns an assignment as it is if the authority with that hash and key has signed it, else one for the next instant
// that it signs: an earlier authority of the cluster did, which nodes forget. All holders sign the same one.
func signAssignment(s *pb.Assignment, hash [sha256.Size]byte, key ed25519.PrivateKey) *pb.Assignment {
	if isAssigned(s, hash, key.Public().(ed25519.PublicKey)) {
		return s
	}
	s = proto.CloneOf(s)
	s.Since++
	s.Signature = ed25519.Sign(key, assignmentText(s, hash))
	return s
}

// assignmentText returns what the signature of an assignment covers: a line for its purpose, the hash of the authority's
// certificate, the instant, and each text behind its length, as text does.
func assignmentText(s *pb.Assignment, hash [sha256.Size]byte) []byte {
	b := append([]byte("symbio assignment v1\n"), hash[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.GetSince()))
	for _, part := range []string{s.GetNode(), s.GetRole(), joinLabels(s.GetLabels())} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	return b
}
