package trust

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"symbio/security/private"
)

const (
	maxRecord  = 64 << 10 // bytes of a file: hundreds of rules
	maxRecords = 4096     // that are listed: more than a person trusts
	fileEnd    = ".json"
)

var (
	// ErrBadRecord: a file among the records is not one that this package wrote.
	ErrBadRecord = errors.New("not a record of trust")
	// ErrFull: there are too many records.
	ErrFull = errors.New("too many records of trust")
)

// Record says that a person trusts a skill.
type Record struct {
	// Dir is the skill's directory, absolute and as it was found: where links lead does not count, so that no
	// project comes by another's trust by linking to it. Hash is the SHA-256 of its SKILL.md, in hex.
	Dir  string `json:"dir"`
	Hash string `json:"hash"`
	Name string `json:"name"`
	// Tree is the hash of a skill that came from another node, Node where from; "" of a project's skill.
	Tree string `json:"tree,omitempty"`
	Node string `json:"node,omitempty"`
	// Rules are the ones that it may grant, as written.
	Rules []string  `json:"rules"`
	Time  time.Time `json:"time"`
}

// Book is a directory of records. Its methods may be called by any number of goroutines and processes; they
// read and write the disk.
type Book struct{ dir string }

// NewBook returns the book in a directory, which need not exist yet.
func NewBook(dir string) Book { return Book{dir} }

var hash = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (r Record) check() error {
	switch {
	case !filepath.IsAbs(r.Dir) || filepath.Clean(r.Dir) != r.Dir:
		return fmt.Errorf("%w: the directory %q is not absolute and clean", ErrBadRecord, r.Dir)
	case !hash.MatchString(r.Hash) || r.Tree != "" && !hash.MatchString(r.Tree):
		return fmt.Errorf("%w: a hash is 64 hex digits", ErrBadRecord)
	}
	return nil
}

func (b Book) file(dir, sum string) string {
	name := sha256.Sum256([]byte(dir + "\x00" + sum))
	return filepath.Join(b.dir, hex.EncodeToString(name[:])+fileEnd)
}

// Find returns the record of the SKILL.md with that hash in dir. ok is false when there is none, and beside an
// error.
func (b Book) Find(dir, sum string) (r Record, ok bool, err error) {
	r, err = b.read(b.file(dir, sum))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, err
	}
	if r.Dir != dir || r.Hash != sum {
		return Record{}, false, fmt.Errorf("%w: %s is about another skill", ErrBadRecord, b.file(dir, sum))
	}
	return r, true, nil
}

// Put keeps a record, in the place of the one for the same SKILL.md. ErrFull.
func (b Book) Put(r Record) error {
	if err := r.check(); err != nil {
		return fmt.Errorf("trust %s: %w", r.Name, err)
	}
	r.Rules = append([]string{}, r.Rules...)
	if all, _ := b.list(); len(all) >= maxRecords {
		return fmt.Errorf("%w: %d; revoke some with `symbio skills trust --revoke`", ErrFull, len(all))
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(data) > maxRecord {
		return fmt.Errorf("trust %s: its rules take more than %d KiB", r.Name, maxRecord>>10)
	}
	if err := private.Replace(b.file(r.Dir, r.Hash), data); err != nil {
		return fmt.Errorf("keep the trust in %s: %w", r.Name, err)
	}
	return nil
}

// Remove forgets a record, also one that cannot be read. fs.ErrNotExist: there is none.
func (b Book) Remove(dir, sum string) error { return os.Remove(b.file(dir, sum)) }

// Records lists all, by name, directory and time. Beside an error, which names the files that cannot be read,
// stand those that can.
func (b Book) Records() ([]Record, error) {
	names, err := b.list()
	problems := []error{err}
	var all []Record
	for _, name := range names {
		file := filepath.Join(b.dir, name)
		r, err := b.read(file)
		switch {
		case errors.Is(err, fs.ErrNotExist): // revoked meanwhile
		case err != nil:
			problems = append(problems, err)
		case b.file(r.Dir, r.Hash) != file:
			problems = append(problems, fmt.Errorf("%w: %s is about another skill", ErrBadRecord, file))
		default:
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(x, y Record) int {
		return slices.Compare([]string{x.Name, x.Dir, x.Time.UTC().Format(time.RFC3339Nano), x.Hash}, []string{y.Name, y.Dir, y.Time.UTC().Format(time.RFC3339Nano), y.Hash})
	})
	return all, errors.Join(problems...)
}

// list names the files of records, at most maxRecords.
func (b Book) list() ([]string, error) {
	d, err := os.Open(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the trusted skills: %w", err)
	}
	defer d.Close()
	var names []string
	for {
		entries, err := d.ReadDir(256)
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), fileEnd) {
				names = append(names, e.Name())
			}
		}
		switch {
		case len(names) > maxRecords:
			return names[:maxRecords], fmt.Errorf("%w in %s: only %d are read", ErrFull, b.dir, maxRecords)
		case errors.Is(err, io.EOF):
			return names, nil
		case err != nil:
			return names, fmt.Errorf("list the trusted skills: %w", err)
		}
	}
}

// read reads one file. What it says is checked, but not that its name is the right one.
func (b Book) read(file string) (Record, error) {
	bad := func(why any) (Record, error) {
		return Record{}, fmt.Errorf("%w: %s: %v; remove it to be asked again", ErrBadRecord, file, why)
	}
	data, err := private.Read(file, maxRecord)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Record{}, err
	case err != nil:
		return bad(err)
	}
	r, err := decode(data)
	if err != nil {
		return bad(err)
	}
	return r, nil
}

func decode(data []byte) (Record, error) {
	var r Record
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return Record{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Record{}, errors.New("something follows the record")
	}
	return r, r.check()
}
