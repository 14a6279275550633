package identity

import (
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
)

// errStale says that a list is not newer than the one there is.
var errStale = errors.New("the list of removed nodes is not newer than the one here")

// Revocations is the list of the nodes that were removed from a cluster: signed by its authority, and
// only ever replaced by one with a higher epoch. It is kept in a directory as one file per epoch, made
// once and never written over, so that several processes may use it. A nil *Revocations is an empty
// list that nothing changes.
type Revocations struct {
	authority *Authority
	dir       string

	mu      sync.Mutex
	list    *pb.Revocations     // guarded by mu; never written to
	nodes   map[NodeID]struct{} // guarded by mu
	changed context.Context     // ends with the next change; guarded by mu
	tell    context.CancelFunc  // guarded by mu
}

// openRevocations reads the newest list in dir.
func openRevocations(a *Authority, dir string) (*Revocations, error) {
	r := &Revocations{authority: a, dir: dir, list: &pb.Revocations{}, nodes: map[NodeID]struct{}{}}
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

// Current returns the newest list, nil when there was never one, and a context that ends when there is
// a newer one. The list is shared: it must not be changed.
func (r *Revocations) Current() (*pb.Revocations, context.Context) {
	if r == nil {
		return nil, context.Background()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.list.GetEpoch() == 0 {
		return nil, r.changed
	}
	return r.list, r.changed
}

// Update takes a list from another node when it is newer and signed, keeps it, and reports whether it
// did. A list that is not newer is no error: every node hands on what it has.
func (r *Revocations) Update(list *pb.Revocations) (bool, error) {
	if r == nil || list == nil || list.GetEpoch() == 0 {
		return false, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if list.GetEpoch() <= r.list.GetEpoch() {
		return false, nil
	}
	if err := r.check(list); err != nil {
		return false, err
	}
	list = proto.CloneOf(list)
	r.put(list)
	if err := r.write(list); err != nil && !errors.Is(err, fs.ErrExist) {
		return true, fmt.Errorf("keep the list of removed nodes: %w", err) // it holds until this process ends
	}
	return true, nil
}

// Reload reads again what is kept, for another process may have added to it.
func (r *Revocations) Reload() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		epochs, err := r.kept()
		if err != nil || len(epochs) == 0 || epochs[len(epochs)-1] <= r.list.GetEpoch() {
			return err
		}
		list, err := r.read(epochs[len(epochs)-1])
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process has put a newer one in its place
		}
		if err == nil {
			r.put(list)
		}
		return err
	}
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
	list := &pb.Revocations{Epoch: r.list.GetEpoch() + 1, Nodes: append(slices.Clone(r.list.GetNodes()), string(id))}
	slices.Sort(list.Nodes)
	list.Signature = ed25519.Sign(r.authority.private(), r.text(list))
	if err := r.write(list); errors.Is(err, fs.ErrExist) {
		return errStale
	} else if err != nil {
		return fmt.Errorf("keep the list of removed nodes: %w", err)
	}
	r.put(list)
	return nil
}

// put makes list the one that holds. The caller holds r.mu.
func (r *Revocations) put(list *pb.Revocations) {
	r.list = list
	r.nodes = make(map[NodeID]struct{}, len(list.GetNodes()))
	for _, id := range list.GetNodes() {
		r.nodes[NodeID(id)] = struct{}{}
	}
	r.tell()
	r.changed, r.tell = context.WithCancel(context.Background())
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

// kept lists the epochs in the directory, the oldest first.
func (r *Revocations) kept() (epochs []uint64, err error) {
	entries, err := os.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of removed nodes: %w", err)
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), listStart)
		if n, err := strconv.ParseUint(number, 10, 64); ok && err == nil && n > 0 {
			epochs = append(epochs, n)
		}
	}
	slices.Sort(epochs)
	return epochs, nil
}

func (r *Revocations) file(epoch uint64) string {
	return filepath.Join(r.dir, listStart+strconv.FormatUint(epoch, 10))
}

func (r *Revocations) read(epoch uint64) (*pb.Revocations, error) {
	data, err := readFile(r.file(epoch), listSize)
	if err != nil {
		return nil, fmt.Errorf("read the list of removed nodes: %w", err)
	}
	list := &pb.Revocations{}
	if err := proto.Unmarshal(data, list); err != nil || list.GetEpoch() != epoch {
		return nil, fmt.Errorf("%s holds no list of removed nodes; move it away", r.file(epoch))
	}
	if err := r.check(list); err != nil {
		return nil, fmt.Errorf("%s: %w; move it away", r.file(epoch), err)
	}
	return list, nil
}

// keptLists is how many lists stay in the directory. A process that is behind by fewer finds the file
// of the epoch that it would write, and so knows that it is.
const keptLists = 16

// write keeps a list, and forgets old ones. fs.ErrExist says that another process has kept one of that
// epoch or a later one. The caller holds r.mu.
func (r *Revocations) write(list *pb.Revocations) error {
	data, err := proto.Marshal(list)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	if err := writeOnce(r.file(list.GetEpoch()), data); err != nil {
		return err
	}
	epochs, err := r.kept()
	if err != nil {
		return err
	}
	for _, e := range epochs {
		switch {
		case e > list.GetEpoch():
			return errors.Join(fs.ErrExist, os.Remove(r.file(list.GetEpoch())))
		case e+keptLists <= list.GetEpoch():
			if removeErr := os.Remove(r.file(e)); !errors.Is(removeErr, fs.ErrNotExist) { // another process may be faster
				err = errors.Join(err, removeErr)
			}
		}
	}
	return err
}
