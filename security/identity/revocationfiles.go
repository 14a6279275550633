package identity

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"symbio/internal/security/private"
	pb "symbio/proto/symbio/v1"
)

// read takes over one stored list. It returns fs.ErrNotExist if the file is gone. A damaged file is
// an error that says to move it away, and the node does not start: without the list a removed node
// might connect again. The caller holds r.mu.
func (r *Revocations) read(k storedList) error {
	data, err := readFile(k.file, listSize)
	if err != nil {
		return fmt.Errorf("read the list of removed nodes: %w", err)
	}
	list := &pb.Revocations{}
	// A stored list may be by an authority that was replaced. It was taken while that was trusted.
	// The epoch in the name must be the signed one, or a renamed file could keep a newer list from
	// being written.
	if err := proto.Unmarshal(data, list); err != nil || list.GetEpoch() != k.epoch {
		return fmt.Errorf("%s holds no list of removed nodes; move it away", k.file)
	}
	if _, err := r.take(list, r.authority.all()); err != nil {
		return fmt.Errorf("%s: %w; move it away", k.file, err)
	}
	return nil
}

// storedList is one list in a file, named removed-EPOCH. Of two lists with the same epoch, made by
// two holders of the authority at once, the second has a suffix: a dot and 8 bytes of the hash of
// its content in hex.
type storedList struct {
	epoch uint64
	file  string
}

// storedLists returns the lists in a directory by their names, the lowest epoch first; none if the
// directory does not exist. Files with other names are ignored.
func storedLists(dir string) (all []storedList, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of removed nodes: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), listStart)
		number, _, _ := strings.Cut(name, ".")
		if n, err := strconv.ParseUint(number, 10, 64); ok && err == nil && n > 0 {
			all = append(all, storedList{n, filepath.Join(dir, e.Name())})
		}
	}
	slices.SortStableFunc(all, func(a, b storedList) int { return cmp.Compare(a.epoch, b.epoch) })
	return all, nil
}

// listFile returns the path of the first list of an epoch.
func listFile(dir string, epoch uint64) string {
	return filepath.Join(dir, listStart+strconv.FormatUint(epoch, 10))
}

// maxStoredLists is how many epochs back files of lists stay in a directory. A process that is
// behind by fewer finds the file of the epoch that it wants to write, and so learns that it is
// behind.
const maxStoredLists = 16

// write stores a newly signed list as the only one of its epoch in the first directory, the one of the
// authority: creating the file decides between processes. It returns fs.ErrExist if another process
// has stored a list of that epoch or a later one. The caller holds r.mu.
func (r *Revocations) write(list *pb.Revocations) error {
	data, err := proto.Marshal(list)
	if err != nil {
		return err
	}
	dir := r.dirs[0]
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := private.Create(listFile(dir, list.GetEpoch()), data); err != nil {
		return err
	}
	// A process that is far behind may create a file whose epoch was tidied up long ago.
	all, err := storedLists(dir)
	if err != nil {
		return err
	}
	if all[len(all)-1].epoch > list.GetEpoch() {
		return errors.Join(fs.ErrExist, os.Remove(listFile(dir, list.GetEpoch())))
	}
	return nil
}

// keepAll stores the current lists in every directory and removes old ones. It goes on after
// an error, so that one bad directory does not leave the others behind. The caller holds r.mu.
func (r *Revocations) keepAll() error {
	var wrong error
	for _, dir := range r.dirs {
		if err := r.keepIn(dir); err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("keep the list of removed nodes: %w", err))
		}
	}
	return wrong
}

// keepIn is keepAll for one directory. Several processes may run it at the same time: a file that
// exists with the same content counts as written.
func (r *Revocations) keepIn(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// holds are the files of the current lists, which stay however old they are.
	holds := map[string]bool{}
	for _, list := range r.lists {
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(list)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		// The name without a suffix is tried first, so that most epochs have one file. The suffix
		// comes from the content: all processes give the same list the same name.
		for _, file := range []string{listFile(dir, list.GetEpoch()), listFile(dir, list.GetEpoch()) + "." + hex.EncodeToString(sum[:8])} {
			err = private.Create(file, data)
			if errors.Is(err, fs.ErrExist) {
				there, readErr := readFile(file, listSize)
				if readErr == nil && !bytes.Equal(there, data) {
					continue // another list of the same epoch
				}
				err = readErr
			}
			if err != nil {
				return err
			}
			holds[file] = true
			break
		}
	}
	all, err := storedLists(dir)
	if err != nil {
		return err
	}
	for _, k := range all {
		// Current lists stay, and so do the lists of the last epochs: see maxStoredLists.
		if k.epoch+maxStoredLists > r.lists[0].GetEpoch() || holds[k.file] {
			continue
		}
		if err := os.Remove(k.file); err != nil && !errors.Is(err, fs.ErrNotExist) { // another process may be faster
			return err
		}
	}
	return nil
}
