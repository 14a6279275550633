// Package backup saves all that the nodes of a user keep in one file, also while they run, and
// restores it on this machine or another one.
//
// A backup is a tar file of regular files, encrypted as a whole (package passphrase) unless that is
// switched off. Its first entry is the Manifest, its last one a sum over all others. It is not
// compressed, so that its files are never larger than itself.
//
// Guarantees: the sessions in a backup are of one instant (SQLite), and no record of decisions
// is older than its checkpoint. Restore writes to directories without files only, and has checked
// the whole backup before it puts anything there.
//
// It does not save what can be made again: installed packages of MCP servers, workspaces that other
// nodes have sent, and copies of workspaces in which agents work.
package backup

import (
	"archive/tar"
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
	"slices"
	"strings"
	"time"

	"symbio/internal/agent/node/state"
	"symbio/internal/agent/session/sqlite"
	"symbio/internal/security/passphrase"
	"symbio/security/identity"
)

const (
	// format is the version of the form of backups.
	format = 1
	// manifestEntry and sumEntry are the names of the first and the last entry.
	manifestEntry = "manifest.json"
	sumEntry      = "sum"
	// sessionsFile is the name of the file of a node's sessions.
	sessionsFile = "sessions.db"
)

// Places are the directories that a backup is made of, and restored to. Config "" leaves the
// configuration out.
type Places struct {
	State  state.Dir
	Config string
}

// Manifest says what a backup has. Its JSON is written at the start of each backup and printed by
// commands.
type Manifest struct {
	// Format is the version of the form of the backup.
	Format int `json:"format"`
	// Version is the version of the program that made the backup.
	Version string `json:"version"`
	// Made is when it was made, in UTC.
	Made time.Time `json:"made"`
	// Nodes are the nodes whose keys it has, sorted by name.
	Nodes []Node `json:"nodes"`
	// Authority is the name of the cluster whose authority it has; "" if it has none.
	Authority string `json:"authority,omitempty"`
	// LeftOut are files of the configuration that this user cannot read. Create returns it; it is
	// not in the backup.
	LeftOut []string `json:"left_out,omitempty"`
}

// Node is a node in a backup.
type Node struct {
	Name string          `json:"name"`
	ID   identity.NodeID `json:"id"`
	// Cluster is the cluster that the node has joined; "" if it is in none, or made it.
	Cluster string `json:"cluster,omitempty"`
}

