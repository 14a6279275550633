package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"symbio/agent/session"
	statedir "symbio/internal/agent/node/state"
	"symbio/internal/agent/session/sqlite"
)

// Sessions are the sessions that the nodes of this user have kept, running or not; with --node those of
// that node.
type Sessions struct {
	state statedir.Dir
	node  string // --node
	notef func(format string, args ...any)
}

// Sessions returns the sessions that a command may read.
func (env *Env) Sessions() Sessions { return Sessions{env.State(), env.Node, env.Notef} }

// List returns the sessions, the latest first. Node in each is the node whose file has it. Sessions that
// are Working in the file of a node that does not run are Interrupted or Lost; f.States and f.Limit
// select them so.
func (k Sessions) List(ctx context.Context, f session.Filter) ([]session.Info, error) {
	running, err := k.state.Running()
	if err != nil {
		return nil, err
	}
	of := f
	if len(f.States) > 0 {
		of.States, of.Limit = append([]session.State{session.Working}, f.States...), 0
	}
	var all []session.Info
	err = k.Each(func(node string, store *sqlite.Store) error {
		found, err := store.Sessions(ctx, of)
		for _, s := range found {
			s.Node = node
			if s.State == session.Working && !slices.Contains(running, node) {
				s.State = s.Recovered()
			}
			if len(f.States) == 0 || slices.Contains(f.States, s.State) {
				all = append(all, s)
			}
		}
		return err
	})
	slices.SortStableFunc(all, func(a, b session.Info) int { return b.Updated.Compare(a.Updated) })
	if f.Limit > 0 {
		all = all[:min(f.Limit, len(all))]
	}
	return all, err
}

// Begun returns the sessions that a person began in a directory, the latest first; "" = in any. Agents of
// the configuration, and agents that work for other nodes or behind capabilities, have sessions of
// their own, which are left out.
func (k Sessions) Begun(ctx context.Context, dir string) ([]session.Info, error) {
	dirs := []string{dir}
	if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir && dir != "" {
		dirs = append(dirs, real)
	}
	var all []session.Info
	for _, d := range dirs {
		found, err := k.List(ctx, session.Filter{Dir: d, Roots: true})
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	all = slices.DeleteFunc(all, func(i session.Info) bool { return i.Title == "" || i.Keep || i.Requester != "" })
	slices.SortStableFunc(all, func(a, b session.Info) int { return b.Updated.Compare(a.Updated) })
	return all, nil
}

// Each calls do with the sessions of each node of this user, or with the sessions of the node that
// --node names. A node may write to its own meanwhile. With several nodes an error is reported on
// standard error, because it must not hide the sessions of the others.
func (k Sessions) Each(do func(node string, store *sqlite.Store) error) error {
	if k.node != "" {
		return k.Of(k.node, do)
	}
	for _, name := range k.state.WithSessions() {
		if err := k.Of(name, do); err != nil {
			k.notef("note: the sessions of node %s are left out: %s", name, err.Error())
		}
	}
	return nil
}

// Of calls do with the sessions of one node. The exit status of its error is 4 if the node
// has kept none.
func (k Sessions) Of(node string, do func(node string, store *sqlite.Store) error) error {
	store, err := sqlite.OpenReader(k.state.Node(node).Sessions())
	if errors.Is(err, fs.ErrNotExist) {
		return NotFound(fmt.Errorf("node %q has kept no sessions on this machine", node))
	}
	if err != nil {
		return err
	}
	return errors.Join(do(node, store), store.Close())
}

// Find returns the session that has an id or the beginning of one. The exit status of its error is
// 4 if there is none, and 2 if there are several.
func (k Sessions) Find(ctx context.Context, id string) (session.Info, error) {
	all, err := k.List(ctx, session.Filter{})
	if err != nil {
		return session.Info{}, err
	}
	i, err := session.Find(all, id)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return i, NotFound(err)
	case err != nil:
		return i, Usage(err)
	}
	return i, nil
}

// Open calls do with the session that Find finds, and the store that has it.
func (k Sessions) Open(ctx context.Context, id string, do func(*sqlite.Store, session.Info) error) error {
	i, err := k.Find(ctx, id)
	if err != nil {
		return err
	}
	return k.Of(i.Node, func(_ string, s *sqlite.Store) error { return do(s, i) })
}
