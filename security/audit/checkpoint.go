package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"symbio/security/identity"
	"symbio/security/private"
)

// Checkpoint says, signed by the node, up to which record the log had come. It lies in a file
// apart from the log and is replaced by the next one. Without it a log from which the last
// records were cut would look complete.
type Checkpoint struct {
	Node      identity.NodeID `json:"node"`
	Seq       uint64          `json:"seq"`  // of the last record; 0 is none yet
	Hash      string          `json:"hash"` // of that record, and so of all before it
	File      int             `json:"file"` // number of the file that it is in
	Time      time.Time       `json:"time"`
	Key       []byte          `json:"key"` // the node's public key
	Signature []byte          `json:"signature"`
}

// Checkpoints are written a minute after a record at the latest, and sooner after so many.
const (
	checkpointAge     = time.Minute
	checkpointRecords = 256
)

func (c Checkpoint) text() []byte {
	return fmt.Appendf(nil, "symbio audit checkpoint v1\n%s %d %s %d %d", c.Node, c.Seq, c.Hash, c.File, c.Time.UnixNano())
}

// ReadCheckpoint reads a checkpoint and verifies its signature. The error is fs.ErrNotExist if
// there is none, and ErrBroken if it is not as a node signed it.
func ReadCheckpoint(file string) (c Checkpoint, err error) {
	data, err := private.Read(file, 16<<10)
	if err != nil {
		return c, fmt.Errorf("the checkpoint of the audit log: %w", err)
	}
	if json.Unmarshal(data, &c) != nil || !identity.Signed(c.Node, c.Key, c.text(), c.Signature) {
		return c, fmt.Errorf("%w: %s is not a checkpoint that a node signed", ErrBroken, file)
	}
	return c, nil
}

// compare checks the log against its checkpoint when it is opened. It returns ErrBroken if the
// log lacks records that the checkpoint covers. missing is true if there are records but no
// checkpoint of this node.
func (l *Log) compare(files []segment) (missing bool, err error) {
	c, err := ReadCheckpoint(l.cfg.Checkpoint)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrBroken), err == nil && c.Node != l.cfg.Signer.ID():
		return l.seq > 0, nil // anyone can take one away, or put another one there
	case err != nil || c.Seq == l.seq && c.Hash == l.hash:
		return false, err
	}
	for len(files) > 0 && files[0].number < c.File {
		files = files[1:] // the chain of those is in the hash
	}
	_, err = verify(context.Background(), files, nil, Point{c.Seq, c.Hash})
	return false, err
}

// Checkpoint syncs the records to the disk and then signs that they are there; in the other
// order a crash could leave a checkpoint for lost records.
func (l *Log) Checkpoint() error {
	l.mu.Lock()
	f, c := l.file, Checkpoint{Seq: l.seq, Hash: l.hash, File: l.next - 1, Time: time.Now().UTC()}
	done := l.cfg.Signer == nil || l.hash == l.signed
	l.mu.Unlock()
	if done {
		return nil
	}
	if f != nil { // not while appending waits: and a file that ended meanwhile was synced
		if err := f.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
			return fmt.Errorf("bring the audit log to the disk: %w", err)
		}
	}
	var err error
	c.Node = l.cfg.Signer.ID()
	if c.Key, c.Signature, err = l.cfg.Signer.Sign(c.text()); err != nil {
		return err
	}
	data, err := json.Marshal(c)
	if err == nil {
		err = private.Replace(l.cfg.Checkpoint, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write a checkpoint of the audit log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.signed = c.Hash
	return nil
}

// Run writes checkpoints until ctx ends. A checkpoint that cannot be written is logged and
// tried again after a minute; the node goes on, since the records themselves are written.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(checkpointAge)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-l.due:
		}
		if err := l.Checkpoint(); err != nil {
			l.cfg.Logger.Warn("audit checkpoint", "err", err)
		}
	}
}
