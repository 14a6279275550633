package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"symbio/internal/security/private"
	"symbio/internal/security/visible"
	"symbio/internal/skills/share"
)

const (
	// lockVersion is the version of the form of a lock file.
	lockVersion = 1
	// skillsDir is the directory with the skills, lockName the lock file; both are below the base of
	// a Place.
	skillsDir = ".agents/skills"
	lockName  = ".agents/skills.lock"
)

var (
	// ErrLock means that a lock file is not what this package writes.
	ErrLock = errors.New("the lock file is damaged")
	// ErrCommit means that the lock file does not have the files of the commit that it names.
	ErrCommit = errors.New("the lock file does not have what its commit has")
	// ErrNotInstalled means that the lock file does not list a skill.
	ErrNotInstalled = errors.New("not installed")
)

// LockEntry is an installed skill as the lock file has it. The names in JSON are a contract.
type LockEntry struct {
	Name string `json:"name"`
	// Source, Path and Ref are as in a Source. Path is the directory of the skill itself, "." if
	// it is the whole source, and Ref the full name of the reference.
	Source string `json:"source"`
	Path   string `json:"path,omitempty"`
	Ref    string `json:"ref,omitempty"`
	// Commit is the commit of a repository.
	Commit string `json:"commit,omitempty"`
	// Version is what the skill calls its version.
	Version string `json:"version,omitempty"`
	// Hash is the hash of share.Manifest, over all files.
	Hash  string       `json:"hash"`
	Files []share.File `json:"files"`
}

// lockFile is the content of a lock file. Skills are sorted by name.
type lockFile struct {
	Version int         `json:"version"`
	Skills  []LockEntry `json:"skills"`
}

// encodeLock returns the text of a lock file.
func encodeLock(all []LockEntry) ([]byte, error) {
	data, err := json.MarshalIndent(lockFile{lockVersion, append([]LockEntry{}, all...)}, "", "  ")
	return append(data, '\n'), err
}

// decodeLock reads a lock file. Anything that this package would not write is ErrLock.
func decodeLock(data []byte) ([]LockEntry, error) {
	var f lockFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrLock, visible.Line(err.Error(), 200))
	}
	for i, l := range f.Skills {
		if err := checkEntry(l); err != nil || i > 0 && f.Skills[i-1].Name >= l.Name {
			return nil, fmt.Errorf("%w: at %q, which is out of order or wrong: %w", ErrLock, visible.Truncate(l.Name, 64), err)
		}
	}
	// The one form has no unknown fields and no field twice, which people could overlook.
	if again, err := encodeLock(f.Skills); err != nil || f.Version != lockVersion || !bytes.Equal(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), again) {
		return nil, fmt.Errorf("%w: it is not of version %d in its one form", ErrLock, lockVersion)
	}
	return f.Skills, nil
}

// checkEntry returns the first field that is not as this package writes it.
func checkEntry(l LockEntry) error {
	m := share.Manifest{Name: l.Name, Files: l.Files}
	if err := m.Check(); err != nil {
		return err
	}
	s, err := ParseSource(sourceOf(l).String())
	switch {
	case m.Hash() != l.Hash:
		return fmt.Errorf("%w: its files have the hash %s", share.ErrHash, m.Hash())
	case l.Commit == "" && (l.Ref != "" || !sourceOf(l).Local()):
		return errors.New("it is of a repository, and names no commit")
	case l.Commit != "" && !commitID().MatchString(l.Commit), l.Version != visible.Line(l.Version, 80):
		return errors.New("its commit or its version is not in its one form")
	case err != nil || s != sourceOf(l):
		return errors.Join(errors.New("its source is not in its one form"), err)
	}
	return nil
}

// sourceOf returns where the skill came from.
func sourceOf(l LockEntry) Source { return Source{l.Source, l.Path, l.Ref} }

// Place is a directory with skills and a lock file beside them: the home of the user, or a project,
// whose content may come from others. No link in it is followed out of it. The methods read and
// write the disk; those that write must not be called at the same time.
type Place struct {
	base string
	root *os.Root
}

