package content

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"
)

// writer writes a content under a temporary name. Its bytes count for the limit of the store as they
// come. commit must be called.
type writer struct {
	store     *Store
	file      *os.File
	sum       hash.Hash
	size, max int64
}

func (s *Store) create(max int64) (*writer, error) {
	f, err := os.CreateTemp(s.dir, temporary+"*") // 0600
	if err != nil {
		return nil, err
	}
	return &writer{store: s, file: f, sum: sha256.New(), max: max}, nil
}

// Write refuses what is over max with ErrTooLarge, and what has no room with ErrFull.
func (w *writer) Write(p []byte) (int, error) {
	n := int64(len(p))
	if n > w.max-w.size {
		return 0, fmt.Errorf("%w: over %d bytes", ErrTooLarge, w.max)
	}
	if !w.store.reserve(n) {
		return 0, fmt.Errorf("%w: %d bytes", ErrFull, w.store.maxSize)
	}
	w.size += n
	w.sum.Write(p)
	return w.file.Write(p)
}

// commit gives the content its name, unless err is not nil or want is another hash. On an error
// nothing of it is left.
func (w *writer) commit(want *Hash, err error) (Hash, error) {
	h := Hash(w.sum.Sum(nil))
	err = errors.Join(err, w.file.Close())
	if err == nil && want != nil && h != *want {
		err = fmt.Errorf("%w: SHA-256 %v, want %v", ErrMismatch, h, *want)
	}
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size -= w.size // insert counts them again
	old := s.entries[h]
	if err == nil && (old == nil || !old.checked) {
		err = os.Rename(w.file.Name(), s.path(h))
	}
	switch {
	case err != nil:
		os.Remove(w.file.Name())
		return h, err
	case old != nil && old.checked:
		os.Remove(w.file.Name())
		s.use(old)
		return h, nil
	case old != nil: // its file has been replaced
		s.forget(old)
	}
	s.insert(&entry{Entry: Entry{Hash: h, Size: w.size, Used: time.Now()}, checked: true})
	return h, nil
}

// reserve counts n bytes that are about to be written, and reports whether there is room.
func (s *Store) reserve(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.collect(n) {
		return false
	}
	s.size += n
	return true
}

func sumOf(r io.Reader) (Hash, error) {
	sum := sha256.New()
	_, err := io.Copy(sum, r)
	return Hash(sum.Sum(nil)), err
}
