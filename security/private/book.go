package private

import (
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
	maxRecord  = 64 << 10 // bytes of a record: hundreds of rules, or the longest path
	maxRecords = 4096     // of a book: more than a person decides
	recordEnd  = ".json"
)

// ErrRecord is that a value cannot be a record, or that a file does not hold one.
var ErrRecord = errors.New("not a record that counts")

// ErrFull is that no more can be kept.
var ErrFull = errors.New("too much is kept already")

// Book keeps decisions of a person, such as which skills they trust, each in a file of its own in a directory, which need
// not exist yet. So many processes may decide at the same time, and a file that is damaged, that others could have
// written, or that has another record's name costs one decision only: it is an error, and no record.
//
// Its methods may be called from many goroutines and processes; they read and write the disk.
type Book[T any] struct {
	Dir string
	// Key identifies a record; of two with the same key the later one stays.
	Key func(T) string
	// Check returns why a value cannot be a record. Default: any can.
	Check func(T) error
}

func (b Book[T]) file(key string) string {
	name := sha256.Sum256([]byte(key))
	return filepath.Join(b.Dir, hex.EncodeToString(name[:])+recordEnd)
}

// Find returns the record with that key. The errors are fs.ErrNotExist and ErrRecord.
func (b Book[T]) Find(key string) (T, error) { return b.read(b.file(key)) }

// Put keeps a record. ErrFull, and ErrRecord with what Check says.
func (b Book[T]) Put(record T) error {
	if err := b.check(record); err != nil {
		return fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if names, _ := b.list(); len(names) >= maxRecords {
		return fmt.Errorf("%w: %d records in %s", ErrFull, len(names), b.Dir)
	}
	return ReplaceJSON(b.file(b.Key(record)), maxRecord, record)
}

// Remove forgets a record, also one that cannot be read. fs.ErrNotExist: there is none.
func (b Book[T]) Remove(key string) error { return os.Remove(b.file(key)) }

// All returns the records, in no order. The error names each file that cannot be read; the others are returned beside it.
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

func (b Book[T]) read(file string) (record T, err error) {
	var none T
	err = ReadJSON(file, maxRecord, &record)
	if errors.Is(err, fs.ErrNotExist) {
		return none, err
	}
	if err == nil {
		err = b.check(record)
	}
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

// list names the files of records, at most maxRecords.
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
