//go:build !linux

package walk

import (
	"errors"
	"io/fs"
)

// MarkOfInfo returns the mark of an open file. There is no inode here, so only time and size count.
func MarkOfInfo(info fs.FileInfo) Mark {
	return Mark{mtime: info.ModTime().UnixNano(), size: info.Size()}
}

// OpenPlain returns errors.ErrUnsupported. Callers then use os.Root.
func OpenPlain(string, string) (fs.File, error) { return nil, errors.ErrUnsupported }
