package share

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"sync"
	"time"

	"symbio/skills"
)

// The names of the capabilities between nodes.
const (
	ListCapability  = "skills.list"
	FetchCapability = "skills.fetch"
)

const (
	// listPage is how many bytes of names and descriptions a page of the list has, about: it fits into the
	// smallest message that a node is likely to be configured with.
	listPage = 128 << 10
	// maxPiece is how much of the content one answer carries: with base64 and JSON around it less than a
	// node's usual limit of 1 MiB, and few enough answers for its limit of calls.
	maxPiece = 512 << 10
	// minPiece is the least that an answer may carry, unless it is the last: 8 MiB are then 512 calls at most.
	minPiece = 16 << 10
	// kept is how many packs are kept in memory, of at most MaxSkill each, and fresh for how long one is
	// handed out without another look at the disk: a fetch is a few calls in a row.
	kept  = 4
	fresh = 10 * time.Second
)

// Config sets up a Server. The zero value shares nothing.
type Config struct {
	// Catalog returns the skills there are; only those on this machine's disk that came from no other node
	// are shared. nil = none.
	Catalog func(ctx context.Context) (skills.Catalog, error)
	// All shares all of them, else Names says which.
	All   bool
	Names []string
	// MaxMessage is how many bytes an answer may have. Default 1 MiB, the community's own.
	MaxMessage int
}

// Server hands out skills. Its methods may be called by any number of goroutines; they read the disk, one
// skill at a time.
type Server struct {
	cfg Config

	mu    sync.Mutex
	packs []packed // the newest first; guarded by mu
}

type packed struct {
	pack *Pack
	hash string
	at   time.Time
}

// NewServer returns a Server.
func NewServer(cfg Config) *Server {
	cfg.MaxMessage = cmp.Or(cfg.MaxMessage, 1<<20)
	return &Server{cfg: cfg}
}

// ListRequest asks which skills a node shares.
type ListRequest struct {
	After string `json:"after,omitempty" jsonschema:"the name after which the list goes on; absent = from its beginning"`
}

// Offered is a skill that a node shares.
type Offered struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// ListReply is a page of them, by name. More says that the list goes on.
type ListReply struct {
	Skills []Offered `json:"skills"`
	More   bool      `json:"more"`
}

// FetchRequest asks for a skill's manifest, or with its hash for a piece of its content: that of all files one
// after the other, in the order of the manifest.
type FetchRequest struct {
	Name   string `json:"name" jsonschema:"the name of the skill"`
	Hash   string `json:"hash,omitempty" jsonschema:"the SHA-256 of the manifest, for a piece of the content; absent = the manifest"`
	Offset int64  `json:"offset,omitempty" jsonschema:"where the piece begins, in bytes"`
	Max    int64  `json:"max,omitempty" jsonschema:"how many bytes the piece may have; absent = as many as the node sends at a time"`
}

// FetchReply is the manifest or a piece.
type FetchReply struct {
	Manifest string `json:"manifest,omitempty"`
	Data     string `json:"data,omitempty" jsonschema:"the piece, in base64"`
}

// shared are the skills that are handed out, by name; of several of one name the first in precedence.
func (s *Server) shared(ctx context.Context) ([]skills.Skill, error) {
	if s.cfg.Catalog == nil {
		return nil, nil
	}
	c, err := s.cfg.Catalog(ctx)
	if err != nil {
		return nil, err
	}
	var all []skills.Skill
	for _, one := range c.Skills {
		if one.Scope == skills.ScopeBundled || one.Scope == skills.ScopePeer || !s.cfg.All && !slices.Contains(s.cfg.Names, one.Name) {
			continue
		}
		if !slices.ContainsFunc(all, func(other skills.Skill) bool { return other.Name == one.Name }) {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b skills.Skill) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// List answers ListCapability.
func (s *Server) List(ctx context.Context, r ListRequest) (ListReply, error) {
	all, err := s.shared(ctx)
	reply := ListReply{Skills: []Offered{}}
	size := 0
	for _, one := range all {
		if one.Name <= r.After {
			continue
		}
		// Six bytes for a character are the most that JSON makes of one.
		if size += 6*(len(one.Name)+len(one.Description)) + 64; size > min(listPage, s.cfg.MaxMessage) && len(reply.Skills) > 0 {
			reply.More = true
			break
		}
		reply.Skills = append(reply.Skills, Offered{one.Name, one.Description})
	}
	return reply, err
}

// Fetch answers FetchCapability. ErrNotShared, or why a skill cannot be carried (Read).
func (s *Server) Fetch(ctx context.Context, r FetchRequest) (FetchReply, error) {
	all, err := s.shared(ctx)
	if err != nil {
		return FetchReply{}, err
	}
	i := slices.IndexFunc(all, func(one skills.Skill) bool { return one.Name == r.Name })
	if i < 0 {
		return FetchReply{}, fmt.Errorf("%w: %q", ErrNotShared, clip(r.Name))
	}
	p, err := s.pack(all[i], r.Hash)
	if err != nil {
		return FetchReply{}, err
	}
	if r.Hash == "" {
		return FetchReply{Manifest: string(p.Encode())}, nil
	}
	left := int64(len(p.content)) - r.Offset
	if r.Offset < 0 || left < 0 || r.Max < 0 {
		return FetchReply{}, fmt.Errorf("%w: %q has no such piece", ErrNotShared, clip(r.Name))
	}
	piece := min(left, maxPiece, int64(s.cfg.MaxMessage-1024)/4*3)
	if r.Max > 0 {
		piece = min(piece, r.Max)
	}
	data := p.content[r.Offset : r.Offset+max(piece, 0)]
	return FetchReply{Data: base64.StdEncoding.EncodeToString(data)}, nil
}

// pack returns the skill as it is now, or as it was not long ago; with a hash the one that has it.
func (s *Server) pack(skill skills.Skill, hash string) (*Pack, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.packs {
		if k.pack.Name == skill.Name && (k.hash == hash || hash == "" && time.Since(k.at) < fresh) {
			return k.pack, nil
		}
	}
	p, err := Read(skill.Dir)
	if err != nil {
		return nil, err
	}
	now := p.Hash()
	s.packs = slices.DeleteFunc(s.packs, func(k packed) bool { return k.hash == now })
	s.packs = slices.Insert(s.packs, 0, packed{p, now, time.Now()})
	s.packs = s.packs[:min(len(s.packs), kept)]
	if hash != "" && hash != now {
		return nil, fmt.Errorf("%w: %q has changed; fetch it anew", ErrNotShared, skill.Name)
	}
	return p, nil
}
