package transfer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/workspace"
	"symbio/internal/security/lazyregexp"
)

// Config sets up a Server. Dir and Leases are required.
type Config struct {
	// Dir has a store of contents for each borrower. Commands must not see it.
	Dir string
	// Leases is where workspaces are made. Leftovers of an earlier process are removed.
	Leases string
	// Limits bound one workspace, and what an agent may make of it.
	Limits workspace.Limits
	// Cache bounds the bytes of all stores together; each of four borrowers has a quarter. Default 8 GiB,
	// so that there is room for a workspace and the chunks of its large files.
	Cache int64
	// MaxMessage is the longest message of this node (limits.message). Default 1 MiB.
	MaxMessage int
}

const (
	// maxStores is how many borrowers have contents here at a time. The contents of an idle one are removed.
	maxStores = 4
	// busyStore is how long a store stays in use after a call.
	busyStore = 10 * time.Minute
	// own is the name of the store for the workspaces of this node's agents.
	own = community.NodeID("own")
)

// Server keeps what borrowers send and makes workspaces of it. It is safe for concurrent use.
type Server struct {
	cfg   Config
	codec codec

	mu     sync.Mutex
	stores map[community.NodeID]*nodeStore // guarded by mu
}

// nodeStore has the contents of one borrower.
type nodeStore struct {
	*content.Store
	used   time.Time // guarded by Server.mu
	leases int       // workspaces made of it that are in use; guarded by Server.mu
}

// New returns a Server. It removes the workspaces that an earlier process left behind.
func New(cfg Config) (*Server, error) {
	cfg.MaxMessage, cfg.Cache = cmp.Or(cfg.MaxMessage, 1<<20), cmp.Or(cfg.Cache, 8<<30)
	if err := errors.Join(removeAll(cfg.Leases), os.MkdirAll(cfg.Leases, 0o700), os.MkdirAll(cfg.Dir, 0o700)); err != nil {
		return nil, fmt.Errorf("remove the workspaces of ended agents: %w", err)
	}
	c, err := newCodec()
	return &Server{cfg: cfg, codec: c, stores: map[community.NodeID]*nodeStore{}}, err
}

// nodeID is the form of the ids of nodes; one becomes a directory's name.
var nodeID = lazyregexp.New(`^[0-9a-f]{32}$`)

// Provider returns what serves Capability. find returns the workspace of a member that is lent to a
// node; nil if there is none.
func (s *Server) Provider(find func(community.NodeID, community.MemberID) *Checkout) community.Provider {
	return func(ctx context.Context, in community.Signal) (community.Reply, error) {
		if len(in.Requester) == 0 || !nodeID().MatchString(in.Requester[0]) {
			return community.Reply{}, refuse(errors.New("the call names no calling node"))
		}
		node := community.NodeID(in.Requester[0])
		data, err := s.serve(ctx, node, in.Data, func(m community.MemberID) *Checkout { return find(node, m) })
		return community.Reply{Data: data, ContentType: "application/octet-stream"}, err
	}
}

// Local calls the Server for the agents of its own node.
func (s *Server) Local(ctx context.Context, data []byte) ([]byte, error) {
	return s.serve(ctx, own, data, func(community.MemberID) *Checkout { return nil })
}

// serve answers one call of a node.
func (s *Server) serve(ctx context.Context, node community.NodeID, data []byte, find func(community.MemberID) *Checkout) ([]byte, error) {
	h, body, err := s.codec.decode(data)
	if err != nil {
		return nil, refuse(err)
	}
	store, err := s.store(node, 0)
	if err != nil {
		return nil, refuse(err)
	}
	var out header
	var part []byte
	switch h.Op {
	case opMissing:
		out, err = s.missing(store.Store, h)
	case opPut:
		err = store.PutAll(h.Hashes, h.Sizes, body)
	case opJoin:
		err = s.join(store.Store, h)
	case opPatch:
		out, err = find(h.Member).diff(ctx)
	case opGet:
		part, err = s.get(store.Store, h)
	default:
		err = errors.New("there is no such operation")
	}
	if err != nil {
		return nil, refuse(err)
	}
	return s.codec.encode(out, part)
}

