package content

import (
	"cmp"
	"container/list"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// The errors of a Store, beside fs.ErrNotExist and those of the disk.
var (
	// ErrTooLarge means that a content has more bytes than the caller allowed.
	ErrTooLarge = errors.New("it is too large")
	// ErrMismatch means that a content has another hash than was asked for.
	ErrMismatch = errors.New("it is another content than was asked for")
	// ErrFull means that there is no room, because too much of what is kept is pinned.
	ErrFull = errors.New("the store is full")
	// ErrPinned means that a content cannot be removed, because it is in use.
	ErrPinned = errors.New("it is in use")
)

const (
	// DefaultMaxSize is the default of Config.MaxSize.
	DefaultMaxSize = 4 << 30
	// temporary begins the names of files that are being written.
	temporary = ".put-"
)

// Config is the configuration of a Store.
type Config struct {
	// Dir is the directory. Open makes it, for this user alone.
	Dir string
	// MaxSize bounds the bytes of all files together. Default: DefaultMaxSize.
	MaxSize int64
}

// Entry describes a content that is kept.
type Entry struct {
	Hash Hash
	Size int64
	// Used is when it was put or opened last.
	Used time.Time
}

// entry is an Entry of the index.
type entry struct {
	Entry
	// checked means that the content has the hash, because this process wrote or read it.
	checked bool
	// place is where the entry is in Store.unpinned; nil while it is pinned.
	place *list.Element
}

// Store keeps contents by hash. Its methods may be called from many goroutines at once.
type Store struct {
	dir     string
	maxSize int64

	mu      sync.Mutex
	entries map[Hash]*entry
	// unpinned holds the entries that may be collected; the one that was used longest ago is last.
	unpinned *list.List
	pins     map[Hash]int
	// size is the sum of the sizes of entries.
	size int64
}

// Open returns the store in a directory, with what an earlier process left there. It removes files
// that were half written, and what is over the limit. Files that are not of a store stay, and count
// for nothing.
func Open(c Config) (*Store, error) {
	err := os.MkdirAll(c.Dir, 0o700)
	files, unread := os.ReadDir(c.Dir)
	if err := cmp.Or(err, unread, os.Chmod(c.Dir, 0o700)); err != nil {
		return nil, fmt.Errorf("open store of contents: %w", err)
	}
	s := &Store{dir: c.Dir, maxSize: cmp.Or(c.MaxSize, DefaultMaxSize), entries: map[Hash]*entry{}, unpinned: list.New(), pins: map[Hash]int{}}
	var found []*entry
	for _, f := range files {
		if strings.HasPrefix(f.Name(), temporary) {
			os.Remove(filepath.Join(c.Dir, f.Name())) // if it cannot be removed, it stays for the next time
			continue
		}
		h, err := ParseHash(f.Name())
		info, missing := f.Info()
		if err == nil && missing == nil && info.Mode().IsRegular() {
			found = append(found, &entry{Entry: Entry{Hash: h, Size: info.Size(), Used: info.ModTime()}})
		}
	}
	slices.SortFunc(found, func(a, b *entry) int { return a.Used.Compare(b.Used) })
	for _, e := range found {
		s.insert(e)
	}
	s.collect(0)
	return s, nil
}

// Put stores what r holds, and returns its hash and size. The errors are ErrTooLarge if that is over
// max bytes or Config.MaxSize, ErrFull, and those of r and of the disk; then nothing of it is left.
func (s *Store) Put(r io.Reader, max int64) (Hash, int64, error) { return s.put(r, max, nil) }

// PutAs stores what r holds, if it has that hash, and returns ErrMismatch if not; else it is Put. It
// reads r also if the content is kept already: whoever sends it shows that it has it.
func (s *Store) PutAs(want Hash, r io.Reader, max int64) error {
	_, _, err := s.put(r, max, &want)
	return err
}

func (s *Store) put(r io.Reader, max int64, want *Hash) (h Hash, size int64, err error) {
	f, err := os.CreateTemp(s.dir, temporary+"*") // 0600
	if err != nil {
		return Hash{}, 0, fmt.Errorf("keep a content: %w", err)
	}
	defer os.Remove(f.Name()) // of a content that is kept there is none any more
	sum := sha256.New()
	max = min(max, s.maxSize)
	size, err = io.Copy(io.MultiWriter(f, sum), io.LimitReader(r, max+1))
	h = Hash(sum.Sum(nil))
	switch err = errors.Join(err, f.Close()); {
	case err != nil:
	case size > max:
		err = fmt.Errorf("%w: over %d bytes", ErrTooLarge, max)
	case want != nil && h != *want:
		err = fmt.Errorf("%w: SHA-256 %v, want %v", ErrMismatch, h, *want)
	default:
		err = s.add(f.Name(), Entry{Hash: h, Size: size, Used: time.Now()})
	}
	if err != nil {
		return Hash{}, 0, fmt.Errorf("keep a content: %w", err)
	}
	return h, size, nil
}

// add gives a file that was written the name of its content.
func (s *Store) add(file string, e Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch old := s.entries[e.Hash]; {
	case old != nil && old.checked:
		s.use(old)
		return nil
	case old != nil: // it may be damaged
		s.drop(old)
	}
	if !s.collect(e.Size) {
		return fmt.Errorf("%w: of its %d bytes too many are in use", ErrFull, s.maxSize)
	}
	err := os.Rename(file, s.path(e.Hash))
	if err == nil {
		s.insert(&entry{Entry: e, checked: true})
	}
	return err
}

// Open opens a content for reading; fs.ErrNotExist if it is not kept. A content that a crash or
// another program damaged is removed, and not kept any more. The file stays readable when the
// content is collected meanwhile, on systems where open files do.
func (s *Store) Open(h Hash) (*os.File, error) {
	s.mu.Lock()
	e, ok := s.entries[h]
	checked := ok && e.checked
	s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("content %v: %w", h, fs.ErrNotExist)
	}
	f, err := os.Open(s.path(h))
	if err == nil && !checked {
		if err = check(f, h); err != nil {
			f.Close()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && s.entries[h] == e {
			s.drop(e)
		}
		return nil, fmt.Errorf("content %v: %w", h, err)
	}
	e.checked = true
	s.use(e)
	return f, nil
}

// check returns nil if f has that content, and rewinds it; fs.ErrNotExist if it has another.
func check(f *os.File, h Hash) error {
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if Hash(sum.Sum(nil)) != h {
		return fmt.Errorf("its file is damaged: %w", fs.ErrNotExist)
	}
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// Has reports whether a content is kept.
func (s *Store) Has(h Hash) bool {
	f, err := s.Open(h)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// Pin keeps contents from being collected and removed until unpin is called, also those that are put
// later. What is not kept is not an error. Pins count: a content is free after each has been undone.
func (s *Store) Pin(hashes []Hash) (unpin func()) {
	hashes = slices.Clone(hashes)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range hashes {
		s.pins[h]++
		if e := s.entries[h]; e != nil && e.place != nil {
			s.unpinned.Remove(e.place)
			e.place = nil
		}
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, h := range hashes {
			if s.pins[h]--; s.pins[h] > 0 {
				continue
			}
			delete(s.pins, h)
			if e := s.entries[h]; e != nil {
				e.place = s.unpinned.PushFront(e)
			}
		}
	})
}

// Remove deletes a content; fs.ErrNotExist if it is not kept, ErrPinned if it is in use.
func (s *Store) Remove(h Hash) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := fs.ErrNotExist
	if e := s.entries[h]; e != nil && e.place != nil {
		s.drop(e)
		return nil
	} else if e != nil {
		err = ErrPinned
	}
	return fmt.Errorf("remove content %v: %w", h, err)
}

// All returns what is kept, sorted by hash.
func (s *Store) All() (all []Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		all = append(all, e.Entry)
	}
	slices.SortFunc(all, func(a, b Entry) int { return slices.Compare(a.Hash[:], b.Hash[:]) })
	return all
}

