package sessioncmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"symbio/agent/session"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/session/sqlite"
	"symbio/internal/agent/session/undo"
	"symbio/internal/security/visible"
)

// cmdUndo returns the command sessions undo. Its exit status is 1 if a file was not put back, 3 after
// a no, and 4 if there is nothing to put back.
func cmdUndo(env *command.Env) *cobra.Command {
	var yes, dry bool
	cmd := &cobra.Command{Use: "undo ID [TURN]", Args: command.RangeArgs(1, 2), RunE: func(cmd *cobra.Command, args []string) error {
		turn, err := undo.ParseTurn(append(args, "")[1])
		if err != nil {
			return command.Usage(err)
		}
		return env.Sessions().Open(cmd.Context(), args[0], func(s *sqlite.Store, i session.Info) error {
			if i.Parent != "" {
				return command.Usage(fmt.Errorf("session %s is that of a sub-agent; write %s, that of the agent for which it worked", i.ID, i.Root))
			}
			p, err := undo.New(cmd.Context(), s, i.ID, turn)
			switch {
			case errors.Is(err, undo.ErrNothing):
				return command.NotFound(err)
			case err != nil:
				return err
			case env.JSON && (dry || !yes):
				return env.PrintJSON(p)
			case !env.JSON:
				if err := env.PrintText(p.Text()); err != nil || dry {
					return err
				}
			}
			if !yes {
				if !env.InIsTerminal {
					return command.Usage(errors.New("the undo needs a yes, and there is no terminal to ask on; write --yes"))
				}
				if ok, err := env.Confirm(cmd.Context(), "Put them back?"); !ok || err != nil {
					return command.Denied(errors.Join(err, errors.New("nothing was put back")))
				}
			}
			return apply(env, p)
		})
	}}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show what would be put back")
	return cmd
}

// apply puts the files of a plan back and prints what was done.
func apply(env *command.Env, p *undo.Plan) error {
	done, err := p.Apply()
	if err == nil && env.JSON {
		err = env.PrintJSON(p)
	} else if err == nil {
		err = env.Printf("%s put back\n", visible.Plural(done, "file"))
	}
	if err == nil && done < len(p.Files) {
		err = fmt.Errorf("%s not put back", visible.Plural(len(p.Files)-done, "file"))
	}
	return err
}