// Open returns the place of a directory, which must exist. Relative sources are resolved in it.
func Open(base string) (*Place, error) {
	root, err := os.OpenRoot(base)
	return &Place{base, root}, err
}

// Close releases the directory.
func (p *Place) Close() error { return p.root.Close() }

// Dir returns the directory of a skill.
func (p *Place) Dir(name string) string {
	return filepath.Join(p.base, filepath.FromSlash(skillsDir), name)
}

// List returns the installed skills by name. Without a lock file there are none. Errors: ErrLock and
// the errors of the disk.
func (p *Place) List() ([]LockEntry, error) {
	_, data, err := share.ReadFile(p.root, lockName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []LockEntry
	if err == nil {
		all, err = decodeLock(data)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(p.base, lockName), err)
	}
	return all, nil
}

// Find returns an installed skill, or ErrNotInstalled with a name that is near.
func (p *Place) Find(name string) (LockEntry, error) {
	all, err := p.List()
	var names []string
	for _, l := range all {
		if l.Name == name {
			return l, nil
		}
		names = append(names, l.Name)
	}
	if err == nil {
		err = fmt.Errorf("%q is %w: %s does not list it%s", visible.Truncate(name, 64), ErrNotInstalled, filepath.Join(p.base, lockName), visible.Suggest(name, names))
	}
	return LockEntry{}, err
}

// set replaces the entry of a skill in the lock file; nil removes it. The file is read again for it,
// so that a change of another process is lost only within that moment.
func (p *Place) set(name string, entry *LockEntry) error {
	all, err := p.List()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(l LockEntry) bool { return l.Name == name })
	if entry != nil {
		all = append(all, *entry)
	}
	slices.SortStableFunc(all, func(a, b LockEntry) int { return strings.Compare(a.Name, b.Name) })
	data, err := encodeLock(all)
	if err == nil && len(data) > share.MaxFile {
		err = fmt.Errorf("%w: the lock file would have over %d KiB", private.ErrFull, share.MaxFile>>10)
	}
	if err != nil {
		return err
	}
	return private.Replace(filepath.Join(p.base, lockName), data)
}

// Installed reads an installed skill and returns it with the files that are not as the lock file says.
// The skill is nil if it cannot be read, and the error says why; all files differ then. Names that
// begin with a dot are no part of a skill. It needs no network.
func (p *Place) Installed(l LockEntry) (pack *share.Pack, edits []FileChange, err error) {
	var files []share.File
	if pack, err = share.Read(p.Dir(l.Name)); err == nil {
		files = pack.Files
	}
	edits = slices.DeleteFunc(diff(l.Files, files), func(c FileChange) bool { return c.Change == "same" })
	return pack, edits, err
}

// CheckCommit compares the lock file with the commit that it names, which is fetched from the source:
// who edits a skill can edit its hashes in the lock file, too. A folder and an archive have no commit,
// and are not compared. Errors: ErrCommit, and PlanAdd's about the source.
func (p *Place) CheckCommit(ctx context.Context, f *Fetcher, l LockEntry) error {
	if l.Commit == "" {
		return nil
	}
	s := p.at(sourceOf(l))
	s.Ref = l.Commit
	r, err := f.repo(ctx, s)
	if err != nil {
		return err
	}
	t, err := readTree(ctx, s, r)
	if err != nil {
		return err
	}
	if !slices.Contains(t.skills, l.Path) {
		return fmt.Errorf("%w: %.12s has no skill in %q", ErrCommit, l.Commit, l.Path)
	}
	pack, err := t.pack(l.Path)
	if err != nil || pack.Hash() == l.Hash {
		return err
	}
	var paths []string
	for _, c := range diff(pack.Files, l.Files) {
		if c.Change != "same" {
			paths = append(paths, c.Change+" "+c.Path)
		}
	}
	return fmt.Errorf("%w: %.12s: %s", ErrCommit, l.Commit, strings.Join(paths, ", "))
}
