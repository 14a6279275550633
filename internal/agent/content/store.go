package content

import (
	"bytes"
	"cmp"
	"container/list"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
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

// Capability is the name of the capability with which another node fetches a content.
const Capability = "artifacts.get"

// The errors of a Store, beside fs.ErrNotExist and the disk's errors.
var (
	// ErrTooLarge means that a content has more bytes than the caller allowed.
	ErrTooLarge = errors.New("it is too large")
	// ErrMismatch means that a content has another hash than was asked for.
	ErrMismatch = errors.New("it is another content than was asked for")
	// ErrFull means that there is no room, because too many contents are pinned.
	ErrFull = errors.New("the store is full")
	// ErrPinned means that a content cannot be removed, because it is in use.
	ErrPinned = errors.New("it is in use")
)

const (
	// DefaultMaxSize is the default of Config.MaxSize.
	DefaultMaxSize = 4 << 30
	// temporary begins the names of files that are being written.
	temporary = ".put-"
	// packed begins the names of packs. A pack is a file with contents that were put together, because to
	// make a file takes longer than to fill it. It begins with its index: their Entries as JSON. A content
	// is checked like any other file's, whatever the index says.
	packed = "pack-"
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
	// Used is when it was put or opened last, to the minute.
	Used time.Time `json:"-"`
}

// entry is an Entry of the index.
type entry struct {
	Entry
	// checked means that the content has the hash, because this process wrote or read it.
	checked bool
	// file has the content, at is where.
	file *file
	at   int64
}

// file is a file of the directory: a content by the name of its hash, or a pack of some.
type file struct {
	name string
	// size is the size of the file on the disk.
	size    int64
	entries []*entry
	// place is where the file is in Store.files.
	place *list.Element
}

// Store keeps contents by hash. Its methods may be called from many goroutines at once.
type Store struct {
	dir     string
	maxSize int64

	mu      sync.Mutex
	entries map[Hash]*entry
	// files holds all files; the one that was used longest ago is last.
	files *list.List
	pins  map[Hash]int
	// size is the sum of the sizes of the files.
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
	s := &Store{dir: c.Dir, maxSize: cmp.Or(c.MaxSize, DefaultMaxSize), entries: map[Hash]*entry{}, files: list.New(), pins: map[Hash]int{}}
	var found []*file
	for _, f := range files {
		info, err := f.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if one, err := s.readFile(info); err == nil {
			found = append(found, one)
		} else if strings.HasPrefix(info.Name(), temporary) || strings.HasPrefix(info.Name(), packed) {
			os.Remove(filepath.Join(c.Dir, info.Name())) // if it cannot be removed, it stays for the next time
		}
	}
	slices.SortFunc(found, func(a, b *file) int { return a.entries[0].Used.Compare(b.entries[0].Used) })
	for _, f := range found {
		s.insert(f)
	}
	s.collect(0)
	return s, nil
}

// Put stores what r holds, and returns its hash and size. The errors are ErrTooLarge if that is over
// max bytes or Config.MaxSize, ErrFull, and the errors of r and of the disk; then nothing of it is left.
func (s *Store) Put(r io.Reader, max int64) (Hash, int64, error) { return s.putOne(r, max, nil) }

// PutAs stores what r holds, if it has that hash, and returns ErrMismatch if not; else it is Put. It
// reads r also if the content is kept already: whoever sends it shows that it has it.
func (s *Store) PutAs(want Hash, r io.Reader, max int64) error {
	_, _, err := s.putOne(r, max, &want)
	return err
}

func (s *Store) putOne(r io.Reader, max int64, want *Hash) (h Hash, size int64, err error) {
	max = min(max, s.maxSize)
	err = s.put(func(w io.Writer) (*file, error) {
		sum := sha256.New()
		size, err = io.Copy(io.MultiWriter(w, sum), io.LimitReader(r, max+1))
		h = Hash(sum.Sum(nil))
		switch {
		case err == nil && size > max:
			err = fmt.Errorf("%w: over %d bytes", ErrTooLarge, max)
		case err == nil && want != nil && h != *want:
			err = mismatch(h, *want)
		}
		return newFile(h.String(), 0, time.Now(), []Entry{{Hash: h, Size: size}}), err
	})
	return h, size, err
}

func mismatch(got, want Hash) error {
	return fmt.Errorf("%w: SHA-256 %v, want %v", ErrMismatch, got, want)
}

// put stores the file that write writes and returns.
func (s *Store) put(write func(io.Writer) (*file, error)) error {
	f, err := os.CreateTemp(s.dir, temporary+"*") // 0600
	if err == nil {
		defer os.Remove(f.Name()) // of contents that are kept there is none any more
		var written *file
		written, err = write(f)
		if err = errors.Join(err, f.Close()); err == nil {
			err = s.add(f.Name(), written)
		}
	}
	if err != nil {
		return fmt.Errorf("keep a content: %w", err)
	}
	return nil
}

// PutAll stores small contents in one file, which is faster than PutAs for each: data has one after the
// other, sizes says where each ends. They are kept together, as long as one of them is pinned or used. The
// errors are as from PutAs, and that data is too short; with one nothing is stored.
func (s *Store) PutAll(want []Hash, sizes []int, data []byte) error {
	return s.put(func(w io.Writer) (*file, error) {
		var index []Entry
		at := 0
		for i, h := range want {
			if i >= len(sizes) || sizes[i] < 0 || sizes[i] > len(data)-at {
				return nil, errors.New("the data ends in the middle of a content")
			}
			if got := Sum(data[at : at+sizes[i]]); got != h {
				return nil, mismatch(got, h)
			}
			index, at = append(index, Entry{Hash: h, Size: int64(sizes[i])}), at+sizes[i]
		}
		head, _ := json.Marshal(index) // these types make no error
		_, err := io.Copy(w, io.MultiReader(bytes.NewReader(head), bytes.NewReader(data[:at])))
		return newFile(packed+rand.Text(), int64(len(head)), time.Now(), index), err
	})
}

// add gives a file that was written its name, with the entries of it that are not kept yet.
func (s *Store) add(written string, f *file) error {
	f.entries = slices.DeleteFunc(f.entries, func(e *entry) bool {
		e.checked = true
		return s.Has(e.Hash) // what is damaged goes
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	f.entries = slices.DeleteFunc(f.entries, func(e *entry) bool { return s.entries[e.Hash] != nil }) // put meanwhile
	if len(f.entries) == 0 {
		return nil
	}
	if !s.collect(f.size) {
		return fmt.Errorf("%w: of its %d bytes too many are in use", ErrFull, s.maxSize)
	}
	err := os.Rename(written, s.path(f))
	if err == nil {
		s.insert(f)
	}
	return err
}

// File is a content that is open.
type File struct {
	*io.SectionReader
	io.Closer
}

// Open opens a content for reading; fs.ErrNotExist if it is not kept. A content that a crash or
// another program damaged is removed, with those that were put with it, and not kept any more. The file stays readable when the
// content is collected meanwhile, on systems where open files do.
func (s *Store) Open(h Hash) (*File, error) {
	s.mu.Lock()
	e, ok := s.entries[h]
	checked := ok && e.checked
	s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("content %v: %w", h, fs.ErrNotExist)
	}
	f, err := os.Open(s.path(e.file))
	if err == nil && !checked {
		sum := sha256.New()
		if _, err = io.Copy(sum, io.NewSectionReader(f, e.at, e.Size)); err == nil && Hash(sum.Sum(nil)) != h {
			err = fmt.Errorf("its file is damaged: %w", fs.ErrNotExist)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && s.entries[h] == e {
			s.drop(e.file)
		}
		f.Close()
		return nil, fmt.Errorf("content %v: %w", h, err)
	}
	e.checked = true
	s.use(e)
	return &File{io.NewSectionReader(f, e.at, e.Size), f}, nil
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
// later. A missing content is not an error. Pins count: a content is free after each has been undone.
func (s *Store) Pin(hashes []Hash) (unpin func()) {
	hashes = slices.Clone(hashes)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range hashes {
		s.pins[h]++
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, h := range hashes {
			if s.pins[h]--; s.pins[h] == 0 {
				delete(s.pins, h)
			}
		}
	})
}

// Remove deletes a content and those that were put with it; fs.ErrNotExist if it is not kept, ErrPinned
// if one of them is in use.
func (s *Store) Remove(h Hash) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := fs.ErrNotExist
	if e := s.entries[h]; e != nil && !s.pinned(e.file) {
		s.drop(e.file)
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

func (s *Store) path(f *file) string { return filepath.Join(s.dir, f.name) }

// newFile returns a file of contents that were used at a time. The first one begins at a place.
func newFile(name string, at int64, used time.Time, contents []Entry) *file {
	f := &file{name: name, size: at}
	for _, c := range contents {
		c.Used = used
		f.entries = append(f.entries, &entry{Entry: c, file: f, at: f.size})
		f.size += c.Size
	}
	return f
}

// readFile returns a file of an earlier process, if its name and index may be right.
func (s *Store) readFile(info fs.FileInfo) (*file, error) {
	name := info.Name()
	if !strings.HasPrefix(name, packed) {
		h, err := ParseHash(name)
		return newFile(name, 0, info.ModTime(), []Entry{{Hash: h, Size: info.Size()}}), err
	}
	f, err := os.Open(filepath.Join(s.dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var index []Entry
	d := json.NewDecoder(f)
	err = d.Decode(&index)
	pack := newFile(name, d.InputOffset(), info.ModTime(), index)
	if err != nil || pack.size != info.Size() || len(index) == 0 {
		return nil, fmt.Errorf("the index of %s is damaged", name)
	}
	return pack, nil
}

// insert adds a file whose bytes are not counted yet. s.mu is held, as for all below.
func (s *Store) insert(f *file) {
	for _, e := range f.entries {
		s.entries[e.Hash] = e
	}
	s.size += f.size
	f.place = s.files.PushFront(f)
}

func (s *Store) pinned(f *file) bool {
	return slices.ContainsFunc(f.entries, func(e *entry) bool { return s.pins[e.Hash] > 0 })
}

// use notes that an entry is used now.
func (s *Store) use(e *entry) {
	s.files.MoveToFront(e.file.place)
	if now := time.Now(); now.Sub(e.Used) >= time.Minute {
		e.Used = now
		os.Chtimes(s.path(e.file), now, now) // for the order after a restart only
	}
}

// drop deletes a file and its entries.
func (s *Store) drop(f *file) {
	os.Remove(s.path(f)) // if it cannot be removed, the next Open of the directory counts it again
	for _, e := range f.entries {
		if s.entries[e.Hash] == e { // and not a younger file's
			delete(s.entries, e.Hash)
		}
	}
	s.size -= f.size
	s.files.Remove(f.place)
}

// collect makes room for n bytes, if it can, and reports whether there is room.
func (s *Store) collect(n int64) bool {
	for at := s.files.Back(); at != nil && s.size+n > s.maxSize; {
		f := at.Value.(*file)
		if at = at.Prev(); !s.pinned(f) {
			s.drop(f)
		}
	}
	return s.size+n <= s.maxSize
}
