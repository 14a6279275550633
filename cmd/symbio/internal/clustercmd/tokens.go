package clustercmd

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/security/identity"
)

// cmdClusterTokens returns the command cluster tokens, which lists the open tokens of this machine and has the command
// that revokes one. They work only where the authority is held.
func cmdClusterTokens(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:  "tokens",
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := env.State().OpenCluster()
			if err != nil {
				return err
			}
			open, err := c.Ledger().OpenTokens()
			if err != nil {
				return err
			}
			return command.PrintList(env, open, []string{"TOKEN", "ROLE", "MADE", "ENDS", "LABELS"}, tokenRow)
		},
	}
	cmd.AddCommand(cmdClusterTokensRevoke(env))
	return cmd
}

// tokenRow returns the columns of one token. When a token of an older version was made is not known.
func tokenRow(t identity.OpenToken) []string {
	made := ""
	if !t.Created.IsZero() {
		made = t.Created.Format(time.RFC3339)
	}
	return []string{t.ID, t.Role, made, t.Expires.Format(time.RFC3339), command.PairsText(t.Labels)}
}

// minTokenPrefix is how many digits name a token at least, so that a slip of the keyboard names none.
const minTokenPrefix = 4

// cmdClusterTokensRevoke returns the command cluster tokens revoke. Its exit status is 4 when no open token has that id.
func cmdClusterTokensRevoke(env *command.Env) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:  "revoke [TOKEN]",
		Args: command.RangeArgs(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if all == (len(args) == 1) {
				return command.Usage(errors.New("name the token that is revoked, or all of them with --all"))
			}
			c, err := env.State().OpenCluster()
			if err != nil {
				return err
			}
			open, err := c.Ledger().OpenTokens()
			if err != nil {
				return err
			}
			if !all {
				if open, err = findToken(open, args[0]); err != nil {
					return err
				}
			}
			for _, t := range open {
				if err := c.Ledger().RevokeToken(t.ID); err != nil {
					return err
				}
				if !env.JSON {
					if err := env.Printf("revoked\t%s\t%s\n", t.ID, t.Role); err != nil {
						return err
					}
				}
			}
			if env.JSON {
				return env.PrintJSON(append([]identity.OpenToken{}, open...))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "revoke all open tokens of this machine")
	return cmd
}

// findToken returns the open token with that id or beginning of an id.
func findToken(open []identity.OpenToken, id string) ([]identity.OpenToken, error) {
	var found []identity.OpenToken
	for _, t := range open {
		if len(id) >= minTokenPrefix && strings.HasPrefix(t.ID, id) {
			found = append(found, t)
		}
	}
	switch len(found) {
	case 0:
		return nil, command.NotFound(fmt.Errorf("no open token %.16q; `symbio cluster tokens` lists them", id))
	case 1:
		return found, nil
	}
	return nil, command.Usage(fmt.Errorf("%d open tokens begin with %q: write more of the id", len(found), id))
}
