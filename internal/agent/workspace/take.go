package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"symbio/agent/tool/builtin"
	"symbio/internal/agent/content"
	"symbio/internal/security/filename"
)

// Options say what a snapshot has.
type Options struct {
	// Limits bound it.
	Limits Limits
	// Denied reports whether a file must not be read, by its path relative to the directory. It is called by one goroutine.
	// Default: none is denied.
	Denied func(path string) bool
}

// Omission is a file that does not travel.
type Omission struct{ Path, Why string }

// Snapshot is a directory at one time. Its contents stay on the disk.
type Snapshot struct {
	Manifest
	// Omitted are the files that were left out for a reason other than the ignores, sorted by path.
	Omitted []Omission
	dir     string
}

// Take returns the snapshot of a directory: in a git repository the files that git tracks and the untracked ones that it
// does not ignore; elsewhere, and where git cannot tell, those that .gitignore files leave. Left out, by name and reason,
// are files that are denied, look like a secret, are no regular files or links to such, belong to a repository inside
// (a submodule), or have a name that is none on some system. The error is ErrTooLarge, or says why the directory cannot
// be read.
func Take(ctx context.Context, dir string, o Options) (*Snapshot, error) {
	// Without git, outside of a repository, and in a directory that git ignores there is no list.
	listed, err := runGit(ctx, dir, "ls-files", "-z", "-co", "--exclude-standard")
	commit := ""
	if err == nil { // a repository without a commit has no HEAD, and that is no error
		commit, _ = runGit(ctx, dir, "rev-parse", "--verify", "--quiet", "HEAD")
	}
	s, err := scan(ctx, dir, o, strings.Split(listed, "\x00"), err != nil || listed == "")
	if err != nil {
		return nil, fmt.Errorf("take the workspace %s along: %w", dir, err)
	}
	return &Snapshot{Manifest{strings.TrimSpace(commit), s.files}, s.omissions(), dir}, nil
}

// Open opens a file of the snapshot as it was when it was taken. If the content is another by now, the last Read returns
// ErrChanged in place of io.EOF. No more than the size of the file is read.
func (s *Snapshot) Open(f File) (io.ReadCloser, error) {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, _, err := builtin.OpenRegular(root, f.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return verify(file, f), nil
}

// Diff returns what has changed in dir since base, and puts the contents that changed into store; the caller pins
// Patch.Contents. New files that .gitignore files exclude do not count, files of base always do. Changes that do not
// travel, as for Take, are named; a file of base with such a change is in the patch neither changed nor deleted. No git is
// run: whoever worked in dir may have written its configuration.
func Diff(ctx context.Context, base Manifest, dir string, store *content.Store, l Limits) (Patch, []Omission, error) {
	had, p := byPath(base.Files), Patch{Base: base.Hash()}
	// Those of base come first: of names that collide it is the new one that does not travel.
	s, err := scan(ctx, dir, Options{Limits: l}, slices.Sorted(maps.Keys(had)), true)
	if err != nil {
		return p, nil, fmt.Errorf("find what changed in the workspace %s: %w", dir, err)
	}
	now := &Snapshot{dir: dir}
	for _, f := range s.files {
		if f != had[f.Path] {
			p.Changes = append(p.Changes, f)
			err = cmp.Or(err, now.keep(f, store))
		}
		delete(had, f.Path)
	}
	for _, f := range had {
		// A link that is omitted leads to nothing that travels any more, and could not be made.
		if s.omitted[f.Path] == "" || f.Kind == Link {
			p.Changes = append(p.Changes, File{Path: f.Path, Kind: Deleted})
		}
	}
	slices.SortFunc(p.Changes, comparePaths)
	return p, s.omissions(), err
}

// keep puts the content of a file into store.
func (s *Snapshot) keep(f File, store *content.Store) error {
	if !f.Kind.hasContent() {
		return nil
	}
	r, err := s.Open(f)
	if err != nil {
		return err
	}
	defer r.Close()
	return store.PutAs(f.Hash, r, f.Size)
}

// verifier reads a file and compares its hash at the end.
type verifier struct {
	io.Closer
	rest io.Reader
	sum  hash.Hash
	want File
}

func verify(r io.ReadCloser, want File) *verifier {
	return &verifier{r, io.LimitReader(r, want.Size), sha256.New(), want}
}

func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.rest.Read(p)
	v.sum.Write(p[:n])
	if err == io.EOF && content.Hash(v.sum.Sum(nil)) != v.want.Hash {
		err = fmt.Errorf("read %s: %w", v.want.Path, ErrChanged)
	}
	return n, err
}

// tree finds files below a root, for one goroutine until they are hashed.
type tree struct {
	root *os.Root
	// dirs are the paths that were looked at, and whether they are directories that are reached through no link.
	dirs map[string]bool
}

func (t tree) isDir(p string) bool {
	is, known := t.dirs[p]
	if !known {
		info, err := t.root.Lstat(p)
		is = err == nil && info.IsDir() && (p == "." || t.isDir(path.Dir(p)))
		t.dirs[p] = is
	}
	return is
}

// stat returns the file at a path, without its hash. Its kind is Deleted if there is none, or a directory, or a link is on
// the way, and "" if it is of no kind that travels.
func (t tree) stat(p string) (f File, err error) {
	f = File{Path: p, Kind: Deleted}
	if !t.isDir(path.Dir(p)) {
		return f, nil
	}
	info, err := t.root.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir():
		return f, nil
	case err != nil:
		return f, err
	case info.Mode().Type() == fs.ModeSymlink:
		f.Kind = Link
		f.Link, err = t.root.Readlink(p)
		f.Link = filepath.ToSlash(f.Link)
	case !info.Mode().IsRegular():
		f.Kind = ""
	case info.Mode().Perm()&0o111 != 0:
		f.Kind, f.Size = Executable, info.Size()
	default:
		f.Kind, f.Size = Regular, info.Size()
	}
	return f, err
}

