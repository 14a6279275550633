package sessioncmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/agent/node/config"
	"symbio/agent/session"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/session/sqlite"
	"symbio/internal/security/visible"
)

// changeCommand returns a command that calls do with each session that its first n arguments name, and
// prints the session that do returns.
func changeCommand(env *command.Env, use string, args cobra.PositionalArgs, n int,
	do func(ctx context.Context, s *sqlite.Store, i session.Info, args []string) (session.Info, error)) *cobra.Command {
	return &cobra.Command{Use: use, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
		for _, id := range args[:min(n, len(args))] {
			err := env.Sessions().Open(cmd.Context(), id, func(s *sqlite.Store, i session.Info) error {
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

// cmdRename returns the command sessions rename.
func cmdRename(env *command.Env) *cobra.Command {
	return changeCommand(env, "rename ID TITLE", command.ExactArgs(2), 1,
		func(ctx context.Context, s *sqlite.Store, i session.Info, args []string) (session.Info, error) {
			if i.Title = strings.TrimSpace(args[1]); i.Title == "" {
				return i, command.Usage(errors.New("the title is empty"))
			}
			return i, s.Rename(ctx, i.ID, i.Title)
		})
}

// cmdFork returns the command sessions fork.
func cmdFork(env *command.Env) *cobra.Command {
	var turn int
	cmd := changeCommand(env, "fork ID", command.ExactArgs(1), 1, func(ctx context.Context, s *sqlite.Store, i session.Info, _ []string) (session.Info, error) {
		return session.Fork(ctx, s, i, turn)
	})
	cmd.Flags().IntVar(&turn, "turn", 0, "number `N` of the last exchange to take over, as symbio sessions show prints it (default the last one that ended)")
	return cmd
}

// cmdDelete returns the command sessions delete. It deletes the sessions of sub-agents with the session of
// their root.
func cmdDelete(env *command.Env) *cobra.Command {
	var force bool
	cmd := changeCommand(env, "delete ID...", command.MinArgs(1), math.MaxInt,
		func(ctx context.Context, s *sqlite.Store, i session.Info, _ []string) (session.Info, error) {
			err := session.DeleteTree(ctx, s, i, force)
			if errors.Is(err, session.ErrUnfinished) {
				err = fmt.Errorf("%w: go on with symbio chat --resume %s, or write --force", err, i.ID)
			}
			return i, err
		})
	cmd.Flags().BoolVar(&force, "force", false, "delete a session with an unfinished task, too")
	return cmd
}

// cmdPrune returns the command sessions prune. It deletes nothing that can go on or that is kept.
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
			if ok, err := env.Confirm(cmd.Context(), question); !ok || err != nil {
				return err
			}
		}
		var before time.Time
		if older > 0 {
			before = time.Now().Add(-time.Duration(older))
		}
		var deleted int
		var freed int64
		err := env.Sessions().Each(func(_ string, s *sqlite.Store) error {
			was, errWas := s.Size(cmd.Context())
			n, err := s.Prune(cmd.Context(), before, int64(most))
			is, errIs := s.Size(cmd.Context())
			deleted, freed = deleted+n, freed+was-is
			return errors.Join(err, errWas, errIs)
		})
		if err != nil {
			return err
		}
		if env.JSON {
			return env.PrintJSON(map[string]int64{"deleted": int64(deleted), "freed": freed})
		}
		return env.Printf("%s deleted, %.1f MiB freed\n", visible.Plural(deleted, "session"), float64(freed)/(1<<20))
	}}
	cmd.Flags().TextVar(&older, "older", config.Age(0), "delete what was not used for this `AGE`, such as 30d or 12h")
	cmd.Flags().TextVar(&most, "max", config.Size(0), "delete the oldest ones while a node has more than this `SIZE`, such as 1GiB")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
