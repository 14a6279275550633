package backup

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"symbio/internal/agent/node/state"
	"symbio/internal/agent/session/sqlite"
	"symbio/internal/security/passphrase"
)

// ErrOccupied means that a directory to restore to has files. ErrBroken means that a file is not a
// backup, or not one as it was made.
var (
	ErrOccupied = errors.New("it has files, and a restore overwrites none")
	ErrBroken   = errors.New("it is not a whole backup")
)

const (
	// stateEntry and configEntry are the directories in a backup.
	stateEntry, configEntry = "state", "config"
	// maxEntries bounds the files of a backup; a node of a year has some ten thousand.
	maxEntries = 1 << 20
	// maxManifest bounds the manifest, in bytes: a thousand nodes and more.
	maxManifest = 256 << 10
)

// Restore puts the backup in the file path into the places. secret is called if the backup is
// encrypted. Both directories must have no file: the error is ErrOccupied else. ErrBroken says that
// the file is no backup or was changed, passphrase.ErrWrong that it needs another passphrase. Nothing
// is put in its place before all is checked; a failure of the disk after that leaves a part.
func Restore(ctx context.Context, path string, secret func() (string, error), to Places) (m Manifest, err error) {
	for _, dir := range to.dirs() {
		if err := vacant(dir); err != nil {
			return m, err
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return m, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return m, err
	}
	in := bufio.NewReader(f)
	plain := io.Reader(in)
	if start, _ := in.Peek(passphrase.HeaderSize); passphrase.Encrypted(start) {
		given, err := secret()
		if err != nil {
			return m, err
		}
		if plain, err = passphrase.Decrypt(in, given); err != nil {
			return m, err
		}
	}
	staged, err := stage(to)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, staged.remove()) }()
	r := reader{ctx: ctx, tar: tar.NewReader(plain), sum: sha256.New(), left: info.Size(), seen: map[string]bool{}, to: staged}
	if m, err = r.all(); err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	if err := check(ctx, m, state.Dir(staged.State)); err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	return m, staged.place(to)
}

// dirs returns the directories to restore to. The configuration comes first, so that what makes a
// node comes last.
func (p Places) dirs() []string {
	if p.Config == "" {
		return []string{string(p.State)}
	}
	return []string{p.Config, string(p.State)}
}

// vacant returns ErrOccupied if a directory has anything but directories, at any depth.
func vacant(dir string) error {
	root, err := filepath.EvalSymlinks(dir) // a walk does not follow a link, also if it is the root
	if err == nil {
		err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				err = fmt.Errorf("%s: %w: %s", dir, ErrOccupied, path)
			}
			return err
		})
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// stage makes a directory in each of the places, to which the backup is unpacked. It is inside of them, because
// their parents may be on other disks, or closed to this user.
func stage(to Places) (staged Places, err error) {
	for _, dir := range to.dirs() {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return staged, errors.Join(err, staged.remove())
		}
		work, err := os.MkdirTemp(dir, workPrefix+"restore-")
		if err != nil {
			return staged, errors.Join(err, staged.remove())
		}
		if dir == to.Config {
			staged.Config = work
		} else {
			staged.State = state.Dir(work)
		}
	}
	return staged, nil
}

