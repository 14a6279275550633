package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"symbio/internal/security/redact"
	"symbio/security/identity"
)

// Config sets up a Log. The zero value works.
type Config struct {
	// MaxFile is the size in bytes from which on the next record begins a new file; a file may
	// exceed it by one record. Default 64 MiB: a hundred thousand decisions, which any tool can
	// still open.
	MaxFile int64
	// Checkpoint is the file for checkpoints, in another directory than the log. Signer is the node
	// that signs them. Without a Signer there are none: then a cut end of the log does not show,
	// and records are synced to the disk only at the end of a file and by Close.
	Checkpoint string
	Signer     *identity.Identity
	// Logger receives a warning for a checkpoint that cannot be written, or was missing. Default:
	// silent.
	Logger *slog.Logger
}

const (
	// Files are named decisions-000001.jsonl and so on, without a gap.
	fileStart = "decisions-"
	fileEnd   = ".jsonl"
)

// Log appends records to files in a directory. One process at a time may have a directory open,
// which the caller ensures: there is no lock. Within the process, all methods may be called from
// many goroutines.
type Log struct {
	dir string
	cfg Config
	// due has capacity 1. write sends on it when Run should write a checkpoint before its minute is
	// over.
	due chan struct{}

	mu sync.Mutex
	// file is nil before the first record, after Close, and if the next file could not be made;
	// guarded by mu.
	file *os.File
	// closed is set by Close; guarded by mu.
	closed bool
	// size is the size of file in bytes; guarded by mu.
	size int64
	// torn counts the bytes of a record that could not be removed from the end of the last file; the next
	// file states them. Guarded by mu.
	torn int
	// next is the number of the next file, from 1; guarded by mu.
	next int
	// seq and hash belong to the last record; 0 and origin before the first one. Guarded by mu.
	seq  uint64
	hash string
	// signed is the hash in the last checkpoint that this process wrote; guarded by mu.
	signed string
}

