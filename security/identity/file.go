package identity

import (
	"errors"
	"fmt"
	"io/fs"

	"symbio/internal/security/private"
)

// secretSize is the most bytes of a file with a key, a certificate, a token or a record: far more
// than each needs. A longer file is something else.
const secretSize = 16 << 10

// readOrCreate returns the content of file, or first writes what fresh returns if there is no such
// file. Of several processes that start at the same instant one wins, and all return what that one
// wrote.
func readOrCreate(file string, fresh func() ([]byte, error)) ([]byte, error) {
	data, err := readSecret(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	if data, err = fresh(); err != nil {
		return nil, err
	}
	if err := private.Create(file, data); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("write %s: %w", file, err)
	}
	return readSecret(file)
}

// readSecret reads a file of up to secretSize bytes that only its owner may read, in a directory
// that only its owner may change (package private).
func readSecret(file string) ([]byte, error) { return readFile(file, secretSize) }

// readFile is readSecret for a file of up to size bytes. Its errors for files that others may use,
// or that cannot be this program's, say what to do.
func readFile(file string, size int64) ([]byte, error) {
	data, err := private.Read(file, size)
	switch {
	case errors.Is(err, private.ErrExposed):
		return nil, fmt.Errorf("%w; if another user may have read it, move it away instead and a new one is made", err)
	case errors.Is(err, private.ErrUnfit):
		return nil, fmt.Errorf("%w; move it away to get a new one", err)
	}
	return data, err
}
