package sessioncmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/agent/node/config"
	"symbio/agent/session"
	"symbio/agent/session/sqlite"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
)

// changeCommand returns a command that calls do with each session that ids selects from the
// arguments, and prints the session that do returns.
func changeCommand(env *command.Env, use string, args cobra.PositionalArgs, ids func([]string) []string, do func(ctx context.Context, s *sqlite.Store, i session.Info, args []string) (session.Info, error)) *cobra.Command {
	return &cobra.Command{Use: use, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
		for _, id := range ids(args) {
			err := env.OnSession(cmd.Context(), id, func(s *sqlite.Store, i session.Info) error {
				i, err := do(cmd.Context(), s, i, args)
				switch {
				case err != nil:
					return err
				case env.JSON:
					return env.PrintLine(i)
				}
				return env.Printf("%s\t%s\n", i.ID, i.Title)
			})
			if err != nil {
				return err
			}
		}
		return nil
	}}
}

// first selects the first argument, every all of them.
func first(args []string) []string { return args[:1] }
func every(args []string) []string { return args }

// cmdRename returns the command sessions rename.
func cmdRename(env *command.Env) *cobra.Command {
	return changeCommand(env, "rename ID TITLE", command.ExactArgs(2), first, func(ctx context.Context, s *sqlite.Store, i session.Info, args []string) (session.Info, error) {
		if i.Title = strings.TrimSpace(args[1]); i.Title == "" {
			return i, command.Usage(errors.New("the title is empty"))
		}
		return i, s.Rename(ctx, i.ID, i.Title)
	})
}

// cmdFork returns the command sessions fork.
func cmdFork(env *command.Env) *cobra.Command {
	var turn int
	cmd := changeCommand(env, "fork ID", command.ExactArgs(1), first, func(ctx context.Context, s *sqlite.Store, i session.Info, _ []string) (session.Info, error) {
		return session.Fork(ctx, s, i, turn)
	})
	cmd.Flags().IntVar(&turn, "turn", 0, "number `N` of the last exchange to take over, as symbio sessions show prints it (default the last one that ended)")
	return cmd
}

// cmdDelete returns the command sessions delete. It deletes the sessions of sub-agents with that of
// their root.
func cmdDelete(env *command.Env) *cobra.Command {
	var force bool
	cmd := changeCommand(env, "delete ID...", command.MinArgs(1), every, func(ctx context.Context, s *sqlite.Store, i session.Info, _ []string) (session.Info, error) {
		agents, err := agentsOf(ctx, env, i.Node)
		switch {
		case err != nil:
			return i, err
		case slices.Contains(agents, i.Member):
			return i, fmt.Errorf("delete session %s: %w on node %s; end its conversation first", i.ID, session.ErrInUse, i.Node)
		case i.Open && !force:
			return i, fmt.Errorf("delete session %s: its task is unfinished: go on with symbio chat --resume %s, or write --force", i.ID, i.ID)
		}
		tree, err := s.Sessions(ctx, session.Filter{Root: i.ID})
		if err != nil {
			return i, err
		}
		if i.Parent != "" {
			tree = []session.Info{i}
		}
		return i, s.Delete(ctx, idsOf(tree)...)
	})
	cmd.Flags().BoolVar(&force, "force", false, "delete a session with an unfinished task, too")
	return cmd
}

// cmdPrune returns the command sessions prune. It deletes nothing that can go on or that an agent has.
func cmdPrune(env *command.Env) *cobra.Command {
	var older config.Age
	var most config.Size
	var yes bool
	cmd := &cobra.Command{Use: "prune", Args: command.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		switch {
		case older == 0 && most == 0:
			return command.Usage(errors.New("write --older, --max or both, such as --older 30d"))
		case !yes && !env.InIsTerminal:
			return command.Usage(errors.New("the deletion needs a yes, and there is no terminal to ask on; write --yes"))
		case !yes:
			question := fmt.Sprintf("Delete the finished sessions that are older than %s or above %s?", older, most)
			question = strings.NewReplacer("older than 0s or ", "", " or above 0", "").Replace(question)
			if ok, err := env.Confirmer()(cmd.Context(), question); !ok || err != nil {
				return err
			}
		}
		deleted, freed, err := prune(cmd.Context(), env, older, most)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.PrintJSON(map[string]int64{"deleted": int64(deleted), "freed": freed})
		}
		return env.Printf("%s deleted, %.1f MiB freed\n", chat.Plural(deleted, "session"), float64(freed)/(1<<20))
	}}
	cmd.Flags().TextVar(&older, "older", config.Age(0), "delete what was not used for this `AGE`, such as 30d or 12h")
	cmd.Flags().TextVar(&most, "max", config.Size(0), "delete the oldest ones while a node has more than this `SIZE`, such as 1GiB")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// prune deletes sessions of all nodes, and returns their number and how many bytes that freed.
func prune(ctx context.Context, env *command.Env, older config.Age, most config.Size) (deleted int, freed int64, err error) {
	var before time.Time
	if older > 0 {
		before = time.Now().Add(-time.Duration(older))
	}
	err = env.OnSessionStores(func(node string, s *sqlite.Store) error {
		agents, err := agentsOf(ctx, env, node)
		if err != nil {
			return err
		}
		all, err := s.Sessions(ctx, session.Filter{})
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(i session.Info) bool { return !slices.Contains(agents, i.Member) })
		was, err := s.Size(ctx)
		if err != nil {
			return err
		}
		n, err := s.Prune(ctx, before, int64(most), idsOf(all)...)
		if err != nil {
			return err
		}
		is, err := s.Size(ctx)
		deleted, freed = deleted+n, freed+was-is
		return err
	})
	return deleted, freed, err
}

// idsOf returns the ids of sessions.
func idsOf(all []session.Info) []string {
	return command.Map(all, func(i session.Info) string { return i.ID })
}