// Open continues the log in a directory, or begins one. It checks the last record, and what follows
// the checkpoint; Verify checks everything. If the log was changed, the error wraps ErrBroken, says
// where, and nothing was written. A missing checkpoint is noted in the log, and a new one is
// written. Open blocks for the disk, for as long as it takes to read the files since the
// checkpoint's.
func Open(dir string, cfg Config) (*Log, error) {
	if cfg.MaxFile <= 0 {
		cfg.MaxFile = 64 << 20
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	l := &Log{dir: dir, cfg: cfg, due: make(chan struct{}, 1), next: 1, hash: origin}
	files, err := list(dir)
	if err != nil {
		return nil, err
	}
	if err = l.resume(files); err == nil {
		err = l.Checkpoint()
	}
	if err != nil {
		_ = l.file.Close() // nothing was written, or it is the error
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	return l, nil
}

// resume continues after the last whole record of the files. It goes on in the last file, or begins
// a new one if the last is full, has no whole record or ends with a torn one, or if the checkpoint
// is missing. A log without files gets its first one with the first record.
func (l *Log) resume(files []segment) (err error) {
	end := lastRecord{hash: origin}
	if len(files) > 0 {
		l.next = files[len(files)-1].number + 1
		end, err = tail(files)
	}
	l.seq, l.hash = end.seq, end.hash
	missing := false
	if err == nil && l.cfg.Signer != nil {
		missing, err = l.compare(files)
	}
	if err != nil {
		return fmt.Errorf("%w; `symbio permissions audit verify` says more. To begin a new log, move %s away, and the checkpoint %s", err, l.dir, l.cfg.Checkpoint)
	}
	if missing {
		l.cfg.Logger.Warn("the audit log has no checkpoint: records may have been cut off at its end", "record", l.seq, "file", l.cfg.Checkpoint)
	}
	if len(files) == 0 {
		return nil
	}
	if missing || end.torn > 0 || end.size == 0 || end.size >= l.cfg.MaxFile {
		return l.begin(record{Torn: end.torn, Unanchored: missing})
	}
	l.size = end.size
	l.file, err = os.OpenFile(files[len(files)-1].path, os.O_APPEND|os.O_WRONLY, 0)
	return err
}

// Append writes one record, with secrets replaced (package redact); a zero Time becomes the current
// one. After an error nothing is recorded, and the caller must not do the thing that it wanted to record. It
// blocks for one write to the file, not for the disk. After Close it returns fs.ErrClosed.
func (l *Log) Append(e Entry) error {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC()
	// Longer arguments are left out of the record, so redacting them would be wasted.
	if len(e.Args) <= MaxRecord {
		e.Args = redact.JSON(e.Args)
	}
	e.Rule, e.Why = redact.Text(e.Rule), redact.Text(e.Why)
	entry, err := e.short()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fs.ErrClosed
	}
	if l.file == nil || l.size >= l.cfg.MaxFile {
		if err := l.begin(record{Torn: l.torn}); err != nil {
			return err
		}
	}
	return l.write(record{Entry: entry})
}

// begin ends the current file, if there is one, and writes first as the first record of the next
// file. That record has no Entry, but the hash of the record before it, so that a file that is
// removed breaks the chain. O_EXCL makes it fail if another process has made the same file. The
// caller holds l.mu, or no other goroutine knows l yet.
func (l *Log) begin(first record) error {
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
	if err := l.write(first); err != nil {
		// A file begins with a record of its own kind. Without it the next try needs a new file.
		l.file, l.torn = nil, first.Torn
		return errors.Join(err, f.Close(), os.Remove(path))
	}
	l.next++
	l.torn = 0
	return nil
}

// write numbers a record, links it to the last one and appends it with a single write. A part of a
// record that was written before an error is cut off again. If that fails, too, the next record
// begins a new file, so that a record always begins on a line of its own. The caller holds l.mu, or
// no other goroutine knows l yet.
func (l *Log) write(r record) error {
	r.Seq, r.Prev = l.seq+1, l.hash
	line, err := r.line()
	if err != nil {
		return fmt.Errorf("record a decision: %w", err)
	}
	n, err := l.file.Write(line)
	l.size += int64(n)
	if err == nil {
		l.seq, l.hash = r.Seq, r.Hash
		// A new file and every checkpointRecords records make a checkpoint due. If one is due
		// already, the channel is full, and that is enough.
		if r.Entry == nil || r.Seq%checkpointRecords == 0 {
			select {
			case l.due <- struct{}{}:
			default:
			}
		}
		return nil
	}
	if n > 0 {
		if cutErr := l.file.Truncate(l.size - int64(n)); cutErr == nil {
			l.size -= int64(n)
		} else {
			l.size, l.torn = l.cfg.MaxFile, n // the rest of a record stays; what follows goes to a new file
		}
	}
	return fmt.Errorf("record a decision: %w", err)
}

// Close syncs everything to the disk and writes a checkpoint. After it, Append returns
// fs.ErrClosed. It may be called again.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	f := l.file
	l.file = nil
	l.mu.Unlock()
	if f == nil {
		return l.Checkpoint()
	}
	return errors.Join(f.Sync(), f.Close(), l.Checkpoint())
}

// segment is a file of the log: its path and the number in its name.
type segment struct {
	path   string
	number int
}

// list returns the files of the log by their numbers, the lowest first. Other files in the
// directory are ignored; gaps are left to verify.
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
	slices.SortStableFunc(all, func(a, b segment) int { return a.number - b.number })
	return all, nil
}

// lastRecord is the last whole record of the log, and the state of the last file.
type lastRecord struct {
	// seq and hash belong to the record; 0 and origin if there is none.
	seq  uint64
	hash string
	// size is the size of the last file in bytes; 0 if it has no whole record.
	size int64
	// torn counts the bytes after the last whole record in the last file.
	torn int
}

// tail finds the last whole record. The last file may have none, if the process ended while it
// began the file; then the one before it counts. tail reads the end of each file only, and checks
// the record's own hash, not the chain.
func tail(files []segment) (end lastRecord, err error) {
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
		// A longer text without a line break cannot be a torn record; parse then fails.
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

// lastBytes returns the last 4*MaxRecord bytes of a file, or all of a shorter one, and its size. A
// record is shorter than that, so that a large file need not be read as a whole.
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

// scanner returns a scanner for the lines of records. A line of more than 2*MaxRecord bytes ends it
// with an error.
func scanner(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), 2*MaxRecord)
	return s
}
