package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxStored is how many skills are stored: with MaxSkill each they take 1 GiB at most.
const maxStored = 128

const (
	// originFile is the file of the Origin, in DIR/HASH beside the skill's directory.
	originFile = "origin.json"
	// tempPrefix begins the names of unfinished directories, which no hash does.
	tempPrefix = ".new-"
	// staleAfter is the age at which an unfinished directory belongs to a process that has ended.
	staleAfter = time.Hour
)

// Origin describes a stored skill and the node it was fetched from. It is stored beside the skill.
type Origin struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Hash        string `json:"hash"`
	// Node is the id of the node, NodeName its name at that time.
	Node     string `json:"node"`
	NodeName string `json:"node_name"`
	// Files is the number of files, Bytes their size together.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Fetched is in UTC, in whole seconds.
	Fetched time.Time `json:"fetched"`
}

// Store keeps skills of other nodes, each in DIR/HASH/NAME. Nothing there is written to again. Any
// number of goroutines and processes may call its methods, which read and write the disk.
type Store struct{ dir string }

// NewStore returns the store in a directory, which need not exist. The directory must belong to the
// user: a process that can write there can change what the user trusts.
func NewStore(dir string) Store { return Store{dir} }

// Dir returns the directory of the skill with that hash and name, whether it is stored or not.
func (s Store) Dir(hash, name string) string { return filepath.Join(s.dir, hash, name) }

// Put stores a skill and returns its origin. For a skill that is stored and intact it returns the
// earlier origin. node and nodeName say where it comes from. ErrFull: the store has 128 skills. The
// skill appears with one rename, so other processes see all of it or nothing.
func (s Store) Put(p *Pack, node, nodeName string) (Origin, error) {
	o := Origin{
		Name: p.Name, Description: p.Description(), Hash: p.Hash(), Node: node, NodeName: nodeName,
		Files: len(p.Files), Bytes: p.Bytes(), Fetched: time.Now().UTC().Truncate(time.Second),
	}
	if have, err := s.Find(o.Hash); err == nil && s.Verify(o.Hash) == nil {
		return have, nil
	}
	fail := func(err error) (Origin, error) {
		return Origin{}, fmt.Errorf("store the skill %s: %w", p.Name, err)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fail(err)
	}
	if n, err := s.removeStale(); err != nil || n >= maxStored {
		if err == nil {
			err = fmt.Errorf("%w: %d; `symbio skills fetch` lists them, --remove HASH removes one", ErrFull, n)
		}
		return fail(err)
	}
	// A stored skill that does not verify any more is replaced.
	if err := s.Remove(o.Hash); err != nil && !errors.Is(err, ErrNotStored) {
		return fail(err)
	}
	tmp, err := os.MkdirTemp(s.dir, tempPrefix)
	if err != nil {
		return fail(err)
	}
	err = writeSkill(tmp, p, o)
	if err == nil {
		err = os.Rename(tmp, filepath.Join(s.dir, o.Hash))
	}
	if err != nil {
		err = errors.Join(err, removeTree(tmp))
		// Rename fails if another process has just stored the skill; that is a success.
		if have, findErr := s.Find(o.Hash); findErr == nil {
			return have, nil
		}
		return fail(err)
	}
	return o, nil
}

// writeSkill writes a skill and its origin into an empty directory. The origin comes last: without
// it Find does not find the skill.
func writeSkill(dir string, p *Pack, o Origin) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := p.Write(root, 0o500); err != nil {
		return err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return root.WriteFile(originFile, data, 0o400)
}

// Find returns the origin of a stored skill. It does not read the skill itself; Verify does.
// ErrNotStored: there is none, or its record is damaged.
func (s Store) Find(hash string) (Origin, error) {
	if !ValidHash(hash) {
		return Origin{}, fmt.Errorf("%w: %q is no hash", ErrNotStored, clip(hash))
	}
	f, err := os.Open(filepath.Join(s.dir, hash, originFile))
	if err != nil {
		return Origin{}, fmt.Errorf("%w: %s", ErrNotStored, hash)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxManifest))
	var o Origin
	if err != nil || json.Unmarshal(data, &o) != nil || o.Hash != hash || !skillName().MatchString(o.Name) {
		return Origin{}, fmt.Errorf("%w: %s: its %s is damaged; --remove it and fetch it again", ErrNotStored, hash, originFile)
	}
	return o, nil
}

// List returns the origins of all stored skills, sorted by name and hash. It leaves out damaged
// ones. Without a directory it returns an empty list.
func (s Store) List() ([]Origin, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the stored skills: %w", err)
	}
	all := []Origin{}
	for _, e := range entries {
		if o, err := s.Find(e.Name()); err == nil {
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b Origin) int {
		return slices.Compare([]string{a.Name, a.Hash}, []string{b.Name, b.Hash})
	})
	return all, nil
}

// Verify reads a stored skill and compares its hash. It costs a read of all its files. Errors:
// ErrNotStored, ErrHash if it was changed, and the errors of Read.
func (s Store) Verify(hash string) error {
	o, err := s.Find(hash)
	if err != nil {
		return err
	}
	p, err := Read(s.Dir(hash, o.Name))
	if err != nil {
		return err
	}
	if now := p.Hash(); now != hash {
		return fmt.Errorf("%w: the stored skill %s was changed, it is %s now; --remove it and fetch it again", ErrHash, hash, now)
	}
	return nil
}

// Remove deletes a stored skill, also a damaged one. ErrNotStored: there is none.
func (s Store) Remove(hash string) error {
	at := filepath.Join(s.dir, hash)
	if info, err := os.Lstat(at); !ValidHash(hash) || err != nil || !info.IsDir() {
		return fmt.Errorf("%w: %s", ErrNotStored, clip(hash))
	}
	// Rename first, so that no other process finds half of the skill.
	gone, err := os.MkdirTemp(s.dir, tempPrefix)
	if err == nil {
		err = os.Rename(at, filepath.Join(gone, hash))
	}
	if err = errors.Join(err, removeTree(gone)); err != nil {
		return fmt.Errorf("remove the skill %s: %w", hash, err)
	}
	return nil
}

// removeStale deletes directories that a process left unfinished more than staleAfter ago, and
// returns the number of stored skills, damaged ones included.
func (s Store) removeStale() (n int, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if ValidHash(e.Name()) {
			n++
		}
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), tempPrefix) && time.Since(info.ModTime()) > staleAfter {
			if err := removeTree(filepath.Join(s.dir, e.Name())); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// removeTree deletes a directory of this store. It makes the directories writable first, because
// Write protected them. "" is no error, for a directory that was never made.
func removeTree(dir string) error {
	if dir == "" {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return os.Chmod(path, 0o700)
	})
	return errors.Join(err, os.RemoveAll(dir))
}