func (s *Store) path(h Hash) string { return filepath.Join(s.dir, h.String()) }

// insert adds an entry whose bytes are not counted yet. s.mu is held, as for all below.
func (s *Store) insert(e *entry) {
	s.entries[e.Hash] = e
	s.size += e.Size
	if s.pins[e.Hash] == 0 {
		e.place = s.unpinned.PushFront(e)
	}
}

// use notes that an entry is used now.
func (s *Store) use(e *entry) {
	if e.place != nil {
		s.unpinned.MoveToFront(e.place)
	}
	e.Used = time.Now()
	os.Chtimes(s.path(e.Hash), e.Used, e.Used) // for the order after a restart only
}

// drop deletes an entry and its file.
func (s *Store) drop(e *entry) {
	os.Remove(s.path(e.Hash)) // if it cannot be removed, the next Open of the directory counts it again
	delete(s.entries, e.Hash)
	s.size -= e.Size
	if e.place != nil {
		s.unpinned.Remove(e.place)
		e.place = nil
	}
}

// collect makes room for n bytes, if it can, and reports whether there is room.
func (s *Store) collect(n int64) bool {
	for s.size+n > s.maxSize {
		last := s.unpinned.Back()
		if last == nil {
			return false
		}
		s.drop(last.Value.(*entry))
	}
	return true
}
