package install

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"symbio/internal/security/visible"
	"symbio/internal/skills/share"
	"symbio/skills/format"
)

var (
	// ErrRewritten means that a tag names another commit than the one that was installed.
	ErrRewritten = errors.New("the tag was rewritten")
	// ErrExists means that a directory is in the way that the lock file does not list.
	ErrExists = errors.New("a skill of that name is there that was not installed")
	// ErrEdited means that an installed skill is not as the lock file says.
	ErrEdited = errors.New("the installed skill was edited")
)

// Change says what installing a skill does. The names in JSON are a contract with scripts.
type Change struct {
	// LockEntry is the skill as the lock file will have it.
	LockEntry
	// Old is the installed skill, nil if there is none.
	Old         *LockEntry `json:"old,omitempty"`
	Description string     `json:"description"`
	// Current reports that the installed skill is what the source has. Done reports that the change
	// was applied.
	Current bool `json:"current"`
	Done    bool `json:"done"`
	// NewerTag is a tag with a newer version than the version of the reference, which is a tag.
	NewerTag string `json:"newer_tag,omitempty"`
	// Changes are the files of the source, and those that are removed.
	Changes []FileChange `json:"changes,omitempty"`
	// Grants are the rules that the skill asks for, NewGrants those that the installed one does not
	// ask for, and OldGrants those that end.
	Grants    []string `json:"grants,omitempty"`
	NewGrants []string `json:"new_grants,omitempty"`
	OldGrants []string `json:"old_grants,omitempty"`
	// Triggers and Depends come from the SKILL.md.
	Triggers format.Triggers     `json:"triggers,omitzero"`
	Depends  []format.Dependency `json:"depends,omitempty"`
	// Edited are the installed files that are not as the lock file says: added are those that it does
	// not list.
	Edited []FileChange `json:"edited,omitempty"`

	pack *share.Pack
}

// FileChange is a file of a Change.
type FileChange struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	// Change is added, changed, removed or same.
	Change string `json:"change"`
	// Script reports that the file can be executed or lies in scripts.
	Script bool `json:"script,omitempty"`
}

// PlanAdd plans to install skills of a source: those with the names, or all. It writes nothing into
// the place. The error of a skill that is refused does not keep the others from being planned.
// Errors: ErrChoice, ErrNoSkill, ErrNoRef, ErrRewritten, ErrExists, ErrRefused, the errors of package
// share, and of git, the disk and the network.
func (p *Place) PlanAdd(ctx context.Context, f *Fetcher, s Source, names []string, all bool) (changes []Change, err error) {
	r, err := f.repo(ctx, p.at(s))
	if err != nil {
		return nil, err
	}
	t, err := readTree(ctx, p.at(s), r)
	if err != nil {
		return nil, err
	}
	dirs, err := t.choose(names, all)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s, err)
	}
	for _, dir := range dirs {
		c, planErr := p.plan(t, dir, s)
		if planErr != nil {
			err = errors.Join(err, fmt.Errorf("install the skill %s of %s: %w", visible.Truncate(dir, 200), s, planErr))
			continue
		}
		changes = append(changes, c)
	}
	return changes, err
}

// PlanUpdate plans to bring an installed skill to what its source has now. It fetches nothing if the
// commit is the same and no file was edited. The errors come from PlanAdd.
func (p *Place) PlanUpdate(ctx context.Context, f *Fetcher, l LockEntry) (Change, error) {
	r, err := f.repo(ctx, p.at(sourceOf(l)))
	if err != nil {
		return Change{}, err
	}
	if _, edits, _ := p.Installed(l); r != nil && r.commit == l.Commit && len(edits) == 0 {
		return Change{LockEntry: l, Old: &l, Current: true, NewerTag: r.newer}, nil
	}
	changes, err := p.PlanAdd(ctx, f, sourceOf(l), nil, true)
	if err == nil && (len(changes) != 1 || changes[0].Name != l.Name) {
		err = fmt.Errorf("update the skill %s: %w: %s", l.Name, ErrNoSkill, sourceOf(l))
	}
	return append(changes, Change{})[0], err
}

// at returns a source with a relative path resolved.
func (p *Place) at(s Source) Source {
	if s.Local() && !filepath.IsAbs(s.Location) {
		s.Location = filepath.Join(p.base, filepath.FromSlash(s.Location))
	}
	return s
}

// plan reads the skill in a directory of a tree and compares it with the installed one.
func (p *Place) plan(t tree, dir string, s Source) (Change, error) {
	pack, err := t.pack(dir)
	if err != nil {
		return Change{}, err
	}
	for f, data := range pack.All {
		if bytes.HasPrefix(data, []byte("version https://git-lfs")) {
			return Change{}, fmt.Errorf("%w: %q is a pointer of git LFS: its authors can keep the file itself in the repository, or add a folder where git lfs pull was run", share.ErrKind, f.Path)
		}
	}
	m, _ := pack.Parse()
	c := Change{Description: m.Description, Grants: rules(m), Triggers: m.Triggers, Depends: m.Depends, pack: pack}
	c.LockEntry = LockEntry{Name: pack.Name, Source: s.Location, Path: dir, Version: visible.Line(m.Version, 80), Hash: pack.Hash(), Files: pack.Files}
	if t.repo != nil {
		c.Ref, c.Commit, c.NewerTag = t.repo.ref, t.repo.commit, t.repo.newer
	}
	if err := checkEntry(c.LockEntry); err != nil {
		return Change{}, err
	}
	err = p.compare(&c)
	return c, err
}

