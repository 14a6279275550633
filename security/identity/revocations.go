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
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	pb "symbio/proto/symbio/v1"
)

const (
	// maxRemoved is the most nodes in a list. A cluster of 20 machines that replaces all of them
	// weekly needs 4 years to reach it.
	maxRemoved = 4096
	// listSize is the most bytes of a stored list: maxRemoved ids have 34 bytes each, some 136 KiB.
	listSize = 256 << 10
	// listSpare is left free by who signs, for the signature and the fields of later versions.
	listSpare = 4 << 10
	// listStart begins the names of the files of lists; the epoch follows.
	listStart = "removed-"
	// maxLists bounds the lists that do not contain each other. One appears for each machine with
	// the authority that removed a node while it could not reach the others.
	maxLists = 8
)

// errStale means that another process has stored a list of the epoch that was to be written, or a
// later one. Callers reload and sign again.
var errStale = errors.New("the list of removed nodes is not newer than the one here")

// Revocations is the list of nodes that were removed from a cluster, signed by its authority. All
// methods may be called from many goroutines, and several processes may use the directory. A nil
// *Revocations is an empty list that never changes.
//
// One list replaces another if its epoch is the same or higher and it contains every node of the
// other. Where two machines hold the authority, they may sign two lists and neither contains
// the other: then both are valid and passed on, until a holder signs one for both. So a removed
// node stays removed, in whatever order the lists arrive. Files of lists are created once and never
// overwritten; old ones are deleted (maxStoredLists).
type Revocations struct {
	mu sync.Mutex
	// authority verifies lists; guarded by mu. It can sign only if it has its key, which signHere
	// may bring later.
	authority *Authority
	// dirs are the directories of the lists; each holds all of them. The first is where new lists
	// are signed: the authority's where this machine holds it. Guarded by mu.
	dirs []string
	// lists are the current lists, the highest epoch first; none replaces another. Both the slice
	// and the lists are shared with callers and never written to. Guarded by mu.
	lists []*pb.Revocations
	// nodes are the ids in all lists that were ever taken over; it only grows. Guarded by mu.
	nodes map[NodeID]struct{}
	// assigned are the roles and labels of all lists, the latest of each node. The map is not changed; it is replaced under mu.
	assigned atomic.Pointer[map[NodeID]*pb.Assignment]
	// changed ends with the next change of lists, and tell ends it; both are then replaced. Guarded
	// by mu.
	changed context.Context
	tell    context.CancelFunc
}

// openRevocations returns the lists that are stored in dir, and signs one for all if a has its key.
// A damaged list is an error.
func openRevocations(a *Authority, dir string) (*Revocations, error) {
	r := &Revocations{authority: a, dirs: []string{dir}, nodes: map[NodeID]struct{}{}}
	r.changed, r.tell = context.WithCancel(context.Background())
	return r, r.Reload()
}

// Has reports whether the node was removed. It does not read the disk: each handshake calls it.
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

// Current returns the list with the highest epoch, nil if there was never one, and a context that
// ends with the next change, also with one of the authority (Rotation). The list is shared: it must not be changed.
func (r *Revocations) Current() (*pb.Revocations, context.Context) {
	all, changed := r.Lists()
	if len(all) == 0 {
		return nil, changed
	}
	return all[0], changed
}

