package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"symbio/internal/security/private"
	"symbio/security/identity"
)

// Checkpoint says, signed by the node, up to which record the log had come. It is a file of JSON
// apart from the log, and is replaced by the next one. Without it a log from which the last records
// were cut would look complete.
type Checkpoint struct {
	Node identity.NodeID `json:"node"`
	// Seq is the number of the last record; 0 is none yet.
	Seq uint64 `json:"seq"`
	// Hash is the hash of the last record, and so covers all records before it.
	Hash string `json:"hash"`
	// File is the number of the file that the record is in; 0 is none yet. Open reads from there
	// on.
	File int       `json:"file"`
	Time time.Time `json:"time"`
	// Key is the node's public key (SubjectPublicKeyInfo), which Node is the hash of. Signature is
	// by it and covers all other fields.
	Key       []byte `json:"key"`
	Signature []byte `json:"signature"`
}

// Checkpoints are written a minute after a record at the latest, and sooner after so many.
const (
	// A checkpoint is written every checkpointAge if there are new records, and sooner after
	// checkpointRecords of them. An attacker can cut off unseen only the records behind the last one.
	checkpointAge     = time.Minute
	checkpointRecords = 256
)

// text returns what the signature covers. It begins with a line for its purpose.
func (c Checkpoint) text() []byte {
	return fmt.Appendf(nil, "symbio audit checkpoint v1\n%s %d %s %d %d", c.Node, c.Seq, c.Hash, c.File, c.Time.UnixNano())
}

// ReadCheckpoint reads a checkpoint and verifies that the node it names has signed it. Which node
// that is, is for the caller to compare. The error is fs.ErrNotExist if there is none, and
// ErrBroken if it is not as a node signed it; a file that other users could have written is an
// error of package private.
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

// compare checks the log against its checkpoint when it is opened. It returns ErrBroken if the log
// lacks the record of the checkpoint, or if the chain is broken after it. missing is true if there
// are records but no valid checkpoint of this node.
func (l *Log) compare(files []segment) (missing bool, err error) {
	c, err := ReadCheckpoint(l.cfg.Checkpoint)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrBroken), err == nil && c.Node != l.cfg.Signer.ID():
		// A checkpoint of another node is no proof of a change: a program that can write the file
		// can remove it or put any other one there. The log says so instead (record.Unanchored).
		return l.seq > 0, nil
	case err != nil || c.Seq == l.seq && c.Hash == l.hash:
		return false, err
	}
	for len(files) > 0 && files[0].number < c.File {
		// The hash in the checkpoint covers the records of the files before.
		files = files[1:]
	}
	_, err = verify(context.Background(), files, nil, Point{c.Seq, c.Hash})
	return false, err
}

// Checkpoint syncs the records to the disk and then signs that they are there; in the other order a
// crash could leave a checkpoint for lost records. It does nothing without a Signer, or if nothing
// was recorded since the last one. It may be called from many goroutines, and Append goes on
// meanwhile.
func (l *Log) Checkpoint() error {
	l.mu.Lock()
	f, c := l.file, Checkpoint{Seq: l.seq, Hash: l.hash, File: l.next - 1, Time: time.Now().UTC()}
	done := l.cfg.Signer == nil || l.hash == l.signed
	l.mu.Unlock()
	if done {
		return nil
	}
	// Not under the lock, so that Append does not wait for the disk. A file that was closed
	// meanwhile has been synced by begin or Close.
	if f != nil {
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

// Run writes checkpoints until ctx ends, and then returns nil; Close writes the last one. A
// checkpoint that cannot be written is logged and tried again within a minute. The node goes on,
// since the records themselves are written.
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