// Create makes a backup in the new file path, with mode 0600. secret "" does not encrypt it. It
// returns fs.ErrExist if the file exists, and ErrNoNode if there is no node to save. After an
// error the file is gone.
func Create(ctx context.Context, path, secret, version string, from Places) (m Manifest, err error) {
	if m, err = manifestOf(from.State, version); err != nil {
		return m, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return m, err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	out := io.WriteCloser(f)
	if secret != "" {
		if out, err = passphrase.Encrypt(f, secret); err != nil {
			return m, err
		}
	}
	// The copies of databases lie in the state directory, since the file may be on a disk that
	// must never see them unencrypted.
	work, err := os.MkdirTemp(string(from.State), workPrefix+"backup-")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	w := writer{ctx: ctx, tar: tar.NewWriter(out), sum: sha256.New(), work: work}
	if err := w.all(m, from); err != nil {
		return m, err
	}
	m.LeftOut = w.leftOut
	if secret != "" {
		err = out.Close()
	}
	return m, errors.Join(err, f.Sync())
}

// manifestOf returns the manifest of a backup of the state that is made now.
func manifestOf(s state.Dir, version string) (Manifest, error) {
	m := Manifest{Format: format, Version: version, Made: time.Now().UTC().Truncate(time.Second)}
	nodes, err := nodesOf(s)
	if err == nil && len(nodes) == 0 {
		err = fmt.Errorf("%s: %w", s, ErrNoNode)
	}
	m.Nodes = nodes
	if c, none := s.OpenCluster(); none == nil {
		m.Authority = c.Name()
	} else if !errors.Is(none, state.ErrNoAuthority) {
		err = errors.Join(err, none)
	}
	return m, err
}

// ErrNoNode means that a state directory has no node to save.
var ErrNoNode = errors.New("no node has run here, so there is nothing to save")

// nodesOf returns the nodes of a state directory, sorted by name.
func nodesOf(s state.Dir) (nodes []Node, err error) {
	own, err := s.OwnIDs()
	for id, name := range own {
		n := Node{Name: name, ID: id}
		if i, none := s.Node(name).Membership(); none == nil {
			n.Cluster = i.Authority()
		}
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, err
}

// writer writes the entries of a backup.
type writer struct {
	ctx context.Context
	tar *tar.Writer
	// sum is over the names, the sizes and the contents of all entries so far.
	sum hash.Hash
	// work is a directory for copies of databases.
	work string
	// leftOut are the files that could not be read.
	leftOut []string
}

// all writes the whole backup.
func (w *writer) all(m Manifest, from Places) error {
	head, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := w.text(manifestEntry, head); err != nil {
		return err
	}
	// A walk is in the order of names, so the checkpoints of the records of decisions, in
	// checkpoints, are read before the records, in nodes: a record may be longer than its
	// checkpoint says, never shorter.
	if err := w.tree(stateEntry, string(from.State), isLeftOut); err != nil {
		return err
	}
	if from.Config != "" {
		if err := w.tree(configEntry, from.Config, func(string) bool { return false }); err != nil {
			return err
		}
	}
	if err := w.text(sumEntry, hex.AppendEncode(nil, w.sum.Sum(nil))); err != nil {
		return err
	}
	return w.tar.Close()
}

// workPrefix begins the names of directories that Create and Restore make for a time.
const workPrefix = ".symbio-"

// isLeftOut reports whether a file or directory of the state directory is not saved. path is
// relative to it, with slashes.
func isLeftOut(path string) bool {
	parts := strings.Split(path, "/")
	switch {
	case strings.HasPrefix(parts[0], workPrefix):
		return true
	case len(parts) == 1:
		return parts[0] == "packages" || parts[0] == "leases"
	case len(parts) != 3 || parts[0] != "nodes":
		return false
	}
	// dashboard.html has a secret address that is good for two minutes.
	return slices.Contains([]string{"lock", "workspaces", "dashboard.html", sessionsFile + "-wal", sessionsFile + "-shm"}, parts[2])
}

// tree writes the regular files below root that leftOut lets through. A root that does not exist has
// none. Links, sockets and devices are not saved.
func (w *writer) tree(prefix, root string, leftOut func(string) bool) error {
	root, err := filepath.EvalSymlinks(root) // a walk does not follow a link, also if it is the root
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != root {
			return nil // a node removed it meanwhile
		}
		if errors.Is(err, fs.ErrPermission) && prefix == configEntry {
			w.leftOut = append(w.leftOut, path)
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case rel != "." && leftOut(rel) && d.IsDir():
			return fs.SkipDir
		case d.IsDir() || !d.Type().IsRegular() || leftOut(rel):
			return nil
		case prefix == stateEntry && isSessions(rel):
			return w.sessions(prefix+"/"+rel, path)
		}
		return w.file(prefix+"/"+rel, path)
	})
}

// isSessions reports whether a path in the state directory is the file of a node's sessions.
func isSessions(rel string) bool {
	ok, _ := filepath.Match("nodes/*/"+sessionsFile, rel) // the pattern is well-formed
	return ok
}

// sessions writes a copy of a database that a node may be using.
func (w *writer) sessions(name, path string) error {
	copied := filepath.Join(w.work, sessionsFile)
	if err := sqlite.Copy(w.ctx, path, copied); err != nil {
		return err
	}
	return errors.Join(w.file(name, copied), os.Remove(copied))
}

// file writes a file as long as it is now: logs may grow meanwhile. A file that is gone is left out.
func (w *writer) file(name, path string) (err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, fs.ErrPermission) && strings.HasPrefix(name, configEntry+"/") {
		w.leftOut = append(w.leftOut, path) // such as the environment of a service, which is of root
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.entry(name, info.Size(), int64(info.Mode()&0o100), io.LimitReader(f, info.Size())); err != nil {
		return fmt.Errorf("save %s: %w", path, err)
	}
	return nil
}

// text writes an entry from memory.
func (w *writer) text(name string, data []byte) error {
	return w.entry(name, int64(len(data)), 0, strings.NewReader(string(data)))
}

// entry writes one entry. executable is 0o100 for a program, else 0.
func (w *writer) entry(name string, size, executable int64, from io.Reader) error {
	if err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600 | executable, Format: tar.FormatPAX}); err != nil {
		return err
	}
	fmt.Fprintf(w.sum, "%q %d\n", name, size)
	n, err := io.Copy(io.MultiWriter(w.tar, w.sum), from)
	if err == nil && n != size {
		err = fmt.Errorf("it became shorter while it was read: %w", io.ErrUnexpectedEOF)
	}
	return err
}
