package identity

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	pb "symbio/proto/symbio/v1"
)

const (
	// maxRemoved bounds the list: a cluster of 20 machines that replaces all of them weekly needs 4 years.
	maxRemoved = 4096
	// listSize is more than a list of maxRemoved ids has.
	listSize  = 256 << 10
	listStart = "removed-"
	// maxLists bounds the lists that know nothing of each other: one for each machine with the authority that
	// removed somebody while it was alone.
	maxLists = 8
)

// errStale says that a list is not newer than the one there is.
var errStale = errors.New("the list of removed nodes is not newer than the one here")

// Revocations are the nodes that were removed from a cluster, by the lists that its authority signed. One
// list replaces another when it has a higher epoch and everybody who is on the other. Where two machines
// hold the authority, two lists may be made that know nothing of each other: then both hold, and are handed
// on, until a machine with the authority signs one for both. So a node that was removed stays removed,
// whatever is heard in which order. Lists are kept as files, made once and never written over, so that
// several processes may use them. A nil *Revocations is an empty list that nothing changes.
type Revocations struct {
	mu        sync.Mutex
	authority *Authority          // its key may come later; guarded by mu
	dirs      []string            // where the lists are kept: each has all; guarded by mu
	lists     []*pb.Revocations   // none replaces another, the highest epoch first; guarded by mu; never written to
	nodes     map[NodeID]struct{} // guarded by mu
	changed   context.Context     // ends with the next change; guarded by mu
	tell      context.CancelFunc  // guarded by mu
}

// openRevocations reads the lists in dir.
func openRevocations(a *Authority, dir string) (*Revocations, error) {
	r := &Revocations{authority: a, dirs: []string{dir}, nodes: map[NodeID]struct{}{}}
	r.changed, r.tell = context.WithCancel(context.Background())
	return r, r.Reload()
}

// Has reports whether the node was removed.
func (r *Revocations) Has(id NodeID) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, removed := r.nodes[id]
	return removed
}

// Count is how many nodes were removed.
func (r *Revocations) Count() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.nodes)
}

// Current returns the newest list, nil when there was never one, and a context that ends with the next
// change. The list is shared: it must not be changed.
func (r *Revocations) Current() (*pb.Revocations, context.Context) {
	all, changed := r.Lists()
	if len(all) == 0 {
		return nil, changed
	}
	return all[0], changed
}

