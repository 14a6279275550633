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
	originFile = "origin.json"
	unfinished = ".new-"
	// stale is how old something unfinished is that nobody writes any more.
	stale = time.Hour
)

// Origin is where a stored skill came from.
type Origin struct {
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Hash        string    `json:"hash"`
	Node        string    `json:"node"` // its id
	NodeName    string    `json:"node_name"`
	Files       int       `json:"files"`
	Bytes       int64     `json:"bytes"`
	Fetched     time.Time `json:"fetched"`
}

// Store keeps skills of other nodes, each in DIR/HASH/NAME, where nothing is written to again. Its methods may
// be called by any number of goroutines and processes; they read and write the disk.
type Store struct{ dir string }

// NewStore returns the store in a directory, which need not exist yet. The directory is a user's own: who can
// write there is as that user.
func NewStore(dir string) Store { return Store{dir} }

// Dir is where the skill of that hash and name lies, if it is stored.
func (s Store) Dir(hash, name string) string { return filepath.Join(s.dir, hash, name) }

// Put stores a skill and returns what is known of it; of one that is stored already, what was known before.
// ErrFull.
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
	if n, err := s.tidy(); err != nil || n >= maxStored {
		if err == nil {
			err = fmt.Errorf("%w: %d; `symbio skills fetch` lists them, --remove HASH removes one", ErrFull, n)
		}
		return fail(err)
	}
	// What does not verify any more gives way.
	if err := s.Remove(o.Hash); err != nil && !errors.Is(err, ErrNotStored) {
		return fail(err)
	}
	tmp, err := os.MkdirTemp(s.dir, unfinished)
	if err != nil {
		return fail(err)
	}
	err = fill(tmp, p, o)
	if err == nil {
		err = os.Rename(tmp, filepath.Join(s.dir, o.Hash))
	}
	if err != nil {
		err = errors.Join(err, erase(tmp))
		if have, findErr := s.Find(o.Hash); findErr == nil { // somebody else was faster
			return have, nil
		}
		return fail(err)
	}
	return o, nil
}

func fill(dir string, p *Pack, o Origin) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := p.write(root); err != nil {
		return err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return root.WriteFile(originFile, data, 0o400)
}

// Find says what is known of a stored skill: ErrNotStored.
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
	if err != nil || json.Unmarshal(data, &o) != nil || o.Hash != hash || !skillName.MatchString(o.Name) {
		return Origin{}, fmt.Errorf("%w: %s: its %s is damaged; --remove it and fetch it again", ErrNotStored, hash, originFile)
	}
	return o, nil
}

// List says what is known of all, by name and hash.
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
	slices.SortFunc(all, func(a, b Origin) int {
		return slices.Compare([]string{a.Name, a.Hash}, []string{b.Name, b.Hash})
	})
	return all, nil
}

// Verify reads a stored skill whole and says whether it is still the one of that hash: ErrNotStored, ErrHash,
// or what Read says.
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

// Remove takes a stored skill away: ErrNotStored.
func (s Store) Remove(hash string) error {
	at := filepath.Join(s.dir, hash)
	if info, err := os.Lstat(at); !ValidHash(hash) || err != nil || !info.IsDir() {
		return fmt.Errorf("%w: %s", ErrNotStored, clip(hash))
	}
	// Under another name first, so that nobody finds half of it.
	gone, err := os.MkdirTemp(s.dir, unfinished)
	if err == nil {
		err = os.Rename(at, filepath.Join(gone, hash))
	}
	if err = errors.Join(err, erase(gone)); err != nil {
		return fmt.Errorf("remove the skill %s: %w", hash, err)
	}
	return nil
}

// tidy removes what a process left unfinished, and counts the skills.
func (s Store) tidy() (n int, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if ValidHash(e.Name()) {
			n++
		}
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), unfinished) && time.Since(info.ModTime()) > stale {
			if err := erase(filepath.Join(s.dir, e.Name())); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// erase removes a directory of this store, whose directories cannot be written to.
func erase(dir string) error {
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
