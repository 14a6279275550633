package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"symbio/agent/content"
)

// Options say what a snapshot has.
type Options struct {
	// Limits bound it.
	Limits Limits
	// Denied reports whether a file must not be read, by its path relative to the directory. It is called by one goroutine.
	// Default: none is denied.
	Denied func(path string) bool
	// Ignore are patterns of files to leave out, as lines of a .gitignore file, also of those that git tracks.
	Ignore []string
	// Cache spares the next Take of the same directory the reading of files that have not changed. Default: none.
	Cache *Cache
}

// Omission is a file that does not travel.
type Omission struct{ Path, Why string }

// Snapshot is a directory at one time. Its contents stay on the disk.
type Snapshot struct {
	Manifest
	// Omitted are the files that were left out for a reason other than the ignores, sorted by path.
	Omitted []Omission

	dir   string
	cache *Cache
}

// Take returns the snapshot of a directory: in a git repository the files that git tracks and the untracked ones that it
// does not ignore, elsewhere those that .gitignore files leave. It runs git if that is installed. Left out, by name and
// reason, are files that are denied, look like a secret, are no regular files or links to such, or have a name that is
// none on some system. The error is ErrTooLarge, or says why the directory cannot be read.
func Take(ctx context.Context, dir string, o Options) (*Snapshot, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("take a workspace along: %w", err)
	}
	defer root.Close()
	s := newScanner(root, o)
	paths, commit, err := list(ctx, root)
	for _, p := range paths {
		s.add(p)
	}
	// add appends to nested: a repository in it may have others in it.
	for i := 0; i < len(s.nested) && err == nil; i++ {
		s.addNested(ctx, s.nested[i])
	}
	if err == nil {
		s.files, err = s.finish(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("take the workspace %s along: %w", dir, err)
	}
	return &Snapshot{Manifest{commit, s.files}, s.omissions(), dir, o.Cache}, nil
}

// addNested adds the files of a repository inside of the directory, such as a submodule. One that cannot be listed is
// omitted.
func (s *scanner) addNested(ctx context.Context, top string) {
	root, err := s.root.OpenRoot(filepath.FromSlash(top))
	if err != nil {
		s.omit(top, err.Error())
		return
	}
	defer root.Close()
	paths, _, err := list(ctx, root)
	if err != nil {
		s.omit(top, err.Error())
	}
	for _, p := range paths {
		s.add(path.Join(top, p))
	}
}

func (s *scanner) omissions() (all []Omission) {
	for p, why := range s.omitted {
		all = append(all, Omission{p, why})
	}
	slices.SortFunc(all, func(a, b Omission) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// Open opens a file of the snapshot as it was when it was taken. If the content is another by now, the last Read returns
// ErrChanged in place of io.EOF, and the Cache forgets the file. No more than the size of the file is read.
func (s *Snapshot) Open(f File) (io.ReadCloser, error) {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := openRegular(root, f.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrChanged)
	}
	return &verifier{File: file, rest: io.LimitReader(file, f.Size), sum: sha256.New(), want: f, cache: s.cache}, nil
}

// verifier reads a file and compares its hash at the end.
type verifier struct {
	*os.File
	rest  io.Reader
	sum   hash.Hash
	want  File
	cache *Cache
}

func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.rest.Read(p)
	v.sum.Write(p[:n])
	if err == io.EOF && content.Hash(v.sum.Sum(nil)) != v.want.Hash {
		v.cache.remove(v.want.Path)
		err = fmt.Errorf("read %s: %w", v.want.Path, ErrChanged)
	}
	return n, err
}

// WriteTo hides that of os.File, which would pass by the hash.
func (v *verifier) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{v})
}

// minAge is how long ago a file must have been written to be in a Cache. A younger one can change again and keep its time of
// change, of which some systems count only whole seconds.
const minAge = 2 * time.Second

// Cache has the hashes of the files of one directory as the latest Take found them. The zero value is empty, nil keeps
// nothing. It may be used by many goroutines.
type Cache struct {
	mu    sync.Mutex
	files map[string]cachedFile
}

type cachedFile struct {
	info fs.FileInfo
	hash content.Hash
}

// find returns the hash of a file that has the size, time of change and inode that it had.
func (c *Cache) find(p string, info fs.FileInfo) (content.Hash, bool) {
	if c == nil {
		return content.Hash{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.files[p]
	return f.hash, ok && sameState(f.info, info)
}

// keep replaces what the cache has, so that it has no more than one snapshot.
func (c *Cache) keep(files []File, infos map[string]fs.FileInfo) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files = make(map[string]cachedFile, len(files))
	for _, f := range files {
		if info := infos[f.Path]; f.Kind.hasContent() && time.Since(info.ModTime()) > minAge {
			c.files[f.Path] = cachedFile{info, f.Hash}
		}
	}
}

func (c *Cache) remove(p string) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.files, p)
	}
}

func sameState(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
