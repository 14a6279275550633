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
	// removed a node while it was alone.
	maxLists = 8
)

// errStale means that a list is not newer than the current one.
var errStale = errors.New("the list of removed nodes is not newer than the one here")

// Revocations is the list of nodes that were removed from a cluster, signed by its authority.
// All methods may be called from many goroutines, and several processes may use the directory.
// A nil *Revocations is an empty list that never changes.
//
// One list replaces another if it has a higher epoch and contains every node of the other.
// Where two machines hold the authority, they may sign two lists that know nothing of each
// other: then both are valid and passed on, until a holder signs one for both. So a removed
// node stays removed, in whatever order the lists arrive. Files of lists are created once and
// never overwritten.
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

// Count returns how many nodes were removed.
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

// Update verifies a list from another node, and keeps it if it says anything new; it reports
// whether it did. A list that says nothing new is not an error: every node passes on what it
// has.
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

// Reload reads the stored lists again, in case another process has added one.
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

// add signs a list with one more node. It returns errStale if another process was faster; the
// caller then reloads and tries again.
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

// settle signs one list in place of several, where the authority is. Two machines that do so
// at the same time sign the same list. The caller holds r.mu.
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

// sign makes the next list: all nodes that were removed so far, and those in more. The caller
// holds r.mu.
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

// take makes a list valid unless it says nothing new, and drops the lists that it replaces.
// The caller holds r.mu.
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

// check returns an error unless the authority signed the list.
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

// text returns what the signature covers. It contains the authority's hash, so that a list
// means nothing in another cluster, and the length of each id, so that no two lists give the
// same text.
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
