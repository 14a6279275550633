package sessioncmd

import (
	"context"
	"slices"

	"symbio/agent/session"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/session/sqlite"
)

// filesReader returns a reader of the sessions of this user's nodes on this machine.
func filesReader(env *command.Env) reader {
	return func(ctx context.Context, q session.Query) (all []session.Line, err error) {
		switch q.Op {
		case session.OpShow:
			return all, env.Sessions().Open(ctx, q.ID, func(s *sqlite.Store, i session.Info) error {
				all, err = session.Query{Op: session.OpShow, ID: i.ID}.Run(ctx, s)
				if len(all) > 0 {
					all[0].Session = &i // with its current state
				}
				return err
			})
		case session.OpSearch:
			err = env.Sessions().Each(func(_ string, s *sqlite.Store) error {
				found, err := q.Run(ctx, s)
				all = append(all, found...)
				return err
			})
			slices.SortStableFunc(all, func(a, b session.Line) int { return b.Session.Updated.Compare(a.Session.Updated) })
			return all[:min(len(all), q.Limit)], err
		}
		found, err := env.Sessions().List(ctx, q.Filter())
		return command.Map(found, func(i session.Info) session.Line { return session.Line{Session: &i} }), err
	}
}
