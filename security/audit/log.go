package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config sets up a Log. The zero value works.
type Config struct {
	// MaxFile is how long a file gets before the next one is begun, in bytes. Default 64 MiB: a hundred
	// thousand decisions, which any tool can still open.
	MaxFile int64
}

const (
	fileStart = "decisions-"
	fileEnd   = ".jsonl"
)

// Log appends records. One process at a time may have a directory open.
type Log struct {
	dir string
	max int64

	mu   sync.Mutex
	file *os.File // nil when closed; guarded by mu
	size int64    // guarded by mu
	next int      // number of the next file; guarded by mu
	seq  uint64   // of the last record; guarded by mu
	hash string   // of the last record; guarded by mu
}

// Open goes on with the log in a directory, or begins it. It looks at the last file only; Verify looks at
// all. What is wrong there is an error that says where; then nothing was written.
func Open(dir string, cfg Config) (*Log, error) {
	if cfg.MaxFile <= 0 {
		cfg.MaxFile = 64 << 20
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	l := &Log{dir: dir, max: cfg.MaxFile, next: 1, hash: origin}
	files, err := list(dir)
	if err != nil || len(files) == 0 {
		return l, err
	}
	last := files[len(files)-1]
	end, err := tail(files)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w; `symbio audit verify` says more, and moving the folder away begins a new log", err)
	}
	l.next, l.seq, l.hash = last.number+1, end.seq, end.hash
	if end.torn > 0 || end.size == 0 || end.size >= cfg.MaxFile {
		return l, l.begin(end.torn)
	}
	l.size = end.size
	if l.file, err = os.OpenFile(last.path, os.O_APPEND|os.O_WRONLY, 0); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	return l, nil
}

// Append writes one record. With an error nothing can be said to be recorded, and the caller must not go
// on with what it would have recorded. It writes to a file and may block as long as that does.
func (l *Log) Append(e Entry) error {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC()
	entry, err := e.short()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == 0 {
		return fs.ErrClosed
	}
	if l.file == nil || l.size >= l.max {
		if err := l.begin(0); err != nil {
			return err
		}
	}
	return l.write(record{Seq: l.seq + 1, Prev: l.hash, Entry: entry})
}

// begin opens the next file, with a record that ties it to what was before. The caller holds l.mu, or is
// the only one to know l.
func (l *Log) begin(torn int) error {
	if l.file != nil {
		if err := errors.Join(l.file.Sync(), l.file.Close()); err != nil {
			return fmt.Errorf("end a file of the audit log: %w", err)
		}
		l.file = nil
	}
	path := filepath.Join(l.dir, fmt.Sprintf("%s%06d%s", fileStart, l.next, fileEnd))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("begin a file of the audit log: %w", err)
	}
	l.file, l.size = f, 0
	l.next++
	return l.write(record{Seq: l.seq + 1, Prev: l.hash, Torn: torn})
}

// write appends a record. One that is written in part leaves the file behind, so that the next begins on a
// line of its own.
func (l *Log) write(r record) error {
	line, err := r.line()
	if err != nil {
		return fmt.Errorf("record a decision: %w", err)
	}
	n, err := l.file.Write(line)
	l.size += int64(n)
	if err == nil {
		l.seq, l.hash = r.Seq, r.Hash
		return nil
	}
	if n > 0 {
		if cutErr := l.file.Truncate(l.size - int64(n)); cutErr == nil {
			l.size -= int64(n)
		} else {
			l.size = l.max // the rest of a record stays; what follows goes to a new file
		}
	}
	return fmt.Errorf("record a decision: %w", err)
}

// Close brings all to the disk. Appending is fs.ErrClosed from then on.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = 0
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	return errors.Join(f.Sync(), f.Close())
}

// segment is a file of the log.
type segment struct {
	path   string
	number int
}

// list finds the files of the log, the oldest first.
func list(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []segment
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), fileStart)
		text, is := strings.CutSuffix(text, fileEnd)
		if n, err := strconv.Atoi(text); ok && is && err == nil && n > 0 {
			all = append(all, segment{filepath.Join(dir, e.Name()), n})
		}
	}
	slices.SortFunc(all, func(a, b segment) int { return a.number - b.number })
	return all, nil
}

// ending is where the log ends.
type ending struct {
	seq  uint64
	hash string
	size int64 // of the last file; 0 when no whole record is in it
	torn int   // bytes after its last whole record
}

// tail finds the last whole record. A file may have none, if the process ended as it was begun.
func tail(files []segment) (end ending, err error) {
	end.hash = origin
	for i := len(files) - 1; i >= 0; i-- {
		text, size, err := lastBytes(files[i].path)
		if err != nil {
			return end, err
		}
		whole := bytes.LastIndexByte(text, '\n') + 1
		if i == len(files)-1 {
			end.torn = len(text) - whole
		}
		if whole == 0 && size < MaxRecord {
			continue
		}
		start := bytes.LastIndexByte(text[:max(whole-1, 0)], '\n') + 1
		r, err := parse(text[start:max(whole-1, 0)])
		if err != nil {
			return end, fmt.Errorf("the last record of %s: %w", files[i].path, err)
		}
		end.seq, end.hash = r.Seq, r.Hash
		if i == len(files)-1 {
			end.size = size
		}
		break
	}
	return end, nil
}

// lastBytes are the end of a file, more than a record is long.
func lastBytes(path string) (text []byte, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if size, err = f.Seek(0, io.SeekEnd); err != nil {
		return nil, 0, err
	}
	from := max(0, size-4*MaxRecord)
	text = make([]byte, size-from)
	if _, err = f.ReadAt(text, from); errors.Is(err, io.EOF) {
		err = nil
	}
	return text, size, err
}

// scanner reads lines of records.
func scanner(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), 2*MaxRecord)
	return s
}
