package skills

import (
	"context"
)

// ListRequest asks for the skills of a working directory (skills-codelia.md 10.1, skills.list).
type ListRequest struct {
	Dir         string `json:"cwd,omitempty"` // "" = the registry's own
	ForceReload bool   `json:"force_reload,omitempty"`
}

// ListReply are the skills and what is wrong with others.
type ListReply struct {
	Skills []Skill   `json:"skills"`
	Errors []Problem `json:"errors"`
}

// mostElsewhere bounds the catalogs of other directories that are kept; a new one takes the place of all.
const mostElsewhere = 32

type list struct{ ListRequest }

// List returns the skills of a working directory. Of another one than the registry's, they are looked for
// where Config.RootsFor says, once, and again with ForceReload or after a Rescan. Nobody can take them
// here: a skill is taken by agents that work where it is found.
func (r *Registry) List(ctx context.Context, l ListRequest) (ListReply, error) {
	return ask[ListReply](ctx, r, list{l})
}

func (s *shelf) list(ctx context.Context, l list) (ListReply, error) {
	if l.Dir == "" {
		if l.ForceReload {
			if err := s.rescan(ctx, s.scanner.Scan, "reloaded"); err != nil {
				return ListReply{}, err
			}
		}
		c := s.catalog.snapshot()
		return ListReply{c.Skills, c.Errors}, nil
	}
	c, known := s.elsewhere[l.Dir]
	if !known || l.ForceReload {
		cfg := s.cfg
		cfg.Roots = s.cfg.RootsFor(l.Dir)
		var err error
		if c, err = Scan(ctx, cfg); err != nil {
			return ListReply{}, err
		}
		if len(s.elsewhere) >= mostElsewhere {
			clear(s.elsewhere)
		}
		s.elsewhere[l.Dir] = c
	}
	c = c.snapshot()
	return ListReply{c.Skills, c.Errors}, nil
}