// Lists returns the lists that hold, the newest first, and a context that ends when there is another. There
// is more than one only until a machine with the authority has heard of all. They are shared: they must not
// be changed.
func (r *Revocations) Lists() ([]*pb.Revocations, context.Context) {
	if r == nil {
		return nil, context.Background()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lists, r.changed
}

// Update takes a list from another node when it is signed and says anything new, keeps it, and reports
// whether it did. A list that says nothing new is no error: every node hands on what it has.
func (r *Revocations) Update(list *pb.Revocations) (bool, error) {
	if r == nil || list == nil || list.GetEpoch() == 0 {
		return false, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	took, err := r.take(list)
	if err != nil || !took {
		return took, err
	}
	// What cannot be kept holds until this process ends.
	return true, errors.Join(r.keepAll(), r.settle())
}

// Reload reads again what is kept, for another process may have added to it.
func (r *Revocations) Reload() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(); err != nil {
		return err
	}
	return r.settle()
}

// load takes the lists that are kept. The caller holds r.mu.
func (r *Revocations) load() error {
	for _, dir := range r.dirs {
		kept, err := storedLists(dir)
		if err != nil {
			return err
		}
		for _, k := range slices.Backward(kept) { // the newest replaces the others
			if err := r.read(k); err != nil && !errors.Is(err, fs.ErrNotExist) { // another process has tidied up
				return err
			}
		}
	}
	return nil
}

// add signs a list with one more node. errStale: another process was faster; Reload and try again.
func (r *Revocations) add(id NodeID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, there := r.nodes[id]; there {
		return nil
	}
	if len(r.nodes) >= maxRemoved {
		return fmt.Errorf("%d nodes were removed from this cluster, more than it keeps: make a new cluster", len(r.nodes))
	}
	return r.sign(id)
}

// settle signs one list for all that hold, where the authority is. Two machines that do so at once sign the
// same. The caller holds r.mu.
func (r *Revocations) settle() error {
	for len(r.lists) > 1 && r.authority.private != nil && len(r.nodes) <= maxRemoved {
		err := r.sign()
		if errors.Is(err, errStale) {
			err = r.load()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sign makes the next list: everybody who was removed, and who else is named. The caller holds r.mu.
func (r *Revocations) sign(more ...NodeID) error {
	list := &pb.Revocations{Epoch: 1}
	if len(r.lists) > 0 {
		list.Epoch = r.lists[0].GetEpoch() + 1
	}
	for id := range r.nodes {
		list.Nodes = append(list.Nodes, string(id))
	}
	for _, id := range more {
		list.Nodes = append(list.Nodes, string(id))
	}
	slices.Sort(list.Nodes)
	list.Signature = ed25519.Sign(r.authority.private(), r.text(list))
	if err := r.write(list); errors.Is(err, fs.ErrExist) {
		return errStale
	} else if err != nil {
		return fmt.Errorf("keep the list of removed nodes: %w", err)
	}
	_, err := r.take(list)
	return errors.Join(err, r.keepAll())
}

// take makes a list hold unless it says nothing new, and drops those that it replaces. The caller holds r.mu.
func (r *Revocations) take(list *pb.Revocations) (bool, error) {
	if slices.ContainsFunc(r.lists, func(have *pb.Revocations) bool { return replaces(have, list) }) {
		return false, nil
	}
	if err := r.check(list); err != nil {
		return false, err
	}
	list = proto.CloneOf(list)
	all := slices.DeleteFunc(slices.Clone(r.lists), func(have *pb.Revocations) bool { return replaces(list, have) })
	if len(all) >= maxLists {
		return false, fmt.Errorf("over %d lists of removed nodes that know nothing of each other: start a node that holds the authority", maxLists)
	}
	r.lists = append(all, list)
	slices.SortFunc(r.lists, func(a, b *pb.Revocations) int {
		return cmp.Or(cmp.Compare(b.GetEpoch(), a.GetEpoch()), bytes.Compare(a.GetSignature(), b.GetSignature()))
	})
	for _, id := range list.GetNodes() {
		r.nodes[NodeID(id)] = struct{}{}
	}
	r.tell()
	r.changed, r.tell = context.WithCancel(context.Background())
	return true, nil
}

// replaces reports whether a says all that b says, and is not older.
func replaces(a, b *pb.Revocations) bool {
	if a.GetEpoch() < b.GetEpoch() || len(a.GetNodes()) < len(b.GetNodes()) {
		return false
	}
	on := make(map[string]struct{}, len(a.GetNodes()))
	for _, id := range a.GetNodes() {
		on[id] = struct{}{}
	}
	for _, id := range b.GetNodes() {
		if _, there := on[id]; !there {
			return false
		}
	}
	return true
}

// check says whether a list is one that the authority signed.
func (r *Revocations) check(list *pb.Revocations) error {
	public, ok := r.authority.certificate.PublicKey.(ed25519.PublicKey)
	switch {
	case len(list.GetNodes()) > maxRemoved:
		return fmt.Errorf("a list of removed nodes has %d, the most is %d", len(list.GetNodes()), maxRemoved)
	case !ok || !ed25519.Verify(public, r.text(list), list.GetSignature()):
		return errors.New("a list of removed nodes is not signed by the cluster's authority")
	}
	return nil
}

// text is what the signature is over. The authority's hash is in it, so that a list means nothing
// elsewhere, and each id's length, so that no two lists read the same.
func (r *Revocations) text(list *pb.Revocations) []byte {
	hash := r.authority.hash()
	b := append([]byte("symbio removed nodes v1\n"), hash[:]...)
	b = binary.BigEndian.AppendUint64(b, list.GetEpoch())
	for _, id := range list.GetNodes() {
		b = binary.BigEndian.AppendUint32(b, uint32(len(id)))
		b = append(b, id...)
	}
	return b
}

// signHere gives the lists the authority's key, and the directory that it is in. What was kept there holds
// too, and from now on all that holds is kept there.
func (r *Revocations) signHere(a *Authority, dir string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.authority = a
	if !slices.Contains(r.dirs, dir) {
		r.dirs = append([]string{dir}, r.dirs...)
	}
	if err := r.load(); err != nil {
		return err
	}
	if len(r.lists) == 0 {
		return nil
	}
	return errors.Join(r.keepAll(), r.settle())
}