// hash sets the hash of a file that stat returned. secret says why its content looks like one; "" = it does not.
func (t tree) hash(f *File) (secret string, err error) {
	if !f.Kind.hasContent() {
		return "", nil
	}
	file, _, err := builtin.OpenRegular(t.root, f.Path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum, head := sha256.New(), make([]byte, min(f.Size, maxHead))
	n, _ := io.ReadFull(file, head) // a shorter file has another size than f
	sum.Write(head[:n])
	rest, err := io.Copy(sum, io.LimitReader(file, f.Size+1))
	if err == nil && int64(n)+rest != f.Size {
		err = ErrChanged
	}
	f.Hash = content.Hash(sum.Sum(nil))
	return secretContent(f.Path, head), err
}

// scanner turns paths into files. The files it finds pass Manifest.Check; the rest is omitted, by path and reason.
type scanner struct {
	tree
	o       Options
	names   filename.Set
	files   []File
	size    int64
	omitted map[string]string
}

// scan looks at the paths, and at all that .gitignore files leave if walk is true.
func scan(ctx context.Context, dir string, o Options, paths []string, walk bool) (*scanner, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	o.Limits = o.Limits.withDefaults()
	s := &scanner{tree: tree{root, map[string]bool{}}, o: o, omitted: map[string]string{}}
	for _, p := range paths {
		if err == nil && p != "" {
			err = s.add(strings.TrimSuffix(p, "/")) // git writes one behind a repository in the repository
		}
	}
	if err == nil && walk {
		err = builtin.Walk(ctx, root, s.add)
	}
	if err == nil {
		err = s.finish(ctx)
	}
	return s, err
}

// add adds a path, unless there is no file or it is left out. The error is that there is too much.
func (s *scanner) add(p string) error {
	f, err := s.stat(p)
	why := ""
	switch {
	case err != nil:
		why = err.Error()
	case path.Base(p) == ".git":
		return nil
	case f.Kind == Deleted:
		if _, err := s.root.Lstat(p + "/.git"); err != nil {
			return nil
		}
		why = "it is a repository of its own"
	default:
		why = s.leaveOut(f)
	}
	if why == "" {
		other := s.names.Add(p)
		if other == p { // it was added before
			return nil
		}
		why = collision(other)
	}
	if why != "" {
		s.omitted[p] = why
	} else {
		s.files, s.size = append(s.files, f), s.size+f.Size
	}
	if l := s.o.Limits; len(s.files)+len(s.omitted) > l.Files || s.size > l.Size {
		return s.tooLarge()
	}
	return nil
}

// leaveOut returns why a file does not travel; "" = it may, if its content may.
func (s *scanner) leaveOut(f File) string {
	switch {
	case s.o.Denied != nil && s.o.Denied(f.Path):
		return "a rule denies reading it"
	case f.Kind == "":
		return "it is a socket, a pipe or a device"
	case f.Size > s.o.Limits.FileSize:
		return fmt.Sprintf("it has %d MiB, at most %d are taken", f.Size>>20, s.o.Limits.FileSize>>20)
	}
	return cmp.Or(checkPath(f.Path), secretName(f.Path))
}

func (s *scanner) omissions() (all []Omission) {
	for _, p := range slices.Sorted(maps.Keys(s.omitted)) {
		all = append(all, Omission{p, s.omitted[p]})
	}
	return all
}

// finish hashes the files, with as many goroutines as there are processors, and sorts them. Links that lead to what does
// not travel are left out.
func (s *scanner) finish(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	why := make([]string, len(s.files))
	for i := range s.files {
		group.Go(func() (err error) {
			if why[i], err = s.hash(&s.files[i]); err != nil {
				why[i] = err.Error()
			}
			return context.Cause(ctx)
		})
	}
	err := group.Wait()
	for i, f := range s.files {
		if why[i] != "" {
			s.omitted[f.Path] = why[i]
		}
	}
	slices.SortFunc(s.files, comparePaths)
	// Without a link its directory may be gone, to which another link leads.
	for n := -1; n != len(s.files); {
		n = len(s.files)
		s.files = slices.DeleteFunc(slices.Clone(s.files), func(f File) bool {
			if why := checkLink(s.files, f); why != "" {
				s.omitted[f.Path] = "it is a link to " + f.Link + ": " + why
			}
			return s.omitted[f.Path] != ""
		})
	}
	return err
}

// tooLarge returns the error of a limit. It names the top directory with most of the bytes; a file counts as a KiB more.
func (s *scanner) tooLarge() error {
	sizes := map[string]int64{}
	for _, f := range s.files {
		top, _, _ := strings.Cut(f.Path, "/")
		sizes[top] += f.Size + 1<<10
	}
	largest := slices.MaxFunc(slices.Collect(maps.Keys(sizes)), func(a, b string) int { return cmp.Compare(sizes[a], sizes[b]) })
	return fmt.Errorf("%w: more than %d files or %d MiB, most of them in %s: leave out by .gitignore what the task does not need, or work in a directory below",
		ErrTooLarge, s.o.Limits.Files, s.o.Limits.Size>>20, largest)
}
