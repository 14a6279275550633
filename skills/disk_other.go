//go:build !linux

package skills

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

func markOf(path string) (mark, error) {
	info, err := os.Stat(path)
	if err != nil {
		return mark{}, err
	}
	return markOfInfo(info), nil
}

// markOfInfo knows no inodes here: a file is taken for unchanged by its time and size.
func markOfInfo(info fs.FileInfo) mark {
	return mark{mtime: info.ModTime().UnixNano(), size: info.Size()}
}

// entriesOf returns what is in a directory, in no order, and its mark. It stops after limit entries unless
// limit is negative; more says that it did.
func entriesOf(dir string, limit int) (entries []dirent, m mark, more bool, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, mark{}, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, mark{}, false, err
	}
	m = markOfInfo(info)
	n := -1
	if limit >= 0 {
		n = limit + 1
	}
	found, err := f.ReadDir(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, m, false, err
	}
	for _, e := range found {
		entries = append(entries, dirent{e.Name(), e.Type()})
	}
	if limit >= 0 && len(entries) > limit {
		return entries[:limit], m, true, nil
	}
	return entries, m, false, nil
}

// openPlain leaves every file to os.Root here.
func openPlain(string, string) (fs.File, error) { return nil, errors.ErrUnsupported }
