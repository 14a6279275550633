package sessioncmd

import (
	"context"
	"slices"

	"symbio/agent/session"
	"symbio/agent/session/sqlite"
	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
)

// filesReader returns a reader of the sessions of this user's nodes on this machine.
func filesReader(env *command.Env) reader {
	return func(ctx context.Context, q session.Query) (all []session.Line, err error) {
		switch q.Op {
		case session.OpShow:
			return all, env.OnSession(ctx, q.ID, func(s *sqlite.Store, i session.Info) error {
				all, err = session.Query{Op: session.OpShow, ID: i.ID}.Run(ctx, s)
				if len(all) > 0 {
					all[0].Session = &i // with its current state
				}
				return err
			})
		case session.OpSearch:
			err = env.OnSessionStores(func(_ string, s *sqlite.Store) error {
				found, err := q.Run(ctx, s)
				all = append(all, found...)
				return err
			})
			slices.SortStableFunc(all, func(a, b session.Line) int { return b.Session.Updated.Compare(a.Session.Updated) })
			return all[:min(len(all), q.Limit)], err
		}
		found, err := env.Sessions(ctx, q.Filter())
		return command.Map(found, func(i session.Info) session.Line { return session.Line{Session: &i} }), err
	}
}

// agentsOf returns the ids of the agents that live on a node; none if the node does not run.
func agentsOf(ctx context.Context, env *command.Env, node string) (ids []string, err error) {
	state, err := env.State()
	if err != nil {
		return nil, err
	}
	if running, err := state.Running(); err != nil || !slices.Contains(running, node) {
		return nil, err
	}
	conn, err := state.Node(node).Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reply, err := symbiov1.NewControlClient(conn).Members(ctx, &symbiov1.MembersRequest{})
	return command.Map(reply.GetMembers(), (*symbiov1.LocatedMember).GetId), err
}
