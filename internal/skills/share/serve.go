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

// The names of the capabilities between nodes. Changing one breaks sharing with older nodes.
const (
	// ListCapability takes a ListRequest and returns a ListReply.
	ListCapability = "skills.list"
	// FetchCapability takes a FetchRequest and returns a FetchReply.
	FetchCapability = "skills.fetch"
)

const (
	// listPage limits a page of the list, in bytes: it fits into the smallest message limit that a
	// node is likely to have.
	listPage = 128 << 10
	// maxPiece limits the content in one answer. With base64 and JSON it stays below the usual
	// limit of 1 MiB, and a whole skill needs few enough calls for the other node's limit.
	maxPiece = 512 << 10
	// minPiece is the least content of an answer other than the last. 8 MiB then take at most 512
	// calls.
	minPiece = 16 << 10
	// maxCachedPacks limits the packs in memory, each of at most MaxSkill. cacheTTL is how long one
	// is served without another look at the disk: a fetch is a few calls in a row.
	maxCachedPacks = 4
	cacheTTL       = 10 * time.Second
)

// Config sets up a Server. The zero value shares nothing.
type Config struct {
	// Catalog returns the skills of this node. The server shares only those on this machine's disk
	// that did not come from another node. nil: none.
	Catalog func(ctx context.Context) (skills.Catalog, error)
	// All shares all of them. Otherwise Names lists the skills to share.
	All   bool
	Names []string
	// MaxMessage limits an answer, in bytes. Default 1 MiB, as in package community.
	MaxMessage int
}

// Server answers the list and fetch calls of other nodes. Any number of goroutines may call its
// methods. They read the disk, one skill at a time.
type Server struct {
	cfg Config

	mu sync.Mutex
	// packs are the packs in memory, the newest first, at most maxCachedPacks; guarded by mu.
	packs []cachedPack
}

// cachedPack is a pack with the time of its read.
type cachedPack struct {
	pack *Pack
	// hash is the pack's; it is kept because it costs an encoding of the manifest.
	hash string
	// at is when the disk was read.
	at time.Time
}

// NewServer returns a Server with the defaults filled in.
func NewServer(cfg Config) *Server {
	cfg.MaxMessage = cmp.Or(cfg.MaxMessage, 1<<20)
	return &Server{cfg: cfg}
}

// ListRequest asks for the skills that a node shares.
type ListRequest struct {
	// After is the last name of the page before; "" = the first page.
	After string `json:"after,omitempty" jsonschema:"the name after which the list goes on; absent = from its beginning"`
}

// SkillSummary describes one shared skill in a list.
type SkillSummary struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// ListReply is one page of the list, ordered by name. More is true if there is another page.
type ListReply struct {
	Skills []SkillSummary `json:"skills"`
	More   bool           `json:"more"`
}

// FetchRequest asks for a skill's manifest, or, with its hash, for a piece of its content. The
// content has all files one after the other, in the order of the manifest.
type FetchRequest struct {
	Name   string `json:"name" jsonschema:"the name of the skill"`
	Hash   string `json:"hash,omitempty" jsonschema:"the SHA-256 of the manifest, for a piece of the content; absent = the manifest"`
	Offset int64  `json:"offset,omitempty" jsonschema:"where the piece begins, in bytes"`
	Max    int64  `json:"max,omitempty" jsonschema:"how many bytes the piece may have; absent = as many as the node sends at a time"`
}

// FetchReply is the manifest or a piece of the content.
type FetchReply struct {
	// Manifest is the text that Manifest.Encode returns, in the answer to a request without a hash.
	Manifest string `json:"manifest,omitempty"`
	Data     string `json:"data,omitempty" jsonschema:"the piece, in base64"`
}

// shared returns the skills to share, by name. Of several with one name it is the first by
// precedence. Bundled skills, which are not on the disk, and skills of other nodes are left out.
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
	slices.SortStableFunc(all, func(a, b skills.Skill) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// List handles ListCapability. It returns the skills after r.After, as many as fit into a page. The
// error comes from Config.Catalog.
func (s *Server) List(ctx context.Context, r ListRequest) (ListReply, error) {
	all, err := s.shared(ctx)
	reply := ListReply{Skills: []SkillSummary{}}
	size := 0
	for _, one := range all {
		if one.Name <= r.After {
			continue
		}
		// JSON makes at most six bytes of one, as in \u0000. One skill always fits, so that the
		// list advances.
		if size += 6*(len(one.Name)+len(one.Description)) + 64; size > min(listPage, s.cfg.MaxMessage) && len(reply.Skills) > 0 {
			reply.More = true
			break
		}
		reply.Skills = append(reply.Skills, SkillSummary{one.Name, one.Description})
	}
	return reply, err
}

// Fetch handles FetchCapability. Without a hash it returns the manifest, else a piece of the
// content of exactly that version. Errors: ErrNotShared, the error of Config.Catalog, and the errors of Read
// for a skill that cannot be shared.
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
	// base64 makes four bytes of three; 1024 bytes are left for the rest of the message.
	piece := min(left, maxPiece, int64(s.cfg.MaxMessage-1024)/4*3)
	if r.Max > 0 {
		piece = min(piece, r.Max)
	}
	data := p.content[r.Offset : r.Offset+max(piece, 0)]
	return FetchReply{Data: base64.StdEncoding.EncodeToString(data)}, nil
}

// pack returns the skill as it was at most cacheTTL ago. With a hash it returns the pack with that
// hash, so that a fetch that has begun can finish after the files have changed. It holds the lock
// during the read, so that many requests cost one read.
func (s *Server) pack(skill skills.Skill, hash string) (*Pack, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.packs {
		if k.pack.Name == skill.Name && (k.hash == hash || hash == "" && time.Since(k.at) < cacheTTL) {
			return k.pack, nil
		}
	}
	p, err := Read(skill.Dir)
	if err != nil {
		return nil, err
	}
	now := p.Hash()
	// The same version read again replaces the older entry, which renews its time.
	s.packs = slices.DeleteFunc(s.packs, func(k cachedPack) bool { return k.hash == now })
	s.packs = slices.Insert(s.packs, 0, cachedPack{p, now, time.Now()})
	s.packs = s.packs[:min(len(s.packs), maxCachedPacks)]
	if hash != "" && hash != now {
		return nil, fmt.Errorf("%w: %q has changed; fetch it anew", ErrNotShared, skill.Name)
	}
	return p, nil
}
