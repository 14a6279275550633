package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "symbio/proto/symbio/v1"
)

// Run is one run of a node's process. What it signs shows that a process with the node's key ran at some
// instant: if it was not this process, the key was copied.
type Run struct {
	identity *Identity
	instance string
	started  time.Time
}

// NewRun returns a run that begins now.
func (i *Identity) NewRun() *Run {
	return &Run{identity: i, instance: rand.Text(), started: time.Now()}
}

// Mark returns a statement, signed with the node's key, that this run goes on at this instant.
func (r *Run) Mark() *pb.Run {
	m := &pb.Run{Instance: r.instance, Started: timestamppb.New(r.started), Now: timestamppb.Now()}
	m.Signature = ed25519.Sign(r.identity.key.private(), markText(m))
	return m
}

// Twin reports whether the mark is of another run of the same node that went on after this one had begun,
// and whether this run is the later of the two. A mark that this node's key did not sign is ignored: no
// other node can make two nodes of one.
func (r *Run) Twin(m *pb.Run) (twin, later bool) {
	if m == nil || m.GetInstance() == r.instance || !ed25519.Verify(r.identity.key.public(), markText(m), m.GetSignature()) {
		return false, false
	}
	if !m.GetNow().AsTime().After(r.started) {
		return false, false // a run that ended before this one began: this node was started again
	}
	return true, Later(&pb.Run{Instance: r.instance, Started: timestamppb.New(r.started)}, m)
}

// Later reports whether a began after b. Runs that began at the same instant have an order,
// too, so that both machines name the same one as the copy.
func Later(a, b *pb.Run) bool {
	if c := a.GetStarted().AsTime().Compare(b.GetStarted().AsTime()); c != 0 {
		return c > 0
	}
	return strings.Compare(a.GetInstance(), b.GetInstance()) > 0
}

func markText(m *pb.Run) []byte {
	b := []byte("symbio run v1\n")
	b = binary.BigEndian.AppendUint64(b, uint64(m.GetStarted().AsTime().UnixNano()))
	b = binary.BigEndian.AppendUint64(b, uint64(m.GetNow().AsTime().UnixNano()))
	return append(b, m.GetInstance()...)
}