// Lists returns the current lists, the highest epoch first, and a context that ends with the next
// change. There is more than one only until a machine with the authority knows all of them. The
// slice and the lists are shared: they must not be changed.
func (r *Revocations) Lists() ([]*pb.Revocations, context.Context) {
	if r == nil {
		return nil, context.Background()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lists, r.changed
}

// Update verifies a list from another node, and takes it over if it says anything new; it reports
// whether it did. A list that says nothing new is not an error: every node passes on its lists.
// An error beside true means that the list is in force, but could not be stored in every directory
// or merged with the others; it may be lost when the process ends. Update blocks for the disk.
func (r *Revocations) Update(list *pb.Revocations) (bool, error) {
	if r == nil || list == nil || list.GetEpoch() == 0 {
		return false, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	took, err := r.take(list, r.authority.all().trusted())
	if err != nil || !took {
		return took, err
	}
	return true, errors.Join(r.keepAll(), r.settle())
}

// Reload takes over the stored lists that another process has added since, and merges several into
// one where the authority's key is. It never drops a node.
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

// load takes over the stored lists of all directories. The caller holds r.mu.
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

// add signs a list with one more node; nil if the node is in one already. The authority's key must
// be on this machine. add returns errStale if another process was faster; the caller then reloads
// and tries again.
func (r *Revocations) add(id NodeID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, there := r.nodes[id]; there {
		return nil
	}
	if len(r.nodes) >= maxRemoved {
		return fmt.Errorf("%d nodes were removed from this cluster, more than it keeps: make a new cluster", len(r.nodes))
	}
	return r.sign(nil, id)
}

// isUnsettled reports whether there is more than one list, or it is by an authority that was replaced. The caller holds r.mu.
func (r *Revocations) isUnsettled() bool {
	return len(r.lists) > 1 || len(r.lists) == 1 && !r.authority.all().issuer().signed(r.lists[0])
}

// touch ends the context of Lists without a change of the lists: the authority has changed.
func (r *Revocations) touch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell()
	r.changed, r.tell = context.WithCancel(context.Background())
}

// settle signs one list in place of several where the authority's key is; elsewhere it does
// nothing. Two machines that do so from the same lists sign the same one, since ids are sorted and
// Ed25519 is deterministic. The caller holds r.mu.
func (r *Revocations) settle() error {
	for r.isUnsettled() && r.authority.all().issuer().canSign() && len(r.nodes) <= maxRemoved {
		err := r.sign(nil)
		if errors.Is(err, errStale) {
			err = r.load()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sign makes the next list, of all nodes that were removed so far and those in more, with the assignments (nil = those so far),
// stores it and takes it over. Its epoch is one above the highest here. It returns errStale if another process
// has stored that epoch. The caller holds r.mu.
func (r *Revocations) sign(assigned map[NodeID]*pb.Assignment, more ...NodeID) error {
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
	if assigned == nil {
		assigned = r.copyAssigned()
	}
	issuer := r.authority.all().issuer()
	signer, err := issuer.signer()
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(assigned)) {
		if !slices.Contains(list.Nodes, string(id)) {
			list.Assignments = append(list.Assignments, signAssignment(assigned[id], issuer.hash(), signer))
		}
	}
	if size := proto.Size(list); size > listSize-listSpare {
		return fmt.Errorf("the list of removed nodes, with roles and labels that were changed, has %d bytes, more than nodes keep", size)
	}
	list.Signature = ed25519.Sign(signer, issuer.listText(list))
	// Stored before it counts: a removal that was acknowledged survives a crash.
	if err := r.write(list); errors.Is(err, fs.ErrExist) {
		return errStale
	} else if err != nil {
		return fmt.Errorf("keep the list of removed nodes: %w", err)
	}
	_, err = r.take(list, r.authority.all().trusted())
	return errors.Join(err, r.keepAll())
}

// take verifies a list and makes it current, and drops the lists that it replaces. It returns false
// if a current list says the same or more, and an error if the list is not signed by one of the authorities in by,
// or there are maxLists others. It does not write to the disk. The caller holds r.mu.
func (r *Revocations) take(list *pb.Revocations, by lineage) (bool, error) {
	if slices.ContainsFunc(r.lists, func(have *pb.Revocations) bool { return replaces(have, list) }) {
		return false, nil
	}
	if err := checkList(list, by); err != nil {
		return false, err
	}
	if err := r.checkAssignments(list, by); err != nil {
		return false, err
	}
	// The caller may go on using its own list.
	list = proto.CloneOf(list)
	all := slices.DeleteFunc(slices.Clone(r.lists), func(have *pb.Revocations) bool { return replaces(list, have) })
	if len(all) >= maxLists {
		return false, fmt.Errorf("over %d lists of removed nodes that know nothing of each other: start a node that holds the authority", maxLists)
	}
	r.lists = append(all, list)
	slices.SortStableFunc(r.lists, func(a, b *pb.Revocations) int {
		return cmp.Or(cmp.Compare(b.GetEpoch(), a.GetEpoch()), bytes.Compare(a.GetSignature(), b.GetSignature()))
	})
	for _, id := range list.GetNodes() {
		r.nodes[NodeID(id)] = struct{}{}
	}
	r.takeAssignments(list)
	r.tell()
	r.changed, r.tell = context.WithCancel(context.Background())
	return true, nil
}

// replaces reports whether a contains every node of b, with as late assignments, and its epoch is not lower. A list replaces
// itself.
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
	return coversAssignments(a, b)
}

// checkList returns an error unless one of the authorities signed the list and it has at most maxRemoved nodes.
// The length comes first: it bounds the text to verify.
func checkList(list *pb.Revocations, by lineage) error {
	switch {
	case proto.Size(list) > listSize:
		return fmt.Errorf("a list of removed nodes has %d bytes, the most are %d", proto.Size(list), listSize)
	case len(list.GetNodes()) > maxRemoved:
		return fmt.Errorf("a list of removed nodes has %d, the most is %d", len(list.GetNodes()), maxRemoved)
	case !slices.ContainsFunc(by, func(a *Authority) bool { return a.signed(list) }):
		return errors.New("a list of removed nodes is not signed by the cluster's authority")
	}
	return nil
}

// signed reports whether the authority has signed the list.
func (a *Authority) signed(list *pb.Revocations) bool {
	return ed25519.Verify(a.public(), a.listText(list), list.GetSignature())
}

// listText returns what the signature of a list covers: a line for its purpose, the hash of the authority's
// certificate, the epoch in 8 bytes, and each id behind its length in 4 bytes, big-endian. The hash
// makes a list mean nothing in another cluster; with the lengths no two lists give the same text.
func (a *Authority) listText(list *pb.Revocations) []byte {
	hash := a.hash()
	b := append([]byte("symbio removed nodes v1\n"), hash[:]...)
	b = binary.BigEndian.AppendUint64(b, list.GetEpoch())
	for _, id := range list.GetNodes() {
		b = binary.BigEndian.AppendUint32(b, uint32(len(id)))
		b = append(b, id...)
	}
	return b
}

// signHere lets r sign with the authority a, which has its key, and adds a's directory in front of
// the others. Lists that are stored there are taken over, and all current lists are stored there.
// It may be called again for the same directory.
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
