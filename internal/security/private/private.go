// Package private reads and writes small files that speak for a user: keys, what the user allowed,
// what the user trusts.
//
// The one idea: a program that could have written such a file could have said yes in the user's
// name. So a file is read only if no other user could have written or seen it, and it is written
// whole or not at all.
//
// Guarantees: what is checked is what was opened, so that a rename between the two changes nothing.
// A FIFO or a device in its place does not hang the reader. No more than the limit is read. Any
// function may be called from many goroutines and processes at once; of two that replace a file,
// the later one wins.
//
// It does not encrypt, and it does not lock. On systems without mode bits it relies on the access
// list of the directory.
package private

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrExposed means that other users could have read or written a file, or put it there. The error
// says which permissions allow that, and how to close them.
var ErrExposed = errors.New("other users have access to it")

// ErrUnfit means that a path cannot be such a file: it is a directory, a link, a device, or too
// long.
var ErrUnfit = errors.New("it is not a file that symbio writes")

// Read returns the content of a file of at most limit bytes that only its owner can use, in a
// directory that only its owner can change; the owner is the user of this process, or root. The
// errors are fs.ErrNotExist, ErrExposed, ErrUnfit, and the errors of reading; each names the file.
func Read(file string, limit int64) ([]byte, error) {
	f, info, err := open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dir, err := os.Stat(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(exposed(file, info, 0o077, "600"), exposed(filepath.Dir(file), dir, 0o022, "700")); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s has over %d bytes: %w", file, limit, ErrUnfit)
	}
	return data, nil
}

// open opens a regular file, and not what a link leads to.
func open(file string) (*os.File, fs.FileInfo, error) {
	for {
		// Without O_NONBLOCK, opening a FIFO would wait for a writer. What follows looks at the
		// open file, so that a rename in between changes nothing.
		f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, nil, err
		}
		named, err1 := os.Lstat(file)
		info, err2 := f.Stat()
		err = errors.Join(err1, err2)
		switch {
		case err != nil:
		case !named.Mode().IsRegular() || !info.Mode().IsRegular():
			err = fmt.Errorf("%s is not a regular file: %w", file, ErrUnfit)
		case os.SameFile(named, info):
			return f, info, nil
		}
		f.Close()
		if err != nil {
			return nil, nil, err
		} // else it was replaced between the two calls
	}
}

// Replace makes file hold data, for this user alone, whatever it held before. It makes the
// directory if there is none. A reader finds the old or the new content, also after a loss of
// power. It blocks until data is on the disk.
func Replace(file string, data []byte) error { return written(file, data, os.Rename) }

// Create is Replace for a file that does not exist yet; fs.ErrExist if it does, also when another
// process made it meanwhile. On a file system without hard links, a reader within the microseconds
// of the write can see half a file.
func Create(file string, data []byte) error {
	err := written(file, data, os.Link) // a link fails when the name is taken, where a rename would replace
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// written writes a whole file under a temporary name in the same directory, syncs it, and lets
// place move or link it to its own name. The temporary file is removed in any case.
func written(file string, data []byte, place func(from, to string) error) error {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(file)+"-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return place(tmp.Name(), file)
}
