// Package artifacts hands the artifacts of a node to other nodes, gets theirs, lists them for people,
// and removes those that are not needed any more.
//
// The one idea: a node may fetch the artifacts that it was given, in the reply to a call that it made or in a call that
// it got, and needs a rule of authorize for anything else.
//
// Guarantees: a content that is fetched has the hash that was asked for, and is not larger than the store
// takes; the artifacts of an agent that lives are not removed. The node forgets all grants when it ends.
package artifacts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/tool/peer"
	symbiov1 "symbio/proto/symbio/v1"
)

// Capability is the capability by which other nodes fetch artifacts of this node. Its input is a Request, its
// reply a piece of the content; an empty one is the end.
const Capability = content.Capability

const (
	// maxGiven is how many artifacts another node may fetch; of more, the earliest given are refused.
	maxGiven = 4096
	// concurrency is how many pieces are read at a time, and pieceTimeout how long one may take to come.
	concurrency, pieceTimeout = 8, 30 * time.Second
	// maxPiece bounds a piece, in bytes, beside half of Config.MaxMessage.
	maxPiece = 512 << 10
	// collectEvery is how often the node looks for what is not needed any more.
	collectEvery = time.Hour
)

// Request is the input of Capability.
type Request struct {
	Hash   content.Hash `json:"hash"`
	Offset int64        `json:"offset,omitempty"`
}

// Config sets up a Server. All fields are required unless their comment says otherwise.
type Config struct {
	// Dir has the artifacts, of at most MaxSize bytes.
	Dir       string
	MaxSize   int64
	Community *community.Community
	// Allowed reports whether a rule lets a node fetch all artifacts.
	Allowed func(community.NodeID) bool
	// MaxMessage is the largest message between nodes. Default: the community's.
	MaxMessage int
	// Keep is how long an artifact that no session names is kept after its last use.
	Keep time.Duration
	// Sessions are those that name artifacts. Default: none.
	Sessions session.Store
}

// Server has the artifacts of a node. It is safe for concurrent use.
type Server struct {
	cfg   Config
	store *content.Store

	mu    sync.Mutex
	given map[community.NodeID][]content.Hash // guarded by mu
}

// Open returns a Server. Offer and Run make it work.
func Open(cfg Config) (*Server, error) {
	store, err := content.Open(content.Config{Dir: cfg.Dir, MaxSize: cfg.MaxSize})
	return &Server{cfg: cfg, store: store, given: map[community.NodeID][]content.Hash{}}, err
}

// Give lets a node fetch an artifact, until the node ends or maxGiven others were given to it.
func (s *Server) Give(to community.NodeID, h content.Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.given[to]; !slices.Contains(all, h) {
		s.given[to] = append(all[max(0, len(all)-maxGiven+1):], h)
	}
}

// Keep stores what r holds as an artifact of this node, and lets a node fetch it.
func (s *Server) Keep(to community.NodeID, r io.Reader) (content.Hash, error) {
	h, _, err := s.store.Put(r, math.MaxInt64)
	if err == nil {
		s.Give(to, h)
	}
	return h, err
}

// HasGiven reports whether a node may fetch any artifact without a rule.
func (s *Server) HasGiven(to community.NodeID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.given[to]) > 0
}

