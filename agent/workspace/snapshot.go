package workspace

import (
	"context"
	"errors"
	"io"
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

// Cache has the hashes of the files of one directory. It may be used by many goroutines.
type Cache struct{}

// Take returns the snapshot of a directory: in a git repository the files that git tracks and the untracked ones that it
// does not ignore, elsewhere those that .gitignore files leave. It runs git if that is installed.
func Take(ctx context.Context, dir string, o Options) (*Snapshot, error) {
	return nil, errors.ErrUnsupported
}

// Open opens a file of the snapshot as it was when it was taken. If the content is another by now, reading ends with
// ErrChanged.
func (s *Snapshot) Open(f File) (io.ReadCloser, error) { return nil, errors.ErrUnsupported }
