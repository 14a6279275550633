// Package sessions has the sessions of a node: it opens the journal of its agents and deletes what is too old, goes on with
// the tasks that the end of the node interrupted, and lets people at other nodes read and resume them. Package
// agent/session has the journal itself.
package sessions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"symbio/agent/event"
	"symbio/agent/node/config"
	"symbio/agent/session"
	"symbio/internal/agent/session/sqlite"
	"symbio/internal/agent/skilluse"
)

// Config says where the sessions of a node are kept, and for how long.
type Config struct {
	config.Session
	// Node is the name of the node, File the path of its sessions.
	Node, File string
	Logger     *slog.Logger
}

// Sessions are the conversations of a node's agents. It is safe for concurrent use, but for Recover and Close.
type Sessions struct {
	// Journal keeps the conversations; nil = they are not kept.
	Journal *session.Journal
	// Events is the event stream of the node, whose events are kept in the same file.
	Events *event.Stream

	cfg Config
	// interrupted are the tasks that were running when the node ended the last time.
	interrupted []session.Info
}

// Open opens the journal of the node's agents, unless it is switched
// off, and the stream of events. It marks what
// the end of the node interrupted. A damaged file was set aside; the event says
// where it is.
func Open(c Config) (*Sessions, error) {
	s := &Sessions{Events: event.NewStream(c.Node), cfg: c}
	var store session.Store
	switch c.Store {
	case config.StoreOff:
		return s, nil
	case config.StoreMemory:
		memory, err := sqlite.OpenMemory()
		if err != nil {
			return nil, err
		}
		store = memory
	default:
		file, err := sqlite.Open(c.File)
		if err != nil && !errors.Is(err, session.ErrDamaged) {
			return nil, err
		}
		damage := err
		if s.Events, err = event.OpenStream(c.Node, file); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if damage != nil {
			c.Logger.Error("sessions", "err", damage)
			s.Events.Warn(damage.Error(), "the old file can be read with sqlite3 and its command .recover")
		}
		store = file
	}
	s.Journal = session.NewJournal(store, c.Node)
	if err := s.Recover(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Recover marks what the end of the node, or of its former identity,
// interrupted. It is called when no agent runs.
func (s *Sessions) Recover() (err error) {
	if s.Journal == nil {
		return nil
	}
	if s.interrupted, err = s.Journal.Recover(context.Background()); err != nil {
		return fmt.Errorf("sessions: %w", err)
	}
	return nil
}

// Store returns what keeps the sessions; nil if nothing does.
func (s *Sessions) Store() session.Store {
	if s.Journal == nil {
		return nil
	}
	return s.Journal.Store()
}

// Close closes the journal, if there is one.
func (s *Sessions) Close() error {
	if s.Journal == nil {
		return nil
	}
	return s.Journal.Close()
}

// pruneEvery is how often sessions that are too old or too many are deleted.
const pruneEvery = time.Hour

// Prune deletes finished sessions above the limits of the configuration,
// at once and then every hour, until ctx ends.
func (s *Sessions) Prune(ctx context.Context) error {
	c := s.cfg
	if s.Journal == nil || c.Keep == 0 && c.Max == 0 {
		return nil
	}
	for {
		var before time.Time
		if c.Keep > 0 {
			before = time.Now().Add(-time.Duration(c.Keep))
		}
		deleted, err := s.Journal.Prune(ctx, before, int64(c.Max))
		if err = errors.Join(err, s.Events.Prune(ctx, before)); err != nil && ctx.Err() == nil {
			c.Logger.Warn("old sessions or events could not be deleted", "err", err)
		}
		if deleted > 0 {
			c.Logger.Info("deleted old sessions", "sessions", deleted, "keep", c.Keep, "max", c.Max)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pruneEvery):
		}
	}
}

// useWindow is how far back the use of skills counts for the order of a catalog. After that time an
// activation would count a sixteenth.
const useWindow = 28 * 24 * time.Hour

// SkillUses returns a function that returns how much each skill was used lately, by the events that
// the node keeps; nil if it keeps none.
func (s *Sessions) SkillUses() func() map[string]float64 {
	file, ok := s.Store().(*sqlite.Store)
	if !ok {
		return nil
	}
	return func() map[string]float64 {
		now := time.Now()
		events, err := file.EventsOf(context.Background(), now.Add(-useWindow), "skill")
		if err != nil {
			s.cfg.Logger.Warn("use of skills not known", "err", err)
		}
		return skilluse.Scores(events, now)
	}
}
