package transfer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/workspace"
	"symbio/internal/security/visible"
)

// parallel is how many calls of a transfer run at once: while one is on the wire, others are packed.
const parallel = 4

// Client sends workspaces to a Server, and fetches patches from it. It is for one transfer at a time.
type Client struct {
	server   *Server // of this node: its limits and its own store
	call     func(ctx context.Context, data []byte) ([]byte, error)
	progress func(community.Progress)
	chunk    int // the size of chunks that both nodes take; set by Push

	total    int64 // bytes of the workspace; 0 = not known; set by Push
	mu       sync.Mutex
	done     int64     // bytes of contents that were sent and fetched; guarded by mu
	reported time.Time // guarded by mu
}

// Client returns a Client that makes its calls of Capability with call; s.Local and Checkout.Call are
// such functions. progress is told of a transfer that takes longer than a second, once a second.
func (s *Server) Client(call func(context.Context, []byte) ([]byte, error), progress func(community.Progress)) *Client {
	return &Client{server: s, call: call, progress: progress, reported: time.Now()}
}

// do makes one call, and counts the bytes of contents that it carried.
func (c *Client) do(ctx context.Context, h header, body []byte) (header, []byte, error) {
	data, err := c.server.codec.encode(h, body)
	if err == nil {
		data, err = c.call(ctx, data)
	}
	if err != nil {
		return header{}, nil, err
	}
	out, part, err := c.server.codec.decode(data)
	if err != nil {
		return header{}, nil, fmt.Errorf("the answer of the node: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done += int64(len(body) + len(part))
	if time.Since(c.reported) >= time.Second {
		c.reported = time.Now()
		c.progress(community.Progress{Message: "the workspace is on the way", Done: float64(c.done), Total: float64(c.total)})
	}
	return out, part, nil
}

// Push sends a workspace, as far as the other node lacks it, and returns the hash by which that makes
// it. Contents that arrived before an error stay there for the next time. The error comes from a call, from the
// disk, or says why the node does not take the workspace.
func (c *Client) Push(ctx context.Context, w *workspace.Snapshot) (content.Hash, error) {
	text := w.Encode()
	hash := content.Sum(text)
	first, _, err := c.do(ctx, header{Op: opMissing, Hashes: []content.Hash{hash}}, nil)
	if err != nil {
		return hash, err
	}
	if c.chunk = min(first.Chunk, maxChunk, c.server.cfg.MaxMessage/4*3); c.chunk < 1<<10 {
		return hash, errors.New("one of the nodes takes too short messages (limits.message)")
	}
	if len(first.Hashes) > 0 {
		err = c.send(ctx, []content.Hash{hash}, map[content.Hash]source{hash: {int64(len(text)), func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(text)), nil
		}}})
	}
	files := map[content.Hash]source{}
	for _, f := range w.Files {
		if f.Kind != workspace.Link {
			c.total += f.Size
			files[f.Hash] = source{f.Size, func() (io.ReadCloser, error) { return w.Open(f) }}
		}
	}
	for err == nil {
		lacks, _, missing := c.do(ctx, header{Op: opMissing, Hash: hash}, nil)
		if missing != nil || len(lacks.Hashes) == 0 {
			return hash, missing
		}
		err = c.send(ctx, lacks.Hashes, files)
	}
	return hash, err
}

// source is a content to send.
type source struct {
	size int64
	open func() (io.ReadCloser, error)
}

// send sends contents that the node says it lacks, small ones together. Each is sent once and taken out
// of all; what is not in all is an error, so that a hostile node cannot ask without end, or for others.
func (c *Client) send(ctx context.Context, lacks []content.Hash, all map[content.Hash]source) (err error) {
	g, calls := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	var pack header
	var body []byte
	flush := func() {
		h, data := pack, body
		pack, body = header{Op: opPut}, make([]byte, 0, c.chunk+bytes.MinRead)
		if len(h.Hashes) > 0 {
			g.Go(func() error { _, _, err := c.do(calls, h, data); return err })
		}
	}
	flush()
	for i := 0; i < len(lacks) && err == nil && calls.Err() == nil; i++ {
		one, ok := all[lacks[i]]
		delete(all, lacks[i])
		switch {
		case !ok:
			err = errors.New("the node lacks a content that it was sent, or that the workspace does not have")
		case one.size > int64(c.chunk):
			err = c.sendLarge(calls, lacks[i], one)
		default:
			if len(body)+int(one.size) > c.chunk || len(pack.Hashes) == maxHashes {
				flush()
			}
			pack.Hashes, pack.Sizes = append(pack.Hashes, lacks[i]), append(pack.Sizes, int(one.size))
			body, err = one.append(body)
		}
	}
	if err == nil {
		flush()
	}
	return cmp.Or(g.Wait(), err, context.Cause(ctx))
}

