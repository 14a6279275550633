package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"symbio/internal/security/visible"
)

const (
	// chunk is how much of a file is read at once, in bytes; its lines are matched together.
	chunk = 128 << 10
	// maxWhole limits what is kept in memory of one file: a line, or with multiline the file.
	maxWhole = 256 << 20
	// maxBatch limits the files that a worker takes at once, so that a large directory is shared
	// among workers.
	maxBatch = 128
)

var errTooLong = fmt.Errorf("it, or a line of it, is longer than %d MiB", maxWhole>>20)

// hit is a file with matches.
type hit struct {
	// name is the file's name in the workspace.
	name string
	// matches is the number of its matches, at least 1.
	matches int64
}

// search is one run of Grep. Several goroutines search batches of files and add their results under
// mu.
type search struct {
	w *workdir
	m *matcher
	// want reports whether to search the file with that name relative to top. It is called by the
	// walk only.
	want func(rel string) bool
	// top is the directory or file to search, as a name in the workspace.
	top string
	// all includes the files that .gitignore files exclude.
	all bool

	// walker is used by the goroutine of tree only. Its counts are complete when tree has returned.
	walker walker
	// buffers are of type *buffer. Each worker takes one for a batch, so there are about as many as
	// workers.
	buffers sync.Pool

	// mu guards the results below. A worker takes it once for each batch.
	mu sync.Mutex
	// found has the files with matches, in no order until grep sorts them.
	found []hit
	// kinds has a tally for each extension (kindOf); nil until the first batch ends.
	kinds map[string]tally
	// sum is the tally of all files.
	sum tally
	// unreadable are the files that could not be read, each with the reason. The sums leave them
	// out.
	unreadable []string
}

// workers returns the number of goroutines of a search. It is larger than the number of processors,
// because they also wait for the disk.
func workers() int { return min(max(4, 2*runtime.GOMAXPROCS(0)), 16) }

// tree searches the files below the top. The walk runs in this goroutine and blocks while all
// workers are busy. It returns when all workers have ended. It returns the cause of ctx, or the
// error of reading the top.
func (s *search) tree(ctx context.Context) error {
	s.walker = walker{w: s.w, top: s.top, all: s.all}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers())
	walked := s.walker.walk(ctx, func(f folder) error {
		var files []string
		for _, name := range f.files {
			if s.want(f.name(name)) {
				files = append(files, name)
			}
		}
		// The files of a directory are divided into batches; each batch runs in a goroutine as soon
		// as a worker is free.
		dir := path.Join(s.top, f.rel)
		for len(files) > 0 {
			n := min(len(files), maxBatch)
			batch := files[:n]
			files = files[n:]
			// Go waits for a free worker, so that the walk does not run ahead of the search.
			group.Go(func() error { return s.batch(ctx, dir, batch) })
		}
		return nil
	})
	// The error of a worker comes first: it cancels the walk, whose error is then only a
	// consequence.
	if err := group.Wait(); err != nil {
		return err
	}
	return walked
}

// one searches a single file, in this goroutine.
func (s *search) one(ctx context.Context) error {
	return s.batch(ctx, filepath.Dir(s.top), []string{filepath.Base(s.top)})
}

// batch searches some files of one directory. A file that cannot be read is noted and is no error.
// The only error is the cause of ctx. Results are collected without the lock and added at the end.
func (s *search) batch(ctx context.Context, dir string, files []string) error {
	var hits []hit
	var sum tally
	var unreadable []string
	kinds := map[string]tally{}
	// The directory is opened once for all its files: opened from the top, each file would cost a
	// system call for every directory on the way.
	root, err := s.w.root.OpenRoot(dir)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, name := range files {
			s.unreadable = append(s.unreadable, fmt.Sprintf("%s: %v", quoted(path.Join(dir, name)), reason(err)))
		}
		return nil
	}
	defer root.Close()
	b := s.acquire()
	defer s.release(b)
	for _, name := range files {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := s.file(ctx, root, path.Join(dir, name), b)
		// After a read error that ctx caused the file must not be listed as unreadable.
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			unreadable = append(unreadable, fmt.Sprintf("%s: %v", quoted(path.Join(dir, name)), reason(err)))
			continue
		}
		t := tally{searched: 1, matches: n}
		if n > 0 {
			t.matched = 1
			hits = append(hits, hit{path.Join(dir, name), n})
		}
		sum = sum.plus(t)
		kinds[kindOf(name)] = kinds[kindOf(name)].plus(t)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = append(s.found, hits...)
	s.unreadable = append(s.unreadable, unreadable...)
	s.sum = s.sum.plus(sum)
	if s.kinds == nil {
		s.kinds = map[string]tally{}
	}
	for kind, t := range kinds {
		s.kinds[kind] = s.kinds[kind].plus(t)
	}
	return nil
}

