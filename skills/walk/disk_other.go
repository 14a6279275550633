//go:build !linux

package walk

import (
	"errors"
	"io/fs"
)

// MarkOfInfo knows no inodes here: a file is taken for unchanged by its time and size.
func MarkOfInfo(info fs.FileInfo) Mark {
	return Mark{mtime: info.ModTime().UnixNano(), size: info.Size()}
}

// OpenPlain leaves every file to os.Root here.
func OpenPlain(string, string) (fs.File, error) { return nil, errors.ErrUnsupported }