// Offer offers Capability.
func (s *Server) Offer() error {
	return s.cfg.Community.Offer(community.Capability{
		Name: Capability, Description: "A piece of an artifact of this node: a result that was too large to be sent, or a picture. Models get it with Read.", Idempotent: true,
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["hash"],"properties":{"hash":{"type":"string","maxLength":64},"offset":{"type":"integer","minimum":0}}}`),
	}, s.provide, community.WithConcurrency(concurrency))
}

// provide answers a call of Capability. An artifact that the caller may not fetch does not exist for it.
func (s *Server) provide(_ context.Context, in community.Signal) (community.Reply, error) {
	var r Request
	if err := json.Unmarshal(in.Data, &r); err != nil || r.Offset < 0 || len(in.Requester) == 0 {
		return community.Reply{}, community.Explain(community.ErrInvalid, "a request has a hash, and an offset from 0")
	}
	to := community.NodeID(in.Requester[0])
	s.mu.Lock()
	given := slices.Contains(s.given[to], r.Hash)
	s.mu.Unlock()
	missing := community.Explain(community.ErrNotFound, "it does not have that artifact any more, or did not give it to this node")
	if !given && !s.cfg.Allowed(to) {
		return community.Reply{}, missing
	}
	f, err := s.store.Open(r.Hash)
	if err != nil {
		return community.Reply{}, missing
	}
	defer f.Close()
	piece := make([]byte, min(maxPiece, cmp.Or(s.cfg.MaxMessage/2, maxPiece)))
	n, err := f.ReadAt(piece, r.Offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return community.Reply{Data: piece[:n], ContentType: "application/octet-stream"}, err
}

// Fetch gets an artifact of another node into the store. The error is content.ErrMismatch if it sends another
// content, content.ErrTooLarge if it sends more than the store takes, or the error of a call.
func (s *Server) Fetch(ctx context.Context, from community.NodeID, h content.Hash) error {
	return s.store.PutAs(h, &content.Pieces{Get: func(at int64) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, pieceTimeout)
		defer cancel()
		data, _ := json.Marshal(Request{h, at}) // of a hash and a number it cannot fail
		in := community.Signal{Data: data, ContentType: "application/json", Requester: peer.Requester(ctx)}
		reply, err := s.cfg.Community.Invoke(ctx, community.MemberID(from), Capability, in)
		return reply.Data, err
	}}, math.MaxInt64)
}

// Open gets an artifact from the node that calls this one, and opens it. It fetches it also if it is here already, from
// another node or session: a caller that only names it must not make it readable.
func (s *Server) Open(ctx context.Context, from community.NodeID, h content.Hash) (io.ReadSeekCloser, error) {
	if err := s.Fetch(ctx, from, h); err != nil {
		return nil, err
	}
	return s.store.Open(h)
}

// Run removes what is not needed any more, at once and then every hour, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	for {
		for _, e := range s.store.All() {
			names, err := s.names(ctx, e.Hash)
			if err == nil && len(names) == 0 && time.Since(e.Used) >= s.cfg.Keep {
				_ = s.store.Remove(e.Hash) // it may be in use
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(collectEvery):
		}
	}
}

// names returns the entries of sessions that name an artifact, the latest first.
func (s *Server) names(ctx context.Context, h content.Hash) ([]session.Line, error) {
	if s.cfg.Sessions == nil {
		return nil, nil
	}
	lines, err := s.cfg.Sessions.Search(ctx, h.String(), 0)
	return slices.DeleteFunc(lines, func(l session.Line) bool { return l.Kind != session.Artifact }), err
}

// List describes the artifacts, sorted by hash.
func (s *Server) List(ctx context.Context) (all []*symbiov1.Artifact, err error) {
	for _, e := range s.store.All() {
		names, err := s.names(ctx, e.Hash)
		if err != nil {
			return nil, err
		}
		one := &symbiov1.Artifact{Hash: e.Hash.String(), Size: uint64(e.Size), ContentType: s.ContentType(e.Hash), Created: timestamppb.New(e.Used)}
		for _, l := range names { // the first one last
			_, name, _ := strings.Cut(l.Text, " ")
			one.Name, one.Created = cmp.Or(name, one.Name), timestamppb.New(l.Time)
			if !slices.Contains(one.Sessions, l.Session.ID) {
				one.Sessions = append(one.Sessions, l.Session.ID)
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// ContentType tells what a content is by its beginning, never by what a sender says.
func (s *Server) ContentType(h content.Hash) string {
	f, err := s.store.Open(h)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 512)
	n, _ := io.ReadFull(f, head) // a short content is no error
	return http.DetectContentType(head[:n])
}

// Find returns the artifact whose hash begins with prefix. The error is community.ErrNotFound, or says that
// several begin so.
func (s *Server) Find(prefix string) (content.Hash, error) {
	prefix = strings.TrimPrefix(prefix, tool.ArtifactPrefix)
	found := slices.DeleteFunc(s.store.All(), func(e content.Entry) bool { return !strings.HasPrefix(e.Hash.String(), prefix) })
	if len(found) != 1 || prefix == "" {
		return content.Hash{}, fmt.Errorf("artifact %q: %w: the hashes of %d begin with it, want 1; symbio sessions artifacts list has them", prefix, community.ErrNotFound, len(found))
	}
	return found[0].Hash, nil
}

// Store returns the store of the artifacts.
func (s *Server) Store() *content.Store { return s.store }
