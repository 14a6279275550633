package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"symbio/internal/security/private"
	"symbio/internal/skills/share"
)

// Record is a person's trust in one skill.
type Record struct {
	// Dir is the skill's directory, absolute and as it was found. Links are not resolved: otherwise
	// a project could use the trust in another project by a link to it. Hash is the SHA-256 of the
	// SKILL.md in hex.
	Dir  string `json:"dir"`
	Hash string `json:"hash"`
	Name string `json:"name"`
	// Tree is the hash of a skill that came from another node, and Node the node's id. Both are ""
	// for a skill of a project.
	Tree string `json:"tree,omitempty"`
	Node string `json:"node,omitempty"`
	// Rules are the rules that the person accepted, as written.
	Rules []string  `json:"rules"`
	Time  time.Time `json:"time"`
	// Texts are the SKILL.md and the scripts as they were then, by their paths; see Keeper.Previous. nil = they were not kept.
	Texts map[string]string `json:"texts,omitempty"`
}

// Book is a directory of records. Any number of processes may use it at a time; see private.Book.
type Book struct{ dir string }

// NewBook returns the book in a directory, which need not exist yet.
func NewBook(dir string) Book { return Book{dir} }

// records returns the files of the book. They are not a field, since each package that uses a Book would compile them.
func records(b Book) private.Book[Record] {
	return private.Book[Record]{Dir: b.dir, Key: func(r Record) string { return key(r.Dir, r.Hash) }, Check: Record.check}
}

// key returns the key of the record for the SKILL.md with that hash in dir.
func key(dir, hash string) string { return dir + "\x00" + hash }

// check rejects a record that this package did not write.
func (r Record) check() error {
	switch {
	case !filepath.IsAbs(r.Dir) || filepath.Clean(r.Dir) != r.Dir:
		return fmt.Errorf("the directory %q is not absolute and clean", r.Dir)
	case !share.ValidHash(r.Hash) || r.Tree != "" && !share.ValidHash(r.Tree):
		return errors.New("a hash is 64 hex digits")
	}
	return nil
}

// Find returns the record of the SKILL.md with that hash in dir. ok is false if there is none, and
// with an error.
func (b Book) Find(dir, hash string) (r Record, ok bool, err error) {
	r, err = records(b).Find(key(dir, hash))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	return r, err == nil, err
}

// Put stores a record and replaces the one for the same SKILL.md. Errors: private.ErrFull,
// private.ErrRecord.
func (b Book) Put(r Record) error {
	r.Rules = append([]string{}, r.Rules...)
	err := records(b).Put(r)
	switch {
	case errors.Is(err, private.ErrFull):
		return fmt.Errorf("trust %s: %w; revoke some with `symbio skills trust --revoke`", r.Name, err)
	case err != nil:
		return fmt.Errorf("trust %s: %w", r.Name, err)
	}
	return nil
}

// Remove deletes a record, also one that cannot be read. fs.ErrNotExist: there is none.
func (b Book) Remove(dir, hash string) error { return records(b).Remove(key(dir, hash)) }

// Records returns all records, by name, directory and time. With an error, which names the files
// that cannot be read, it also returns those that can.
func (b Book) Records() ([]Record, error) {
	all, err := records(b).All()
	sortKey := func(r Record) []string { return []string{r.Name, r.Dir, r.Time.UTC().Format(time.RFC3339Nano), r.Hash} }
	slices.SortStableFunc(all, func(x, y Record) int { return slices.Compare(sortKey(x), sortKey(y)) })
	if err != nil {
		err = fmt.Errorf("list the trusted skills: %w", err)
	}
	return all, err
}