// compare fills in how c differs from the installed skill.
func (p *Place) compare(c *Change) error {
	old, err := p.Find(c.Name)
	var before []string
	switch {
	case errors.Is(err, ErrNotInstalled):
		if _, err := p.root.Lstat(path.Join(skillsDir, c.Name)); err == nil {
			return fmt.Errorf("%w: move %s away first", ErrExists, p.Dir(c.Name))
		}
	case err != nil:
		return err
	// A tag stands for one commit: moving it may be a try to replace what was reviewed.
	case old.Source == c.Source && old.Ref == c.Ref && old.Commit != c.Commit && strings.HasPrefix(c.Ref, "refs/tags/"):
		return fmt.Errorf("%w: %s was commit %.12s when it was installed, and is %.12s now: ask its authors why, then add another tag, or remove the skill and add it again", ErrRewritten, shortRef(c.Ref), old.Commit, c.Commit)
	default:
		have, edits, _ := p.Installed(old)
		c.Old, c.Edited = &old, edits
		// The rules of an edited skill do not count: no person was shown them.
		if len(edits) == 0 {
			m, _ := have.Parse()
			before = rules(m)
			c.Current = old.Hash == c.Hash && old.Commit == c.Commit && sourceOf(old) == sourceOf(c.LockEntry)
		}
	}
	c.Changes, c.NewGrants, c.OldGrants = diff(old.Files, c.Files), without(c.Grants, before), without(before, c.Grants)
	return nil
}

// rules returns the rules that a skill asks for and may get, and the toolsets that it asks for.
func rules(m format.Manifest) (all []string) {
	for _, r := range m.Grants {
		all = append(all, r.String())
	}
	for _, t := range m.Toolsets {
		all = append(all, "toolset "+t)
	}
	return all
}

// without returns the elements of a that b does not have.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

// diff compares the files of two versions of a skill.
func diff(old, files []share.File) (all []FileChange) {
	for _, f := range files {
		change := "changed"
		if slices.Contains(old, f) {
			change = "same"
		} else if !has(old, f.Path) {
			change = "added"
		}
		all = append(all, FileChange{f.Path, f.Size, change, f.Exec || strings.HasPrefix(f.Path, "scripts/")})
	}
	for _, f := range old {
		if !has(files, f.Path) {
			all = append(all, FileChange{Path: f.Path, Size: f.Size, Change: "removed"})
		}
	}
	return all
}

// has reports whether a file has the path.
func has(files []share.File, path string) bool {
	return slices.ContainsFunc(files, func(f share.File) bool { return f.Path == path })
}

// Apply writes what was planned: the skill completely, then its entry in the lock file. ErrEdited:
// the installed skill differs from the lock file and force is false; with force the edits are lost.
// The new files appear with one rename; if it fails, the old ones are put back.
func (p *Place) Apply(c *Change, force bool) (err error) {
	if c.Current {
		return nil
	}
	defer func() {
		if c.Done = err == nil; err != nil {
			err = fmt.Errorf("install the skill %s: %w", c.Name, err)
		}
	}()
	if err := p.unedited(c.Name, force); c.Old != nil && err != nil {
		return err
	}
	// The new files are written beside the directory in which nodes search.
	temp, at := ".agents/.new-"+rand.Text(), path.Join(skillsDir, c.Name)
	if err := errors.Join(p.root.MkdirAll(skillsDir, 0o755), p.root.Mkdir(temp, 0o700)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.root.RemoveAll(temp)) }()
	stage, err := p.root.OpenRoot(temp)
	if err != nil {
		return err
	}
	defer stage.Close()
	if err := c.pack.Write(stage, 0o755); err != nil {
		return err
	}
	old := path.Join(temp, "old")
	if err := p.root.Rename(at, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := p.root.Rename(path.Join(temp, c.Name), at); err != nil {
		return errors.Join(err, p.root.Rename(old, at))
	}
	return p.set(c.Name, &c.LockEntry)
}

// unedited returns ErrEdited unless the installed skill is as the lock file says, or force is true.
// ErrNotInstalled: the lock file does not list it.
func (p *Place) unedited(name string, force bool) error {
	l, err := p.Find(name)
	if err != nil || force {
		return err
	}
	_, edits, err := p.Installed(l)
	if len(edits) == 0 {
		return nil
	}
	return errors.Join(fmt.Errorf("%w: %s %s (%d files): keep what you need of it, then say --force, which loses the edits", ErrEdited, edits[0].Change, edits[0].Path, len(edits)), err)
}

// Remove deletes an installed skill and its entry in the lock file. ErrEdited: the skill differs
// from the lock file, also by files that it does not list, and force is false.
func (p *Place) Remove(name string, force bool) error {
	err := p.unedited(name, force)
	if err == nil {
		err = p.root.RemoveAll(path.Join(skillsDir, name))
	}
	if err == nil {
		err = p.set(name, nil)
	}
	if err != nil {
		return fmt.Errorf("remove the skill %s: %w", visible.Truncate(name, 64), err)
	}
	return nil
}
