package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/node/config"
	"symbio/agent/session"
	"symbio/agent/session/sqlite"
)

// openSessions opens the journal of the node's agents, unless it is switched
// off, and the stream of events, which are kept in the same file. It marks what
// the end of the node interrupted. A damaged file was set aside; the event says
// where it is.
func (n *Node) openSessions() error {
	var store session.Store
	n.events = event.NewStream(n.name)
	switch n.cfg.Settings.Session.Store {
	case config.StoreOff:
		return nil
	case config.StoreMemory:
		memory, err := sqlite.OpenMemory()
		if err != nil {
			return err
		}
		store = memory
	default:
		file, err := sqlite.Open(n.kept.Sessions())
		if err != nil && !errors.Is(err, session.ErrDamaged) {
			return err
		}
		damage := err
		if n.events, err = event.OpenStream(n.name, file); err != nil {
			return errors.Join(err, file.Close())
		}
		if damage != nil {
			n.cfg.Logger.Error("sessions", "err", damage)
			n.events.Warn(event.Warning{Why: damage.Error(), Mend: "the old file can be read with sqlite3 and its command .recover"})
		}
		store = file
	}
	n.sessions = session.NewJournal(store, n.name)
	if err := n.recoverSessions(); err != nil {
		return errors.Join(err, n.closeSessions())
	}
	return nil
}

// recoverSessions marks what the end of the node, or of its former identity,
// interrupted. It is called when no agent runs.
func (n *Node) recoverSessions() (err error) {
	if n.sessions == nil {
		return nil
	}
	if n.interrupted, err = n.sessions.Recover(context.Background()); err != nil {
		return fmt.Errorf("sessions: %w", err)
	}
	return nil
}

// sessionStore returns what keeps the sessions; nil if nothing does.
func (n *Node) sessionStore() session.Store {
	if n.sessions == nil {
		return nil
	}
	return n.sessions.Store()
}

// suspendSessions keeps the tasks that the end of the node breaks off from being
// recorded as ended; see session.Journal.Suspend.
func (n *Node) suspendSessions() {
	if n.sessions != nil {
		n.sessions.Suspend()
	}
}

// closeSessions closes the journal, if there is one.
func (n *Node) closeSessions() error {
	if n.sessions == nil {
		return nil
	}
	return n.sessions.Close()
}

// pruneEvery is how often sessions that are too old or too many are deleted.
const pruneEvery = time.Hour

// pruneSessions deletes finished sessions above the limits of the configuration,
// at once and then every hour, until ctx ends.
func (n *Node) pruneSessions(ctx context.Context) error {
	s := n.cfg.Settings.Session
	if n.sessions == nil || s.Keep == 0 && s.Max == 0 {
		return nil
	}
	for {
		var before time.Time
		if s.Keep > 0 {
			before = time.Now().Add(-time.Duration(s.Keep))
		}
		deleted, err := n.sessions.Prune(ctx, before, int64(s.Max))
		if err = errors.Join(err, n.events.Prune(ctx, before)); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Warn("old sessions or events could not be deleted", "err", err)
		}
		if deleted > 0 {
			n.cfg.Logger.Info("deleted old sessions", "sessions", deleted, "keep", s.Keep, "max", s.Max)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pruneEvery):
		}
	}
}

// resumeOrder returns the order that goes on with a session, with the definition,
// the model and the limits that it had.
func (p *parts) resumeOrder(ctx context.Context, id string) (o agent.Order, err error) {
	if p.sessions == nil {
		return o, agent.ErrNoSessions
	}
	all, err := p.sessions.Store().Sessions(ctx, session.Filter{ID: id})
	if err != nil {
		return o, err
	}
	if o.Session, err = session.Find(all, id); err != nil {
		return o, err
	}
	if o.Session.Parent != "" {
		return o, fmt.Errorf("session %s belongs to a sub-agent and goes on with its root; resume %s", o.Session.ID, o.Session.Root)
	}
	if o.Definition, err = p.definition(o.Session.Agent); err != nil {
		return o, err
	}
	if o.Session.Model != "" {
		if o.Model, err = p.models.Open(ctx, o.Session.Model); err != nil {
			return o, err
		}
	}
	if agent.Mode(o.Session.Mode) == agent.ModePlan { // it only denies; edits is for as long as the person is there
		o.Mode = agent.ModePlan
	}
	o.Limits, o.Name = o.Session.Limits, o.Session.Name
	return o, nil
}
