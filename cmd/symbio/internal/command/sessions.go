package command

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"symbio/agent/session"
	"symbio/agent/session/sqlite"
)

// Sessions returns the sessions that the nodes of this user have kept, running or not, the latest
// first; with --node those of that node. Node in each is the node whose file has it. A file that
// cannot be read is reported on standard error, because it must not hide the others.
func (env *Env) Sessions(ctx context.Context, f session.Filter) ([]session.Info, error) {
	state, err := env.State()
	if err != nil {
		return nil, err
	}
	names := state.WithSessions()
	if env.Node != "" {
		names = []string{env.Node}
	}
	var all []session.Info
	for _, name := range names {
		found, err := readSessions(ctx, state.Node(name).Sessions(), f)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			env.Notef("note: the sessions of node %s are not listed: %v", name, err)
		}
		for _, s := range found {
			s.Node = name
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b session.Info) int { return b.Updated.Compare(a.Updated) })
	return all, nil
}

// readSessions reads the sessions in one file. A node may write it meanwhile.
func readSessions(ctx context.Context, file string, f session.Filter) ([]session.Info, error) {
	store, err := sqlite.OpenReader(file)
	if err != nil {
		return nil, err
	}
	found, err := store.Sessions(ctx, f)
	return found, errors.Join(err, store.Close())
}