// refuse returns an error whose reason the borrower may read. Errors of the disk name files of this
// node; they stay here.
func refuse(err error) error {
	var disk *fs.PathError
	switch {
	case errors.Is(err, community.ErrNotFound), errors.Is(err, community.ErrBusy), errors.Is(err, community.ErrInvalid):
		return err // it was explained before
	case errors.Is(err, content.ErrFull):
		return community.Explain(community.ErrTooLarge, "what that node keeps for this one is full (workspaces.cache)")
	case errors.As(err, &disk), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", community.Explain(community.ErrUnavailable, "the disk of that node"), err)
	}
	return community.Explain(community.ErrInvalid, err.Error())
}

// store returns the contents of a node, and counts lease more workspaces that are made of them.
func (s *Server) store(node community.NodeID, lease int) (have *nodeStore, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have = s.stores[node]; have == nil {
		have = &nodeStore{}
		if err = s.makeRoom(node); err == nil {
			have.Store, err = content.Open(content.Config{Dir: filepath.Join(s.cfg.Dir, string(node)), MaxSize: s.cfg.Cache / maxStores})
		}
		if err != nil {
			return nil, err
		}
		s.stores[node] = have
	}
	have.used = time.Now()
	have.leases += lease
	return have, nil
}

// makeRoom removes idle stores until there is room for the store of a node; community.ErrBusy if all are in
// use. s.mu is held.
func (s *Server) makeRoom(node community.NodeID) error {
	dirs, err := os.ReadDir(s.cfg.Dir)
	left := len(dirs)
	for _, d := range dirs {
		have, name := s.stores[community.NodeID(d.Name())], d.Name()
		switch {
		case name == string(node):
			return nil
		case left >= maxStores && (have == nil || have.leases == 0 && time.Since(have.used) > busyStore):
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.cfg.Dir, name)))
			delete(s.stores, community.NodeID(name))
			left--
		}
	}
	if left >= maxStores {
		return community.Explain(community.ErrBusy, fmt.Sprintf("%d other nodes have workspaces there", left))
	}
	return err
}

// missing returns contents that are not kept, not more than a message has.
func (s *Server) missing(store *content.Store, h header) (out header, err error) {
	if h.Hash != (content.Hash{}) {
		m, err := s.manifest(store, h.Hash)
		if err != nil {
			return out, err
		}
		for _, f := range m.Files { // in their order, in which they are read and compressed best
			if f.Kind != workspace.Link {
				h.Hashes = append(h.Hashes, f.Hash)
			}
		}
	}
	out.Chunk = min(maxChunk, s.cfg.MaxMessage/4*3)
	seen := map[content.Hash]bool{}
	for _, one := range h.Hashes {
		if len(out.Hashes) < maxHashes && !seen[one] && !store.Has(one) {
			out.Hashes = append(out.Hashes, one)
		}
		seen[one] = true
	}
	return out, nil
}

// manifest returns the manifest with that hash, if this node would take its workspace.
func (s *Server) manifest(store *content.Store, h content.Hash) (m workspace.Manifest, err error) {
	f, err := store.Open(h)
	if err != nil {
		return m, errors.New("that manifest is not here: send it first")
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return m, err
	}
	return workspace.DecodeManifest(data, s.cfg.Limits)
}

// join makes one content of chunks that are kept.
func (s *Server) join(store *content.Store, h header) error {
	if most := cmp.Or(s.cfg.Limits.FileSize, 256<<20); h.Size > most {
		return fmt.Errorf("a file of %d bytes; at most %d are taken", h.Size, most)
	}
	var chunks []io.Reader
	for _, one := range h.Hashes {
		chunks = append(chunks, &chunk{store: store, hash: one})
	}
	return store.PutAs(h.Hash, io.MultiReader(chunks...), h.Size)
}

// chunk reads a content. It is open only from the first read to the end.
type chunk struct {
	store *content.Store
	hash  content.Hash
	file  *content.File
}

// Read implements io.Reader.
func (c *chunk) Read(p []byte) (n int, err error) {
	if c.file == nil {
		if c.file, err = c.store.Open(c.hash); err != nil {
			return 0, errors.New("a chunk is missing")
		}
	}
	if n, err = c.file.Read(p); err != nil {
		c.file.Close()
	}
	return n, err
}

