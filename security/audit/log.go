package audit

import (
	"bufio"
	"bytes"
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

	"symbio/security/identity"
	"symbio/security/redact"
)

// Config sets up a Log. The zero value works.
type Config struct {
	// MaxFile is how long a file gets before the next one is begun, in bytes. Default 64 MiB: a hundred
	// thousand decisions, which any tool can still open.
	MaxFile int64
	// Checkpoint is the file for checkpoints, in another directory than the log, and Signer the node that signs them.
	// Without a Signer there are none, and nothing shows when the end of the log is cut off.
	Checkpoint string
	Signer     *identity.Identity
	// Logger is told of a checkpoint that cannot be written, or was missing. Default: silent.
	Logger *slog.Logger
}

const (
	fileStart = "decisions-"
	fileEnd   = ".jsonl"
)

// Log appends records to files in a directory. One process at a time may have a directory
// open; within it, all methods may be called from many goroutines.
type Log struct {
	dir string
	cfg Config
	due chan struct{} // capacity 1: a checkpoint is due before its time

	mu     sync.Mutex
	file   *os.File // nil when closed, or between two; guarded by mu
	closed bool     // guarded by mu
	size   int64    // guarded by mu
	next   int      // number of the next file; guarded by mu
	seq    uint64   // of the last record; guarded by mu
	hash   string   // of the last record; guarded by mu
	signed string   // the hash in the last checkpoint; guarded by mu
}

// Open continues the log in a directory, or begins one. It checks the last record, and the
// checkpoint and what follows it; Verify checks everything. If something is wrong there, the
// error says where, and nothing was written. A missing checkpoint is noted in the log, and a
// new one is written.
func Open(dir string, cfg Config) (*Log, error) {
	if cfg.MaxFile <= 0 {
		cfg.MaxFile = 64 << 20
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
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

// resume continues after the last whole record of the files.
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
		return fmt.Errorf("%w; `symbio audit verify` says more. To begin a new log, move %s away, and the checkpoint %s", err, l.dir, l.cfg.Checkpoint)
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

// Append writes one record, with secrets replaced (package redact). After an error nothing is
// recorded, and the caller must not go on with what it wanted to record. It blocks for the
// write to the file.
func (l *Log) Append(e Entry) error {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC()
	if len(e.Args) <= MaxRecord { // longer ones are left out
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
		if err := l.begin(record{}); err != nil {
			return err
		}
	}
	return l.write(record{Entry: entry})
}

// begin opens the next file, with a first record that has the hash of the last one, so that a
// removed file breaks the chain. The caller holds l.mu, or no other goroutine knows l yet.
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
	l.next++
	return l.write(first)
}

// write appends a record. After a partial write the file is left behind and the next record
// begins a new one, so that a record always begins on a line of its own.
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
			l.size = l.cfg.MaxFile // the rest of a record stays; what follows goes to a new file
		}
	}
	return fmt.Errorf("record a decision: %w", err)
}

// Close writes a checkpoint and syncs everything to the disk. After it, Append returns
// fs.ErrClosed.
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

// segment is a file of the log.
type segment struct {
	path   string
	number int
}

// list returns the files of the log, the oldest first.
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

// lastRecord is the last record of the log and where it stands.
type lastRecord struct {
	seq  uint64
	hash string
	size int64 // of the last file; 0 when no whole record is in it
	torn int   // bytes after its last whole record
}

// tail finds the last whole record. The last file may have none, if the process ended while it
// began the file; then the one before it counts.
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

// lastBytes returns the end of a file, longer than any record, so that a large file is not
// read as a whole.
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
