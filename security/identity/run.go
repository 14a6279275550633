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

// Run is one run of a node's process. A mark that it signs shows that a process with the node's key
// ran at some instant. If that was another process at the same time, the key was copied: two
// machines with one key would look like one node.
type Run struct {
	identity *Identity
	// instance is a random text (crypto/rand.Text) that tells runs apart.
	instance string
	// started is by the clock of this machine; runs of two machines compare as well as their clocks
	// do.
	started time.Time
}

// NewRun returns a run that begins now.
func (i *Identity) NewRun() *Run {
	return &Run{identity: i, instance: rand.Text(), started: time.Now()}
}

// Mark returns a statement, signed with the node's key, that this run goes on at this instant.
func (r *Run) Mark() *pb.Run {
	m := &pb.Run{Instance: r.instance, Started: timestamppb.New(r.started), Now: timestamppb.Now()}
	m.Signature = ed25519.Sign(r.identity.cred.key.private(), markText(m))
	return m
}

// Twin reports whether the mark is of another run of the same node that still went on after this
// one had begun, and whether this run is the later of the two. It returns false for a mark that
// this node's key did not sign: other nodes cannot make one node look like two.
func (r *Run) Twin(m *pb.Run) (twin, later bool) {
	if m == nil || m.GetInstance() == r.instance || !ed25519.Verify(r.identity.cred.key.public(), markText(m), m.GetSignature()) {
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

// markText returns what the signature of a mark covers: a line for its purpose, both times in
// nanoseconds as 8 bytes each, big-endian, and the instance.
func markText(m *pb.Run) []byte {
	b := []byte("symbio run v1\n")
	b = binary.BigEndian.AppendUint64(b, uint64(m.GetStarted().AsTime().UnixNano()))
	b = binary.BigEndian.AppendUint64(b, uint64(m.GetNow().AsTime().UnixNano()))
	return append(b, m.GetInstance()...)
}
