package private

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// maxRecord is the most bytes of a record: hundreds of rules, or the longest path.
	maxRecord = 64 << 10
	// maxRecords is the most records of a book, more than a person decides.
	maxRecords = 4096
	// recordEnd ends the name of a record's file; before it are 64 hex digits, the hash of the key.
	recordEnd = ".json"
)

// ErrRecord means that a value cannot be a record, or that a file does not hold one that counts.
var ErrRecord = errors.New("the record is not valid")

// ErrFull means that a limit of size or number is reached.
var ErrFull = errors.New("too many records are kept")

// Book keeps decisions of a person, such as which skills they trust, each in a file of its own in a
// directory, which need not exist yet. So many processes may decide at the same time, and a file
// that is damaged, that others could have written, or that has another record's name costs one
// decision only: it is an error, and no record.
//
// Its methods may be called from many goroutines and processes; they read and write the disk.
type Book[T any] struct {
	// Dir is the directory; it belongs to this book alone.
	Dir string
	// Key returns what identifies a record. Of two records with the same key the later one stays.
	// Required.
	Key func(T) string
	// Check returns why a value cannot be a record. Default: any can.
	Check func(T) error
}

// file returns the path of a record. The key is hashed, so that it may be a path or have any
// length.
func (b Book[T]) file(key string) string {
	name := sha256.Sum256([]byte(key))
	return filepath.Join(b.Dir, hex.EncodeToString(name[:])+recordEnd)
}

// Find returns the record with that key. It returns fs.ErrNotExist if there is none, and ErrRecord
// if its file does not count.
func (b Book[T]) Find(key string) (T, error) { return b.read(b.file(key)) }

// Put stores a record, in place of an earlier one with its key. It returns ErrRecord with the error
// of Check, and ErrFull if the book has maxRecords and none of them is replaced.
func (b Book[T]) Put(record T) error {
	if err := b.check(record); err != nil {
		return fmt.Errorf("%w: %w", ErrRecord, err)
	}
	path := b.file(b.Key(record))
	if names, _ := b.list(); len(names) >= maxRecords {
		if _, err := os.Lstat(path); err != nil {
			return fmt.Errorf("%w: %d records in %s", ErrFull, len(names), b.Dir)
		}
	}
	return ReplaceJSON(path, maxRecord, record)
}

// Remove deletes a record, also one that cannot be read. It returns fs.ErrNotExist if there is
// none.
func (b Book[T]) Remove(key string) error { return os.Remove(b.file(key)) }

// All returns the records, in no order. The error names each file that cannot be read; the others
// are returned beside it, so a caller that ignores the error loses single records only.
func (b Book[T]) All() ([]T, error) {
	names, err := b.list()
	problems := []error{err}
	var all []T
	for _, name := range names {
		switch record, err := b.read(filepath.Join(b.Dir, name)); {
		case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile
		case err != nil:
			problems = append(problems, err)
		default:
			all = append(all, record)
		}
	}
	return all, errors.Join(problems...)
}

// read returns the record in a file. A file whose name differs from the name of its record's key is an error:
// a copy under another name would otherwise survive Remove.
func (b Book[T]) read(file string) (record T, err error) {
	var none T
	err = ReadJSON(file, maxRecord, &record)
	if errors.Is(err, fs.ErrNotExist) {
		return none, err
	}
	err = cmp.Or(err, b.check(record))
	if err == nil && b.file(b.Key(record)) != file {
		err = errors.New("it has the name of another record")
	}
	if err != nil {
		return none, fmt.Errorf("%w: %s: %w; remove it, and decide again", ErrRecord, file, err)
	}
	return record, nil
}

func (b Book[T]) check(record T) error {
	if b.Check == nil {
		return nil
	}
	return b.Check(record)
}

// list returns the names of the files of records. Of more than maxRecords it returns that many and
// ErrFull. A missing directory has none.
func (b Book[T]) list() (names []string, err error) {
	d, err := os.Open(b.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(256)
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), recordEnd) {
				names = append(names, e.Name())
			}
		}
		switch {
		case len(names) > maxRecords:
			return names[:maxRecords], fmt.Errorf("%w in %s: only %d records are read", ErrFull, b.Dir, maxRecords)
		case errors.Is(err, io.EOF):
			return names, nil
		case err != nil:
			return names, err
		}
	}
}
