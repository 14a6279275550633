package workspace

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"symbio/agent/content"
	"symbio/agent/tool/gitignore"
	"symbio/security/filename"
)

// scanner turns paths into files. What it returns passes Manifest.Check: what would not is omitted.
type scanner struct {
	root   *os.Root
	o      Options
	rules  gitignore.Stack
	names  filename.Set
	dirs   map[string]bool
	infos  map[string]fs.FileInfo
	nested []string

	mu      sync.Mutex // guards what follows, while files are hashed
	files   []File
	omitted map[string]string
}

func newScanner(root *os.Root, o Options) *scanner {
	o.Limits = o.Limits.withDefaults()
	rules := gitignore.Stack{gitignore.Parse("", []byte(strings.Join(o.Ignore, "\n")))}
	return &scanner{root: root, o: o, rules: rules, dirs: map[string]bool{".": true}, infos: map[string]fs.FileInfo{}, omitted: map[string]string{}}
}

// add adds a path, unless there is no file or it is left out. A repository inside goes to nested.
func (s *scanner) add(p string) {
	if _, seen := s.infos[p]; seen || ignored(s.rules, p) || !s.isDir(path.Dir(p)) {
		return
	}
	info, err := s.root.Lstat(filepath.FromSlash(p))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		s.omit(p, "it cannot be read: "+err.Error())
		return
	case info.IsDir():
		if _, err := s.root.Lstat(filepath.FromSlash(p + "/.git")); err == nil && !slices.Contains(s.nested, p) {
			s.nested = append(s.nested, p)
		}
		return
	}
	if why := s.leaveOut(p); why != "" {
		s.omit(p, why)
		return
	}
	f := File{Path: p, Kind: Regular, Size: info.Size()}
	switch mode := info.Mode(); {
	case mode.Type() == fs.ModeSymlink:
		target, err := s.root.Readlink(filepath.FromSlash(p))
		if err != nil {
			s.omit(p, "it cannot be read: "+err.Error())
			return
		}
		f = File{Path: p, Kind: Link, Link: filepath.ToSlash(target)}
	case !mode.IsRegular():
		s.omit(p, "it is a socket, a pipe or a device")
		return
	case mode.Perm()&0o111 != 0:
		f.Kind = Executable
	}
	if other := s.names.Add(p); other != "" {
		s.omit(p, fmt.Sprintf("on some systems it is the same as %q", other))
		return
	}
	s.infos[p] = info
	s.files = append(s.files, f)
}

// leaveOut returns why a path does not travel, whatever is there; "" = it may.
func (s *scanner) leaveOut(p string) string {
	if why := checkPath(p); why != "" {
		return "its path is not one on every system: " + why
	}
	if s.o.Denied != nil && s.o.Denied(p) {
		return "a rule denies reading it"
	}
	if name := secretName(p); name != "" {
		return "it looks like a secret: " + name
	}
	return ""
}

func (s *scanner) omit(p, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.omitted[p] = why
}

// isDir reports whether a path is a directory that is reached through no link. What git knows of a directory that is a link by now
// would lead to other files.
func (s *scanner) isDir(p string) bool {
	is, known := s.dirs[p]
	if !known {
		info, err := s.root.Lstat(filepath.FromSlash(p))
		is = s.isDir(path.Dir(p)) && err == nil && info.IsDir()
		s.dirs[p] = is
	}
	return is
}

// finish hashes the files, with as many goroutines as there are processors, and returns them sorted. Links that lead to
// what does not travel are left out.
func (s *scanner) finish(ctx context.Context) ([]File, error) {
	if err := s.checkSize(); err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range s.files {
		if f := &s.files[i]; f.Kind.hasContent() {
			group.Go(func() error { return s.hash(ctx, f) })
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	s.files = slices.DeleteFunc(s.files, func(f File) bool { return s.omitted[f.Path] != "" })
	slices.SortFunc(s.files, comparePaths)
	// Without a link its directory may be gone, to which another link leads.
	for n := -1; n != len(s.files); {
		n = len(s.files)
		checked := slices.Clone(s.files)
		s.files = slices.DeleteFunc(s.files, func(f File) bool {
			why := checkLink(checked, f)
			if why != "" {
				s.omit(f.Path, "it is a link to "+f.Link+": "+why)
			}
			return why != ""
		})
	}
	s.o.Cache.keep(s.files, s.infos)
	return s.files, nil
}

// hash sets the hash of a file. One that cannot be read, changes meanwhile or holds a secret is omitted. The error is that
// of ctx.
func (s *scanner) hash(ctx context.Context, f *File) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	before, known := s.infos[f.Path], false
	if f.Hash, known = s.o.Cache.find(f.Path, before); known {
		return nil
	}
	file, err := openRegular(s.root, f.Path)
	if err != nil {
		s.omit(f.Path, "it cannot be read: "+err.Error())
		return nil
	}
	defer file.Close()
	r := bufio.NewReaderSize(io.LimitReader(file, f.Size+1), int(min(maxHead, f.Size+1)))
	head, _ := r.Peek(r.Size()) // a shorter file is no error
	why := secretContent(f.Path, head)
	sum := sha256.New()
	size, err := io.Copy(sum, r)
	f.Hash = content.Hash(sum.Sum(nil))
	switch after, errStat := file.Stat(); {
	case err != nil || errStat != nil:
		s.omit(f.Path, "it cannot be read: "+errors.Join(err, errStat).Error())
	case size != f.Size || !sameState(before, after):
		s.omit(f.Path, "it changed while it was read")
	case why != "":
		s.omit(f.Path, "it looks like a secret: "+why)
	}
	return nil
}

// checkSize compares the files with the limits before their contents are read. Its error says where most of it is.
func (s *scanner) checkSize() error {
	l, total, count, sizes := s.o.Limits, int64(0), map[string]int64{}, map[string]int64{}
	for _, f := range s.files {
		if f.Size > l.FileSize {
			return fmt.Errorf("%w: %s has %d MiB, at most %d MiB are taken of a file%s", ErrTooLarge, f.Path, f.Size>>20, l.FileSize>>20, advice)
		}
		top, _, _ := strings.Cut(f.Path, "/")
		count[top]++
		sizes[top] += f.Size
		total += f.Size
	}
	switch {
	case len(s.files) > l.Files:
		return fmt.Errorf("%w: %d files, at most %d are taken; most are in %s%s", ErrTooLarge, len(s.files), l.Files, largest(count), advice)
	case total > l.Size:
		return fmt.Errorf("%w: %d MiB, at most %d MiB are taken; most are in %s%s", ErrTooLarge, total>>20, l.Size>>20, largest(sizes), advice)
	}
	return nil
}

// advice ends the errors about size.
const advice = ": leave out what the task does not need by .gitignore, or work in a directory below"

// largest returns the names with the three largest numbers.
func largest(of map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), strings.Compare(a, b)) })
	return strings.Join(names[:min(3, len(names))], ", ")
}