// append appends the content to data.
func (s source) append(data []byte) ([]byte, error) {
	f, err := s.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := bytes.NewBuffer(data)
	_, err = b.ReadFrom(f) // to the end, where it is checked
	return b.Bytes(), err
}

// sendLarge sends those chunks of a content that the node lacks, and has it put them together.
func (c *Client) sendLarge(ctx context.Context, hash content.Hash, one source) error {
	f, err := one.open()
	if err != nil {
		return err
	}
	defer f.Close()
	g, calls := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	join := header{Op: opJoin, Hash: hash, Size: one.size}
	for left := one.size; left > 0 && err == nil && calls.Err() == nil; left -= int64(c.chunk) {
		data := make([]byte, min(left, int64(c.chunk)))
		_, err = io.ReadFull(f, data)
		h := content.Sum(data)
		join.Hashes = append(join.Hashes, h)
		g.Go(func() error {
			ask := header{Op: opMissing, Hashes: []content.Hash{h}}
			lacks, _, err := c.do(calls, ask, nil)
			if err == nil && len(lacks.Hashes) > 0 {
				_, _, err = c.do(calls, header{Op: opPut, Hashes: ask.Hashes, Sizes: []int{len(data)}}, data)
			}
			return err
		})
	}
	if err = cmp.Or(g.Wait(), err); err == nil {
		_, _, err = c.do(ctx, join, nil)
	}
	return err
}

// Work is what a member changed in its workspace.
type Work struct {
	Patch workspace.Patch
	Store *content.Store // has the contents of the patch
	Left  string         // changes that do not travel, and why, in the words of the other node; "" = none
}

// Fetch fetches the patch of a member's changes in the workspace that base describes, with its
// contents. All that the other node says is checked; the error says what is wrong.
func (c *Client) Fetch(ctx context.Context, member community.MemberID, base workspace.Manifest) (w Work, err error) {
	store, err := c.server.store(own, 0)
	if err != nil {
		return w, err
	}
	w.Store = store.Store
	made, _, err := c.do(ctx, header{Op: opPatch, Member: member}, nil)
	if err != nil {
		return w, err
	}
	if made.Size > maxManifest {
		return w, fmt.Errorf("the node announces a patch of %d bytes; at most %d are read", made.Size, maxManifest)
	}
	text, err := io.ReadAll(c.content(ctx, made.Hash, made.Size))
	if err != nil {
		return w, err
	}
	w.Left = visible.Line(made.Left, 2000)
	if w.Patch, err = workspace.DecodePatch(text, base, c.server.cfg.Limits); err != nil {
		return w, err
	}
	return w, c.FetchContents(ctx, w, w.Patch.Changes, w.Patch.Contents())
}

// FetchContents fetches those contents of files that are wanted into the store of the work.
func (c *Client) FetchContents(ctx context.Context, w Work, files []workspace.File, wanted []content.Hash) error {
	sizes := map[content.Hash]int64{}
	for _, f := range files {
		sizes[f.Hash] = f.Size
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, h := range wanted {
		if !w.Store.Has(h) {
			g.Go(func() error {
				return w.Store.PutAs(h, c.content(ctx, h, sizes[h]), sizes[h])
			})
		}
	}
	return g.Wait()
}

// content reads a content of the other node. An answer without bytes, or with more than are left, is an
// error: a hostile node cannot make it endless.
func (c *Client) content(ctx context.Context, h content.Hash, size int64) io.Reader {
	return &content.Pieces{Get: func(at int64) (part []byte, err error) {
		if at < size {
			if _, part, err = c.do(ctx, header{Op: opGet, Hash: h, Offset: at}, nil); err == nil && (len(part) == 0 || int64(len(part)) > size-at) {
				err = errors.New("the node sends another number of bytes than it announced")
			}
		}
		return part, err
	}}
}