// remove removes the directories that stage made.
func (p Places) remove() (err error) {
	for _, dir := range p.dirs() {
		if dir != "" {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}

// place moves what is staged to its places, in which only empty directories may be in the way.
func (p Places) place(to Places) error {
	targets := to.dirs()
	for i, from := range p.dirs() {
		entries, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		for _, e := range entries {
			target := filepath.Join(targets[i], e.Name())
			if err := vacant(target); err != nil {
				return err
			}
			if err := errors.Join(os.RemoveAll(target), os.Rename(filepath.Join(from, e.Name()), target)); err != nil {
				return err
			}
		}
	}
	return nil
}

// reader unpacks a backup.
type reader struct {
	ctx context.Context
	tar *tar.Reader
	sum hash.Hash
	// left is how many bytes the files may still have: in all no more than the backup itself.
	left int64
	seen map[string]bool
	to   Places
}

// all unpacks the backup and returns its manifest. It returns ErrBroken unless every entry is
// allowed, and the sum at the end fits all entries before it.
func (r *reader) all() (m Manifest, err error) {
	for n := 0; ; n++ {
		h, err := r.tar.Next()
		switch {
		case errors.Is(err, io.EOF):
			return m, fmt.Errorf("%w: its end is missing", ErrBroken)
		case err != nil:
			return m, fmt.Errorf("%w: %w", ErrBroken, err)
		case n > maxEntries:
			return m, fmt.Errorf("%w: over %d files", ErrBroken, maxEntries)
		case h.Typeflag != tar.TypeReg || h.Size < 0 || h.Size > r.left || r.seen[h.Name]:
			return m, fmt.Errorf("%w: entry %q is no file, too long, or there twice", ErrBroken, h.Name)
		case n == 0 != (h.Name == manifestEntry):
			return m, fmt.Errorf("%w: it does not begin with what it has", ErrBroken)
		case r.ctx.Err() != nil:
			return m, r.ctx.Err()
		}
		r.seen[h.Name] = true
		r.left -= h.Size
		switch h.Name {
		case sumEntry:
			return m, r.end(h)
		case manifestEntry:
			m, err = r.manifest(h)
		default:
			err = r.file(h)
		}
		if err != nil {
			return m, err
		}
	}
}

// content returns the content of an entry; what is read from it is added to the sum.
func (r *reader) content(h *tar.Header) io.Reader {
	fmt.Fprintf(r.sum, "%q %d\n", h.Name, h.Size)
	return io.TeeReader(r.tar, r.sum)
}

// manifest reads the first entry.
func (r *reader) manifest(h *tar.Header) (m Manifest, err error) {
	if h.Size > maxManifest {
		return m, fmt.Errorf("%w: entry %q is too long", ErrBroken, h.Name)
	}
	data, err := io.ReadAll(r.content(h))
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err == nil && m.Format != format {
		return m, fmt.Errorf("symbio %q made it in another form (%d, this one knows %d): restore it with that version, or update this one", m.Version, m.Format, format)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return m, err
}

// end compares the last entry with the sum, and wants nothing behind it.
func (r *reader) end(h *tar.Header) error {
	want := hex.EncodeToString(r.sum.Sum(nil))
	data, err := io.ReadAll(io.LimitReader(r.tar, int64(len(want)+1)))
	if err != nil || string(data) != want {
		return fmt.Errorf("%w: it was changed (%s)", ErrBroken, h.Name)
	}
	if _, err := r.tar.Next(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows its end", ErrBroken)
	}
	return nil
}

// file unpacks an entry of the state or the configuration; without a place for it, it only adds to
// the sum.
func (r *reader) file(h *tar.Header) (err error) {
	dir, rel, ok := strings.Cut(h.Name, "/")
	root := map[string]string{stateEntry: string(r.to.State), configEntry: r.to.Config}
	at, known := root[dir]
	if !ok || !known || !isPlainPath(rel) || dir == stateEntry && isLeftOut(rel) {
		return fmt.Errorf("%w: entry %q is none of a backup", ErrBroken, h.Name)
	}
	content := r.content(h)
	if at == "" {
		_, err = io.Copy(io.Discard, content)
		return err
	}
	path := filepath.Join(at, filepath.FromSlash(rel))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600|fs.FileMode(h.Mode)&0o100)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Sync(), f.Close())
}

// isPlainPath reports whether a path with slashes stays in the directory that it is joined to, on
// every system, and has one spelling.
func isPlainPath(rel string) bool {
	if runtime.GOOS == "windows" && strings.ContainsAny(rel, `\:`) {
		return false
	}
	return fs.ValidPath(rel) && rel != "." && !strings.ContainsRune(rel, 0) && filepath.IsLocal(filepath.FromSlash(rel))
}

// check returns ErrBroken unless the unpacked state has the nodes of the manifest, and whole
// sessions.
func check(ctx context.Context, m Manifest, s state.Dir) error {
	nodes, err := nodesOf(s)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	// The clusters are for people only: whether a certificate counts depends on the clock here.
	if len(nodes) == 0 || !slices.EqualFunc(nodes, m.Nodes, func(a, b Node) bool { return a.Name == b.Name && a.ID == b.ID }) {
		return fmt.Errorf("%w: its keys are not of the nodes that it names", ErrBroken)
	}
	for _, name := range s.WithSessions() {
		if err := sqlite.Check(ctx, s.Node(name).Sessions()); err != nil {
			return fmt.Errorf("%w: the sessions of node %s: %w", ErrBroken, name, err)
		}
	}
	return nil
}