// file counts the matches of a file in the directory root. If there are any, it checks that the
// rules allow the file to which the name led, because a link may have been created since the walk.
func (s *search) file(ctx context.Context, root *os.Root, name string, b *buffer) (int64, error) {
	f, _, err := OpenRegular(root, filepath.Base(name))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := s.count(ctx, textReader(f), b)
	if n > 0 && err == nil {
		err = s.w.followLink(ctx, f, name, name)
	}
	return n, err
}

// textReader returns a reader of a file's text as Read shows it: UTF-16 as UTF-8, and no byte order mark.
func textReader(f *os.File) io.Reader {
	var head [4]byte
	n, _ := f.ReadAt(head[:], 0) // the next Read returns the error again
	return decode(f, head[:n])
}

// count counts the matches in f: lines, or with multiline matches in the whole text. A file of any
// size can be counted by lines or for a single byte. It returns errTooLong for a line, or with other
// multiline patterns a file, of maxWhole bytes or more.
func (s *search) count(ctx context.Context, f io.Reader, b *buffer) (int64, error) {
	if !s.m.multiline {
		return b.countLines(ctx, f, s.m)
	}
	// The pattern \n, which counts lines like wc -l, needs no text in memory.
	if needle := s.m.onlyText(); len(needle) == 1 {
		return b.countByte(ctx, f, needle)
	}
	text, err := b.whole(ctx, f)
	if err != nil {
		return 0, err
	}
	return s.m.countText(text), nil
}

// notes returns lines about the files that the sums do not include. Call it when the search has
// ended.
func (s *search) notes() []string {
	notes := s.walker.notes()
	if n := len(s.unreadable); n > 0 {
		notes = append(notes, fmt.Sprintf("%s could not be read or counted, such as %s", visible.Plural(n, "file"), s.unreadable[0]))
	}
	return notes
}

// buffer holds what is read of one file after another. One goroutine uses it at a time.
type buffer struct {
	// data has chunk bytes, or more after grow. All of it may be overwritten by the next file.
	data []byte
}

// acquire returns a buffer. The caller must release it.
func (s *search) acquire() *buffer {
	if b, ok := s.buffers.Get().(*buffer); ok {
		return b
	}
	return &buffer{data: make([]byte, chunk)}
}

// release makes a buffer available for other batches. It drops one that a long line has made large,
// to return the memory.
func (s *search) release(b *buffer) {
	if len(b.data) == chunk {
		s.buffers.Put(b)
	}
}

// countLines counts matching lines. A NUL ends a line like a line break does, as for grep -c in
// binary files.
func (b *buffer) countLines(ctx context.Context, f io.Reader, m *matcher) (n int64, err error) {
	// The buffer is matched at line ends only. The beginning of the last line is moved to the front
	// and completed by the next read; the buffer grows for a line that is longer. held is the
	// number of bytes of that unfinished line.
	held := 0
	for {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if held == len(b.data) {
			if err := b.grow(); err != nil {
				return 0, err
			}
		}
		read, err := f.Read(b.data[held:])
		text := b.data[:held+read]
		// The held bytes are done already.
		breakAtNUL(text[held:])
		if errors.Is(err, io.EOF) {
			return n + m.countLines(text), nil
		}
		if err != nil {
			return 0, err
		}
		end := held + bytes.LastIndexByte(text[held:], '\n') + 1
		if end == held {
			// No line ended in what was read.
			held = len(text)
			continue
		}
		n += m.countLines(text[:end])
		held = copy(b.data, text[end:])
	}
}

// breakAtNUL replaces each NUL in text by a line break.
func breakAtNUL(text []byte) {
	for {
		i := bytes.IndexByte(text, 0)
		if i < 0 {
			return
		}
		text[i] = '\n'
		text = text[i+1:]
	}
}

// grow doubles the buffer and keeps its content. It returns errTooLong from maxWhole bytes on.
func (b *buffer) grow() error {
	if len(b.data) >= maxWhole {
		return errTooLong
	}
	bigger := make([]byte, 2*len(b.data))
	copy(bigger, b.data)
	b.data = bigger
	return nil
}

// countByte counts how often the single byte c occurs in f. It needs no lines, so it never grows
// the buffer. It returns read errors and the cause of ctx.
func (b *buffer) countByte(ctx context.Context, f io.Reader, c []byte) (n int64, err error) {
	for {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		read, err := f.Read(b.data)
		n += int64(bytes.Count(b.data[:read], c))
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// whole reads all of a file. The text is a part of the buffer and is valid until the buffer is used
// again. It returns errTooLong for a file of maxWhole bytes or more, read errors and the cause of
// ctx.
func (b *buffer) whole(ctx context.Context, f io.Reader) ([]byte, error) {
	held := 0
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if held == len(b.data) {
			if err := b.grow(); err != nil {
				return nil, err
			}
		}
		read, err := f.Read(b.data[held:])
		held += read
		if errors.Is(err, io.EOF) {
			return b.data[:held], nil
		}
		if err != nil {
			return nil, err
		}
	}
}
