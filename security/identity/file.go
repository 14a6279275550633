package identity

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// secretSize is far more than a key and a certificate in PEM need; a longer file is something else.
const secretSize = 16 << 10

// readOrCreate returns what is in file, or writes what fresh returns there first. Of several
// processes that start at the same instant one wins, and all return what it wrote.
func readOrCreate(file string, fresh func() ([]byte, error)) ([]byte, error) {
	data, err := readSecret(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for %s: %w", file, err)
	}
	if data, err = fresh(); err != nil {
		return nil, err
	}
	if err := writeOnce(file, data); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("write %s: %w", file, err)
	}
	return readSecret(file)
}

// readSecret reads a file that only its owner may read, in a folder that only its owner may change.
func readSecret(file string) ([]byte, error) { return readFile(file, secretSize) }

// readFile is readSecret for a file of up to size bytes.
func readFile(file string, size int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// The checks are made on what was opened, so that a rename between them changes nothing.
	stat, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !stat.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file; move it away to get a new one", file)
	}
	if err := privateFile(file, stat); err != nil {
		return nil, err
	}
	if dir, err := os.Stat(filepath.Dir(file)); err != nil {
		return nil, err
	} else if err := privateDir(filepath.Dir(file), dir); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, size+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if int64(len(data)) > size {
		return nil, fmt.Errorf("%s has over %d bytes, so it is not a key; move it away to get a new one", file, size)
	}
	return data, nil
}

// replace makes file hold data, whole or not at all, whatever it held before.
func replace(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

// writeOnce makes file with data in it, whole or not at all; fs.ErrExist when it is already there.
func writeOnce(file string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	// A link fails when the name is taken, where a rename would replace another process's key.
	err = os.Link(tmp.Name(), file)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return writeExclusive(file, data)
}

// writeExclusive is for file systems without hard links. There a process that starts within the
// microseconds of the write can see half a file; it then stops with an error, and overwrites nothing.
func writeExclusive(file string, data []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}
