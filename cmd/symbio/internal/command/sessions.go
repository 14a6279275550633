package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"symbio/agent/session"
	"symbio/internal/agent/session/sqlite"
)

// Sessions returns the sessions that the nodes of this user have kept, running or not, the latest
// first; with --node the sessions of that node. Node in each is the node whose file has it. Sessions that
// are Working in the file of a node that does not run are Interrupted or Lost; f.States and f.Limit
// select them so.
func (env *Env) Sessions(ctx context.Context, f session.Filter) ([]session.Info, error) {
	state, err := env.State()
	if err != nil {
		return nil, err
	}
	running, err := state.Running()
	if err != nil {
		return nil, err
	}
	of := f
	if len(f.States) > 0 {
		of.States, of.Limit = append([]session.State{session.Working}, f.States...), 0
	}
	var all []session.Info
	err = env.OnSessionStores(func(node string, store *sqlite.Store) error {
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

// OnSessionStores calls do with the sessions of each node of this user, or with the sessions of the node that
// --node names. A node may write to its own meanwhile. With several nodes an error is reported on
// standard error, because it must not hide the sessions of the others.
func (env *Env) OnSessionStores(do func(node string, store *sqlite.Store) error) error {
	state, err := env.State()
	if err != nil {
		return err
	}
	if env.Node != "" {
		return env.OnSessionStore(env.Node, do)
	}
	for _, name := range state.WithSessions() {
		if err := env.OnSessionStore(name, do); err != nil {
			env.Notef("note: the sessions of node %s are left out: %s", name, err.Error())
		}
	}
	return nil
}

// OnSessionStore calls do with the sessions of one node. The exit status of its error is 4 if the node
// has kept none.
func (env *Env) OnSessionStore(node string, do func(node string, store *sqlite.Store) error) error {
	state, err := env.State()
	if err != nil {
		return err
	}
	store, err := sqlite.OpenReader(state.Node(node).Sessions())
	if errors.Is(err, fs.ErrNotExist) {
		return NotFound(fmt.Errorf("node %q has kept no sessions on this machine", node))
	}
	if err != nil {
		return err
	}
	return errors.Join(do(node, store), store.Close())
}

// FindSession returns the session that has an id or the beginning of one. The exit status of its error is
// 4 if there is none, and 2 if there are several.
func FindSession(ctx context.Context, env *Env, id string) (session.Info, error) {
	all, err := env.Sessions(ctx, session.Filter{})
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

// OnSession calls do with the session that FindSession finds, and the store that has it.
func (env *Env) OnSession(ctx context.Context, id string, do func(*sqlite.Store, session.Info) error) error {
	i, err := FindSession(ctx, env, id)
	if err != nil {
		return err
	}
	return env.OnSessionStore(i.Node, func(_ string, s *sqlite.Store) error { return do(s, i) })
}