// get returns a part of a content.
func (s *Server) get(store *content.Store, h header) ([]byte, error) {
	f, err := store.Open(h.Hash)
	if err != nil {
		return nil, errors.New("there is no such content")
	}
	defer f.Close()
	part := make([]byte, min(maxChunk, s.cfg.MaxMessage/4*3))
	n, err := f.ReadAt(part, h.Offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return part[:n], err
}

// Checkout is a workspace that was made for an agent, as long as it works there. It is safe for
// concurrent use.
type Checkout struct {
	// Dir is the workspace. Home is an empty directory beside it, the home of the agent's commands:
	// what they keep there, such as the cache of a compiler, is no part of the patch.
	Dir, Home string

	server *Server
	node   community.NodeID
	store  *nodeStore
	base   workspace.Manifest

	mu    sync.Mutex
	unpin func() // of the workspace's contents, and of the last patch; nil after Close; guarded by mu
}

// Checkout makes the workspace of a manifest that a node has sent; "" is this node itself. The caller
// must call Close. An error says no more than that node may know.
func (s *Server) Checkout(ctx context.Context, node community.NodeID, manifest content.Hash) (_ *Checkout, err error) {
	node = cmp.Or(node, own)
	store, err := s.store(node, 1)
	if err != nil {
		return nil, refuse(err)
	}
	c := &Checkout{server: s, node: node, store: store}
	if c.base, err = s.manifest(store.Store, manifest); err == nil {
		c.Dir, err = os.MkdirTemp(s.cfg.Leases, "")
	}
	c.Dir, c.Home = filepath.Join(c.Dir, "work"), filepath.Join(c.Dir, "home")
	c.unpin = store.Pin(append(c.base.Contents(), manifest))
	if err == nil {
		err = errors.Join(os.Mkdir(c.Dir, 0o700), os.Mkdir(c.Home, 0o700))
	}
	if err == nil {
		err = workspace.Make(ctx, c.base, store.Store, c.Dir)
	}
	if err != nil {
		return nil, errors.Join(c.refuse(err), c.Close())
	}
	return c, nil
}

// Close removes the workspace. It may be called more than once.
func (c *Checkout) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unpin == nil {
		return nil
	}
	c.unpin()
	c.unpin = nil
	_, _ = c.server.store(c.node, -1) // it is open, because it has a lease
	return removeAll(filepath.Dir(c.Dir))
}

// removeAll removes a directory, also if an agent took itself the permission to change parts of it.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			return os.Chmod(path, 0o700) // before its entries are read
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// Call calls the Server about this workspace, without a wire.
func (c *Checkout) Call(ctx context.Context, data []byte) ([]byte, error) {
	return c.server.serve(ctx, c.node, data, func(community.MemberID) *Checkout { return c })
}

// diff makes the patch of the agent's changes since the workspace was made, and keeps it and its
// contents until the next one. The agent's files are bounded here, by the limits of a
// workspace; until then only the sandbox (the size of a file) and the disk bound it.
func (c *Checkout) diff(ctx context.Context) (out header, err error) {
	if c == nil {
		return out, community.Explain(community.ErrNotFound, "no agent with a workspace of its own is lent to that node under this id")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unpin == nil {
		return out, community.Explain(community.ErrNotFound, "the workspace is removed")
	}
	p, omitted, err := workspace.Diff(ctx, c.base, c.Dir, c.store.Store, c.server.cfg.Limits)
	if err != nil {
		return out, c.refuse(err)
	}
	if out.Hash, out.Size, err = c.store.Put(bytes.NewReader(p.Encode()), maxManifest); err != nil {
		return out, err
	}
	unpin := c.store.Pin(slices.Concat(c.base.Contents(), p.Contents(), []content.Hash{out.Hash}))
	c.unpin()
	c.unpin = unpin
	for _, o := range omitted[:min(len(omitted), 10)] {
		out.Left += fmt.Sprintf("%s (%s) ", o.Path, o.Why)
	}
	return out, nil
}

// refuse is the function refuse for errors that name the directory, which is not for another node.
func (c *Checkout) refuse(err error) error {
	if err = refuse(err); errors.Is(err, community.ErrInvalid) {
		return community.Explain(community.ErrInvalid, strings.ReplaceAll(err.Error(), " "+c.Dir, ""))
	}
	return err
}
