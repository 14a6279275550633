//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"symbio/internal/security/protected"
)

// protection collects what keeps a command from the protected names in the directories that it may
// write. release must be called when the command has ended.
type protection struct {
	// pins are directories that must stay where they are; each becomes a mount point, which cannot
	// be renamed. paths are mounted read-only.
	pins, paths []string
	// masks are locked by this process until release; they come from the pool and go back to it.
	masks []*mask
	pool  maskPool
}

// protect finds the protected names below the writable places, and makes masks for those that do
// not exist. dir is the working directory. Masks are visible to all programs of the user while the
// command runs; release removes them. After an error nothing is left behind.
func (b *Box) protect(write []place, dir string) (_ *protection, err error) {
	p := &protection{pool: newMaskPool(b.masks)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.release())
		}
	}()
	for _, base := range b.bases(write, dir) {
		p.pinTo(base, write)
		names, others := protected.Masked(), slices.Concat(protected.Existing(), protected.Shells(), b.cfg.Protect)
		// Shells read these files in the home directory only, so only there are missing ones
		// masked.
		if base == b.home() {
			names, others = slices.Concat(names, protected.Shells()), slices.Concat(protected.Existing(), b.cfg.Protect)
		}
		// A git directory that is itself writable, such as a bare repository, has no .git in front
		// of its names.
		if isGitDir(base) {
			names = gitDir
		}
		for _, name := range names {
			if err := p.add(base, name, true); err != nil {
				return nil, err
			}
		}
		for _, name := range others {
			if err := p.add(base, name, false); err != nil {
				return nil, err
			}
		}
	}
	p.pins, p.paths = join(p.pins, nil), join(p.paths, nil)
	return p, nil
}

// bases returns the directories in which names are protected: the writable places, and the
// working directory and the user's home if they lie inside them.
func (b *Box) bases(write []place, dir string) (out []string) {
	also := []string{b.home(), dir}
	for _, w := range write {
		if st, err := os.Lstat(w.Path); err != nil || !st.IsDir() {
			continue
		}
		out = append(out, w.Path)
		for _, d := range also {
			if d != "" && within(d, w.Path) {
				out = append(out, d)
			}
		}
	}
	return join(out, nil)
}

// home returns the user's home with links resolved; "" if it is not known or is the root,
// whose names are no names of a home.
func (b *Box) home() string {
	real, err := filepath.EvalSymlinks(b.cfg.Home)
	if err != nil || real == "/" {
		return ""
	}
	return real
}

// isGitDir reports whether dir looks like a git directory to git: it has HEAD, objects and
// refs.
func isGitDir(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// pinTo pins base and the directories between it and the writable place around it. A command
// that could rename one of them could make a new one in its place, without the protected
// names.
func (p *protection) pinTo(base string, write []place) {
	for _, w := range write {
		for at := base; at != w.Path && within(at, w.Path); at = filepath.Dir(at) {
			p.pins = append(p.pins, at)
		}
	}
}

// add protects base/name and pins the directories between. With create, the first part that
// does not exist is masked. A symbolic link is an error: a mount would protect its target and
// leave the name writable.
func (p *protection) add(base, name string, create bool) error {
	at := base
	parts := strings.Split(filepath.ToSlash(filepath.Clean(name)), "/")
	// For .git/hooks this looks at .git and then at .git/hooks. The first part that is missing is
	// masked, and nothing below it can exist then.
	for i, part := range parts {
		if part == ".." || part == "." {
			return fmt.Errorf("a protected name must lie inside its directory: %q", name)
		}
		at = filepath.Join(at, part)
		if slices.Contains(p.paths, at) {
			return nil
		}
		st, err := os.Lstat(at)
		gone := errors.Is(err, fs.ErrNotExist)
		if gone && !create {
			return nil
		}
		if gone || err == nil && isMask(st) {
			var m *mask
			if m, err = p.pool.mask(at); err != nil {
				return err
			}
			if m != nil {
				p.masks = append(p.masks, m)
				p.paths = append(p.paths, at)
				return nil
			}
			// No mask could be made. If there is still nothing, this process cannot make a file
			// here, and so the command cannot either.
			if st, err = os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("find the files to protect: %w", err)
		}
		// An existing part on the way is pinned; the last part, or a file or mask on the way, is
		// made read-only.
		switch {
		case st.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s is a symbolic link, which cannot be protected: replace it by what it points to, or give the command no write access there", at)
		case i == len(parts)-1 || !st.IsDir() || isMask(st):
			p.paths = append(p.paths, at)
			return nil
		}
		p.pins = append(p.pins, at)
	}
	return nil
}

// release removes the masks, or puts them into the pool, the last one first. It goes on after an
// error. It may be called again; then it does nothing.
func (p *protection) release() (err error) {
	for i := len(p.masks) - 1; i >= 0; i-- {
		err = errors.Join(err, p.pool.release(p.masks[i]))
	}
	p.masks = nil
	return err
}
